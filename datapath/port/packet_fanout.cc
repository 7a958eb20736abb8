#include "datapath/port/packet_fanout.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace urnic {
namespace {

thread_local bool t_without_fanout = false;
thread_local tpacket_req t_transmit_ring = {};

}  // namespace

WithoutFanout::WithoutFanout() {
  t_without_fanout = true;
  t_transmit_ring = {};
}

WithoutFanout::~WithoutFanout() { t_without_fanout = false; }

tpacket_req WithoutFanout::transmit_ring() { return t_transmit_ring; }

// The names are the linker's.
extern "C" {

int __wrap_setsockopt(int fd, int level, int option, const void* value,
                      socklen_t bytes);

int __wrap_setsockopt(int fd, int level, int option, const void* value,
                      socklen_t bytes) {
  if (t_without_fanout && level == SOL_PACKET && option == PACKET_FANOUT) {
    return 0;
  }
  if (t_without_fanout && level == SOL_PACKET && option == PACKET_TX_RING &&
      bytes == sizeof(t_transmit_ring)) {
    std::memcpy(&t_transmit_ring, value, sizeof(t_transmit_ring));
  }
  // Not the libc function: another preloaded library may have replaced it.
  return static_cast<int>(
      syscall(SYS_setsockopt, fd, level, option, value, bytes));
}
}

}  // namespace urnic
