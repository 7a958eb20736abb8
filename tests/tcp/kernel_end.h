#pragma once

// The kernel's end of the connection: a socket.

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/tcp/pattern.h"

namespace urnic::testing {

class KernelEnd {
 public:
  // `address` 0: listens on `port`; else connects to it. Sends and expects so
  // many bytes of the patterns of `seed` (to us: seed, from us: seed + 1).
  KernelEnd(uint32_t address, uint16_t port, uint64_t send, uint64_t receive,
            uint64_t seed);
  ~KernelEnd();
  KernelEnd(const KernelEnd&) = delete;
  KernelEnd& operator=(const KernelEnd&) = delete;

  // Makes one connection, exchanges the data, and closes. In its own thread.
  void Run();
  // From another thread: Run() returns soon.
  void Stop() { stop_ = true; }

  bool done() const { return done_; }
  // After Run():
  bool ok() const { return ok_; }
  std::string Report() const { return report_; }

 private:
  // -1: none in time.
  int Accept();
  int Connect();
  void Exchange(int fd);

  const uint64_t send_;
  const uint64_t receive_;
  const Pattern outgoing_;
  const Pattern incoming_;
  const uint32_t address_;
  const uint16_t port_;
  int listener_ = -1;
  std::atomic<bool> stop_{false};
  std::atomic<bool> done_{false};
  bool ok_ = false;
  std::string report_ = "no connection";
};

}  // namespace urnic::testing
