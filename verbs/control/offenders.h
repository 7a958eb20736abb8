#pragma once

// Offences of this program: what it does, or fails to do, that keeps an object,
// a port or a device from closing or recovering (document E, 5.1.1). `urnic
// show offender` prints them, and `urnic guard` acts on them.
//
// Threads: any.

#include <cstdint>
#include <list>
#include <mutex>
#include <string>

namespace urnic::control {

class OpenNic;

enum class Offence : uint8_t {
  kRecovery,  // queue pairs that failed are not destroyed
  kThread,    // a thread does not leave a verb
  kEvents,    // events are not acknowledged
};

class Offenders {
 public:
  // Adds an offence, until Remove() of the returned number. `what`: one line.
  uint64_t Add(Offence offence, std::string what);
  void Remove(uint64_t number);

  // Appends a line of facts for each offence.
  void Describe(const OpenNic& nic, std::string& out) const;

 private:
  struct Entry {
    uint64_t number;
    Offence offence;
    std::string what;
    int64_t since_ns;  // WallTimeNow()
  };
  mutable std::mutex mutex_;
  uint64_t last_ = 0;
  std::list<Entry> entries_;
};

}  // namespace urnic::control
