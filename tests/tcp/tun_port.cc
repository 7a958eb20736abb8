#include "tests/tcp/tun_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace urnic::testing {
namespace {

constexpr char kName[] = "tcp0";

ifreq Request() {
  ifreq request = {};
  std::memcpy(request.ifr_name, kName, sizeof(kName));
  return request;
}

void SetAddress(ifreq& request, const char* address) {
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  inet_pton(AF_INET, address, &in.sin_addr);
  std::memcpy(&request.ifr_addr, &in, sizeof(in));
}

// Returns what failed, or null.
const char* BringUp(const std::string& address, uint32_t mtu) {
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (control < 0) return "socket";
  const auto set = [&](unsigned long what, ifreq request) {
    return ioctl(control, what, &request) == 0;
  };
  ifreq own = Request();
  ifreq mask = Request();
  ifreq size = Request();
  ifreq up = Request();
  SetAddress(own, address.c_str());
  SetAddress(mask, "255.255.255.0");
  size.ifr_mtu = static_cast<int>(mtu);
  up.ifr_flags = IFF_UP | IFF_RUNNING;
  const char* failed = nullptr;
  if (!set(SIOCSIFADDR, own)) failed = "SIOCSIFADDR";
  if (!set(SIOCSIFNETMASK, mask)) failed = "SIOCSIFNETMASK";
  if (!set(SIOCSIFMTU, size)) failed = "SIOCSIFMTU";
  if (!set(SIOCSIFFLAGS, up)) failed = "SIOCSIFFLAGS";
  close(control);
  return failed;
}

}  // namespace

TunPort::TunPort(const std::string& kernel_address, uint32_t mtu) {
  if (const char* what = Open(kernel_address, mtu)) {
    error_ = std::string(what) + ": " + std::strerror(errno);
  }
}

const char* TunPort::Open(const std::string& kernel_address, uint32_t mtu) {
  if (unshare(CLONE_NEWNET) != 0) return "unshare(CLONE_NEWNET)";
  fd_ = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd_ < 0) return "/dev/net/tun";
  ifreq request = Request();
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(fd_, TUNSETIFF, &request) != 0) return "TUNSETIFF";
  return BringUp(kernel_address, mtu);
}

TunPort::~TunPort() {
  if (fd_ >= 0) close(fd_);
}

size_t TunPort::Read(std::span<uint8_t> packet) {
  const ssize_t bytes = read(fd_, packet.data(), packet.size());
  return bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

void TunPort::Write(std::span<const uint8_t> packet) {
  (void)!write(fd_, packet.data(), packet.size());
}

}  // namespace urnic::testing
