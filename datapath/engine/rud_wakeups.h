#pragma once

// When a window of RUD tells the handlers that it is bound to (document C,
// interrupts). A window without handlers has none of this, and its packets pay
// for one comparison per burst.
//
// Threads. The holder of the token, except for Deliver(). The list of handlers
// is changed by a thread that holds the token and excludes Deliver().

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
  // So many entries that the program has not returned; kNever: only the time
  // counts.
  static constexpr uint32_t kNever = UINT32_MAX;
  uint32_t entries = 1;
  // Or, if not 0, an entry that has waited for so long. It may be less: the
  // time begins with the first entry after the last notice.
  Duration delay;
  // A transfer that the window will be told of has begun to arrive: its first
  // packet is not in memory yet, so the wake-up and the placement overlap. Only
  // a hint: it does not wait for a handler.
  bool early = false;
};

class RudWakeups {
 public:
  // `indices`: of the receive FIFO. They outlive this.
  explicit RudWakeups(const urnic_queue_indices* indices)
      : indices_(*indices) {}
  RudWakeups(const RudWakeups&) = delete;
  RudWakeups& operator=(const RudWakeups&) = delete;

  // What is in the FIFO already counts, too.
  void Bind(const WakeRules& rules,
            std::vector<std::shared_ptr<WakeHandler>> handlers, Time now);
  size_t handlers() const { return handlers_.size(); }
  const WakeRules& rules() const { return rules_; }

  // `published`: entries of the FIFO so far.
  void OnPublished(uint32_t published, Time now) {
    if (std::exchange(published_, published) != published) OnEntries(now);
  }
  // A transfer begins to arrive.
  void OnBegun() {
    if (rules_.early) Hint();
  }
  // Something else that the program should see, if it sleeps.
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

  const urnic_queue_indices& indices_;  // the program may write anything there
  rud::Claim<std::atomic> pending_;
  std::vector<std::shared_ptr<WakeHandler>> handlers_;
  WakeRules rules_;
  uint32_t published_ = 0;
  Time deadline_ = Time::Infinite();
};

}  // namespace urnic
