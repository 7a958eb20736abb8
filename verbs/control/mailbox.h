#pragma once

// Tells posting and polling threads, by one load, that a device has failed
// (urnic_mailbox of verbs/abi). Any thread.

#include <atomic>
#include <cstdint>

#include "verbs/abi/rnic_abi.h"

namespace urnic::control {

inline uint32_t StateIn(const urnic_mailbox& mailbox) {
  return std::atomic_ref(const_cast<uint32_t&>(mailbox.state))
      .load(std::memory_order_relaxed);
}
// The device fails or has failed: nothing can be posted.
inline bool IsFailing(const urnic_mailbox& mailbox) {
  return __builtin_expect(StateIn(mailbox) != URNIC_DEVICE_WORKS, 0);
}
// The device has failed, and all flushed completions are visible: no more will
// come.
inline bool HasFailed(const urnic_mailbox& mailbox) {
  if (__builtin_expect(StateIn(mailbox) != URNIC_DEVICE_FAILED, 1))
    return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}

}  // namespace urnic::control
