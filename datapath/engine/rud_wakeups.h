#pragma once

// Decides when a RUD window wakes the handlers that it is bound to (interrupts
// of document C). A window without handlers does not have this object: each
// burst only pays for one comparison.
//
// Threads: the holder of the token, except for Deliver(). Bind() is called by a
// thread that also excludes Deliver().

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "datapath/engine/wake_handler.h"
#include "transport/base/time.h"
#include "transport/rud/wake.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic {

struct WakeRules {
  // Wake a handler when the program has not returned this number of entries.
  // kNever: only the time counts.
  static constexpr uint32_t kNever = UINT32_MAX;
  uint32_t entries = 1;
  // If not 0, also when an entry has waited for this time. It may wait less:
  // the time begins with the first entry after the last wake-up.
  Duration delay;
  // Also when the first packet of a transfer that notifies the target arrives.
  // The packet is not in memory yet, so waking up and placing overlap. This is
  // only a hint: if no handler is ready, none is woken later.
  bool early = false;
};

class RudWakeups {
 public:
  // `indices`: of the receive FIFO. They outlive this.
  explicit RudWakeups(const urnic_queue_indices* indices)
      : indices_(*indices) {}
  RudWakeups(const RudWakeups&) = delete;
  RudWakeups& operator=(const RudWakeups&) = delete;

  // Entries that are already in the FIFO count, too.
  void Bind(const WakeRules& rules,
            std::vector<std::shared_ptr<WakeHandler>> handlers, Time now);
  size_t handlers() const { return handlers_.size(); }
  const WakeRules& rules() const { return rules_; }

  // `published`: entries of the FIFO so far.
  void OnPublished(uint32_t published, Time now) {
    if (std::exchange(published_, published) != published) OnEntries(now);
  }
  // The first packet of a transfer that notifies the target has arrived.
  void OnBegun() {
    if (rules_.early) Hint();
  }
  // Wakes a handler for something else, if one is ready.
  void Hint();
  void OnTimer(Time now);
  Time deadline() const { return deadline_; }

  // A handler has become ready.
  void Deliver() {
    rud::Deliver(pending_, handlers_, [this] { return HasUnread(); });
  }

 private:
  void OnEntries(Time now);
  void Tell();
  bool HasUnread() const {
    return Load(indices_.producer) != Load(indices_.consumer);
  }
  static uint32_t Load(const uint32_t& index) {
    return std::atomic_ref(const_cast<uint32_t&>(index))
        .load(std::memory_order_acquire);
  }

  const urnic_queue_indices& indices_;  // the program may write anything to it
  rud::Claim<std::atomic> pending_;
  std::vector<std::shared_ptr<WakeHandler>> handlers_;
  WakeRules rules_;
  uint32_t published_ = 0;
  Time deadline_ = Time::Infinite();
};

}  // namespace urnic
