#pragma once

// Writes the errors of a port (ring_facts.h) to the places that the user has
// chosen: URNIC_LOG=journal,syslog,json:FILE (ras/log/log_target.h). Its thread
// sleeps until something fails. The engine never waits for it: if errors come
// faster than it can write them, it skips the oldest, and writes a record with
// ErrorCode::kSuppressed that has their number.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ras/log/log_target.h"
#include "transport/base/time.h"

namespace urnic::control {

class OpenNic;

class ErrorLog {
 public:
  // Null: URNIC_LOG is not set, or names no valid place. Reports invalid places
  // to the user, and places that cannot be written now. The latter are tried
  // again with each error. `nic` outlives the log.
  static std::unique_ptr<ErrorLog> Start(OpenNic& nic);
  // Writes the remaining errors.
  ~ErrorLog();
  ErrorLog(const ErrorLog&) = delete;
  ErrorLog& operator=(const ErrorLog&) = delete;

  // At exit(): waits until all errors so far are written, or `patience` is
  // over.
  void AwaitWritten(Duration patience);

 private:
  struct Place {
    std::string name;  // as in URNIC_LOG
    std::unique_ptr<LogTarget> target;
    bool told = false;  // the user knows that this place loses errors
  };

  explicit ErrorLog(OpenNic& nic) : nic_(nic) {}
  // Appends to places_ what URNIC_LOG names.
  void FindPlaces();
  void TellOf(Place& place, int error) const;
  bool StartThread();
  // Any thread, also the holder of the token.
  void Wake();
  void Run();
  void WriteNew();
  void Write(std::string_view line);
  // Errors that were replaced before they could be written.
  void TellOfLost(uint64_t lost);

  OpenNic& nic_;
  std::vector<Place> places_;  // only for the thread once it runs
  int wake_fd_ = -1;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> asked_ = 0;    // calls of Wake()
  std::atomic<uint64_t> written_ = 0;  // of these, served
  uint64_t next_ = 0;                  // the first error not written yet
  std::thread thread_;
};

}  // namespace urnic::control
