#pragma once

// A TUN interface in a network namespace of its own: the kernel's IP on one
// side, a program that reads and writes IP packets on the other.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace urnic::testing {

class TunPort {
 public:
  // Moves the calling process to a new network namespace, and makes the
  // interface there with the kernel's address `kernel_address`/24. If that
  // fails, error() says why.
  TunPort(const std::string& kernel_address, uint32_t mtu);
  ~TunPort();
  TunPort(const TunPort&) = delete;
  TunPort& operator=(const TunPort&) = delete;

  const std::string& error() const { return error_; }
  // From now on; false: errno says why.
  bool SetMtu(uint32_t mtu);
  int fd() const { return fd_; }
  // The next packet; its length, or 0 if there is none now.
  size_t Read(std::span<uint8_t> packet);
  // A packet that the kernel has no room for is lost, as on a wire.
  void Write(std::span<const uint8_t> packet);

 private:
  // Returns what failed (errno says why), or null.
  const char* Open(const std::string& kernel_address, uint32_t mtu);

  std::string error_;
  int fd_ = -1;
};

}  // namespace urnic::testing
