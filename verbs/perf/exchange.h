#pragma once

// What two ends tell each other before and after a test, over the kernel's TCP
// as perftest does it.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace urnic::perf {

class Exchange {
 public:
  // Waits for one client. An empty host means all addresses.
  static absl::StatusOr<Exchange> Listen(uint16_t port);
  // Tries for ten seconds: the server may be starting.
  static absl::StatusOr<Exchange> Connect(const std::string& host,
                                          uint16_t port);
  ~Exchange();
  Exchange(Exchange&& other) noexcept;
  Exchange& operator=(Exchange&&) = delete;

  // A message of up to kMostBytes.
  static constexpr uint32_t kMostBytes = 4096;
  absl::Status Send(const std::vector<uint8_t>& message);
  absl::StatusOr<std::vector<uint8_t>> Receive();
  // A message has come, or the other end is gone. Does not wait.
  bool HasNews() const;

 private:
  explicit Exchange(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace urnic::perf
