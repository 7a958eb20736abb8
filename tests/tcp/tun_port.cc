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

bool Set(unsigned long what, ifreq request) {
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (control < 0) return false;
  const bool ok = ioctl(control, what, &request) == 0;
  const int error = errno;
  close(control);
  errno = error;
  return ok;
}

ifreq Size(uint32_t mtu) {
  ifreq size = Request();
  size.ifr_mtu = static_cast<int>(mtu);
  return size;
}

// Returns what failed, or null.
const char* BringUp(const std::string& address, uint32_t mtu) {
  ifreq own = Request();
  ifreq mask = Request();
  ifreq up = Request();
  SetAddress(own, address.c_str());
  SetAddress(mask, "255.255.255.0");
  up.ifr_flags = IFF_UP | IFF_RUNNING;
  if (!Set(SIOCSIFADDR, own)) return "SIOCSIFADDR";
  if (!Set(SIOCSIFNETMASK, mask)) return "SIOCSIFNETMASK";
  if (!Set(SIOCSIFMTU, Size(mtu))) return "SIOCSIFMTU";
  if (!Set(SIOCSIFFLAGS, up)) return "SIOCSIFFLAGS";
  return nullptr;
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

bool TunPort::SetMtu(uint32_t mtu) { return Set(SIOCSIFMTU, Size(mtu)); }

size_t TunPort::Read(std::span<uint8_t> packet) {
  const ssize_t bytes = read(fd_, packet.data(), packet.size());
  return bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

void TunPort::Write(std::span<const uint8_t> packet) {
  (void)!write(fd_, packet.data(), packet.size());
}

}  // namespace urnic::testing
