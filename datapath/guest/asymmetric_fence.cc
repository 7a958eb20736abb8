#include "datapath/guest/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace urnic {

namespace internal {
bool g_light_fence_is_free = false;
}  // namespace internal

void EnableAsymmetricFence() {
  internal::g_light_fence_is_free =
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0,
              0) == 0;
}

void HeavyFence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!internal::g_light_fence_is_free) return;
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0) {
    return;
  }
  // The program has forbidden the call meanwhile (seccomp). Stores become
  // visible within microseconds anyway; no processor holds one back for this
  // long.
  const timespec ten_ms = {.tv_sec = 0, .tv_nsec = 10'000'000};
  nanosleep(&ten_ms, nullptr);
}

}  // namespace urnic
