#pragma once

// A store-load fence that costs nothing on the side that runs often.
//
// Two threads that each store to one word and then load the other's need a full
// fence on both sides, 20 to 30 cycles. If one side is hot and the other rare,
// the rare side can pay for both: membarrier(2) interrupts every core that runs
// this process.
//
//   hot:  mine = 1; LightFence(); if (theirs) ...
//   rare: theirs = 1; HeavyFence(); if (mine) ...

#include <atomic>

namespace urnic {

namespace internal {
// Written once by EnableAsymmetricFence(), before any second thread.
extern bool g_light_fence_is_free;
}  // namespace internal

// Registers with the kernel; without registration both fences are full fences.
// Called once, by StartEal().
void EnableAsymmetricFence();

// Whether LightFence() only stops the compiler.
inline bool LightFenceIsFree() { return internal::g_light_fence_is_free; }

inline void LightFence() {
#ifndef __SANITIZE_THREAD__
  if (__builtin_expect(internal::g_light_fence_is_free, 1)) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return;
  }
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Takes microseconds.
void HeavyFence();

}  // namespace urnic
