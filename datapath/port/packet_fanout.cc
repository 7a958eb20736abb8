#include "datapath/port/packet_fanout.h"

#include <linux/if_packet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace urnic {
namespace {

thread_local bool t_without_fanout = false;

}  // namespace

WithoutFanout::WithoutFanout() { t_without_fanout = true; }
WithoutFanout::~WithoutFanout() { t_without_fanout = false; }

// The names are the linker's.
extern "C" {

int __wrap_setsockopt(int fd, int level, int option, const void* value,
                      socklen_t bytes);

int __wrap_setsockopt(int fd, int level, int option, const void* value,
                      socklen_t bytes) {
  if (t_without_fanout && level == SOL_PACKET && option == PACKET_FANOUT) {
    return 0;
  }
  // Not the libc function: another preloaded library may have replaced it.
  return static_cast<int>(
      syscall(SYS_setsockopt, fd, level, option, value, bytes));
}
}

}  // namespace urnic
