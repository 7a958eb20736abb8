#pragma once

// Watches a kernel interface, and the packet socket that DPDK's af_packet
// driver opened on it. The driver itself neither reports that the interface was
// removed nor provides a descriptor to wait for.

#include <cstdint>
#include <string>

namespace urnic {

struct InterfaceState {
  int index = 0;         // 0: does not exist; a new one has a new index
  bool running = false;  // up, and its other end is up too
  int mtu = 0;           // bytes of an IP packet; 0: unknown
};

// One user thread.
class InterfaceWatch {
 public:
  explicit InterfaceWatch(std::string name);
  ~InterfaceWatch();
  InterfaceWatch(const InterfaceWatch&) = delete;
  InterfaceWatch& operator=(const InterfaceWatch&) = delete;

  // Readable when an interface of this network namespace has changed. -1 if
  // netlink is not available: then look periodically.
  int fd() const { return netlink_; }
  // Empties fd() and reads the state.
  InterfaceState Read();

 private:
  const std::string name_;
  int netlink_ = -1;
  int ioctl_socket_ = -1;
};

// The driver's socket on the interface: readable while frames wait. -1 if it
// cannot be identified. The descriptor belongs to the driver.
int FindPacketSocket(int interface_index);

// Makes the interface promiscuous while the socket exists (unlike IFF_PROMISC,
// which a crash leaves set), and prevents the host's own outgoing frames from
// being received. Returns 0 or an errno.
int PreparePacketSocket(int fd, int interface_index);

// Clears the error that the kernel set on the socket when the interface went
// down. Otherwise the next send would fail, and its frames would wait in the
// ring.
void ForgetPacketSocketError(int fd);

// Frames lost because the receive ring was full, since the last call.
uint32_t TakePacketSocketDrops(int fd);

}  // namespace urnic
