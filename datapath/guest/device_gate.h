#pragma once

// Lets one hot thread use a device that other threads may withdraw at any
// moment, without a lock or a fence instruction on the hot side.

#include <atomic>
#include <cstdint>

#include "datapath/guest/asymmetric_fence.h"
#include "datapath/guest/give_way.h"

namespace urnic {

class alignas(64) DeviceGate {
 public:
  // The state that the hot thread has found; valid until Leave().
  class View {
   public:
    explicit View(uint32_t word) : word_(word) {}
    bool present() const { return (word_ & kIdMask) != 0; }
    // The device is present and has a peer: frames that are sent can arrive.
    bool carrier() const { return word_ > (kCarrier | kOpen); }
    // The gate is not barred: received frames are accepted.
    bool open() const { return (word_ & kOpen) != 0; }
    // Does not say whether the device is published.
    bool has_carrier_bit() const { return (word_ & kCarrier) != 0; }
    // REQUIRES: present().
    uint16_t id() const { return static_cast<uint16_t>(word_ - 1); }

   private:
    uint32_t word_;
  };

  // Hot: one thread at a time, not nested.
  View Enter() {
    inside_.store(1, std::memory_order_relaxed);
    LightFence();
    return View(word_.load(std::memory_order_acquire));
  }
  void Leave() { inside_.store(0, std::memory_order_release); }

  // For the keeper. Withdraw() returns when the hot thread is outside and will
  // not see the device again; the carrier is down then, too.
  void Publish(uint16_t id) {
    word_.fetch_or(id + 1u, std::memory_order_release);
  }
  void Withdraw() {
    word_.fetch_and(kOpen, std::memory_order_relaxed);
    AwaitOutside();
  }
  // For fault injection: acts as if the link were down.
  void SetBarred(bool barred) {
    if (barred) {
      word_.fetch_and(~kOpen, std::memory_order_relaxed);
    } else {
      word_.fetch_or(kOpen, std::memory_order_release);
    }
  }

  // Any thread. SetCarrier(false) returns when the hot thread is outside,
  // because the caller, a driver's link callback, may then free what that
  // thread has used.
  void SetCarrier(bool up) {
    if (up) {
      word_.fetch_or(kCarrier, std::memory_order_release);
    } else {
      word_.fetch_and(~kCarrier, std::memory_order_relaxed);
      AwaitOutside();
    }
  }

  // Any thread but the hot one. Returns when the hot thread is outside; it may
  // enter again immediately.
  void AwaitOutside() {
    HeavyFence();
    while (inside_.load(std::memory_order_acquire) != 0) GiveWay();
  }

  // Any thread, for display: may be outdated when it returns.
  View Peek() const { return View(word_.load(std::memory_order_relaxed)); }

 private:
  static constexpr uint32_t kCarrier = 1u << 31;
  static constexpr uint32_t kOpen = 1u << 30;
  static constexpr uint32_t kIdMask = 0x1ffff;

  std::atomic<uint32_t> word_ = kOpen;  // device id + 1, and the two bits
  std::atomic<uint32_t> inside_ = 0;    // written by the hot thread only
};
static_assert(sizeof(DeviceGate) == 64);

}  // namespace urnic
