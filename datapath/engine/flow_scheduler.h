#pragma once

// Decides which flows of an engine run, and when. It keeps the flows that have
// something to send, the timers, and the flows that have just failed. Token
// holder only; inline, for the loop that includes it.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "datapath/engine/environment.h"
#include "datapath/engine/flow.h"
#include "datapath/engine/path_table.h"
#include "datapath/engine/ready_list.h"
#include "datapath/engine/timer_wheel.h"
#include "transport/base/mutation.h"
#include "transport/base/time.h"
#include "transport/work/types.h"

namespace urnic {

class FlowScheduler {
 public:
  // All outlive the scheduler. `*now` is the current time of the engine.
  FlowScheduler(const Time* now, FlowSink* sink, const Environment* environment)
      : now_(now), sink_(sink), environment_(environment), wheel_(*now) {}
  FlowScheduler(const FlowScheduler&) = delete;
  FlowScheduler& operator=(const FlowScheduler&) = delete;

  // Call this when a flow is created, so that there are `count` flows now. All
  // of them may fail together, when nothing can be allocated.
  void Reserve(size_t count) {
    if (late_looks_.capacity() < count) late_looks_.reserve(2 * count);
  }
  // Forgets the flow: its timer, its turn to send, and that it has failed.
  void Remove(Flow& flow) {
    wheel_.Remove(flow);
    std::erase_if(late_looks_,
                  [&](const LateLook& l) { return l.flow == &flow; });
    flow.ShowFailed(false);
    ready_.Remove(flow);
  }

  // --- What a flow wants -----------------------------------------------------

  // Carries out the result of a call: sets the flow's timer, updates the ready
  // list, and tells the owner of an event.
  void Apply(Flow& flow, const FlowResult& result) {
    flow.Note(result);
    if (__builtin_expect(result.state == QpState::kErr, 0)) OnError(flow);
    if (__builtin_expect(result.event != QpEvent::kNone, 0)) {
      flow.OnEvent(result.event);
    }
    MUTATION_SKIPS(engine_forgets_who_is_ready)
    if (result.has_work) ready_.Push(flow);
    if (result.waits != PathWait::kNo || result.lets_go) {
      FollowPath(RoceQp::Of(flow), result);
    }
    wheel_.Schedule(flow, result.deadline);
  }
  // Something may have been posted to the flow.
  void OnPost(Flow& flow) {
    //= IBTA 10.3.1: requests posted to a queue in error are flushed: sends in
    //= SQE and ERR, receives in ERR
    if (__builtin_expect(flow.state() >= QpState::kSqe, 0)) {
      return Apply(flow, flow.Settle(*sink_));
    }
    // Transmit() finds out whether there is anything to send.
    flow.OnDoorbell();
    ready_.Push(flow);
  }

  // How many packets the port can hold; 0: unknown.
  void SetPortRoom(uint32_t packets) {
    if (packets != 0) paths_.SetPortRoom(packets);
  }
  // A queue pair of RC shares a window with the others to the same destination.
  // Call JoinPath() again when its path leads to another destination.
  void JoinPath(RoceQp& qp) {
    if (PathTable::Follows(qp)) return;
    LeavePath(qp);
    paths_.Join(qp);
    CompareClocks(*qp.destination);
  }
  void LeavePath(RoceQp& qp) {
    Destination* const left = paths_.Leave(qp);
    if (left != nullptr) PathTable::LetGo(*left, ready_);
  }

  void AddRoundTrips(cc::RoundTripCounts& to) const {
    paths_.AddRoundTrips(to);
  }

  // The flows that have something to send, in turn.
  ReadyList<Flow>& ready() { return ready_; }
  const ReadyList<Flow>& ready() const { return ready_; }

  // --- Time ------------------------------------------------------------------

  // Fires the timers that are due. True if there were any. Calls
  // `on_silence(flow)` for a flow whose packets were not answered in time. If
  // `hold` is not 0, the port sends nothing: the timers of flows that need it
  // are postponed by `hold`. Otherwise these flows would use up their retries
  // although no packet has left the host.
  template <typename F>
  bool FireTimers(Time now, Duration hold, F&& on_silence) {
    bool fired = false;
    if (!wheel_.Due(now)) return fired;
    wheel_.Fire(now, [&](Flow& flow) {
      if (__builtin_expect(hold != Duration(), 0) &&
          flow.state() != QpState::kErr && flow.needs_port()) {
        flow.OnOutage(now);
        return wheel_.Schedule(flow, now + hold);
      }
      const FlowResult result = flow.OnTimer(now, *sink_);
      MUTATION_ADDS(engine_forgets_timeouts,
                    return wheel_.Schedule(flow, result.deadline);)
      if (result.timed_out) on_silence(flow);
      Apply(flow, result);
      fired = true;
    });
    return fired;
  }
  Time NextDeadline() const { return wheel_.NextDeadline(); }

  // --- Failed flows ----------------------------------------------------------

  // A thread that posts while a flow fails may not see the flag of
  // Flow::ShowFailed() yet, and then does not ring the doorbell. So the engine
  // keeps looking at the flow for kStoresVisible: no processor delays a store
  // for that long, and later posts do ring. The engine must stop looking,
  // because thousands of flows may fail together.
  bool any_late_look() const { return !late_looks_.empty(); }
  [[gnu::cold]] void LookForLatePosts(Time now) {
    for (size_t i = 0; i < late_looks_.size(); ++i) {
      OnPost(*late_looks_[i].flow);
    }
    std::erase_if(late_looks_,
                  [now](const LateLook& l) { return l.until <= now; });
  }
  // The flow has gone to ERR. False: the scheduler knew that already.
  [[gnu::cold]] bool WatchLatePosts(Flow& flow) {
    if (flow.ShowFailed(true)) return false;
    late_looks_.push_back({&flow, *now_ + kStoresVisible});
    // Flushes what was posted before other threads could see the flag.
    (void)flow.Settle(*sink_);
    return true;
  }
  // From now on requests posted to `from` are served by `to`.
  [[gnu::cold]] void PassLateLooks(const Flow& from, Flow& to) {
    for (LateLook& look : late_looks_) {
      if (look.flow == &from) look.flow = &to;
    }
  }

 private:
  static constexpr Duration kStoresVisible = Duration::Milliseconds(1);
  struct LateLook {
    Flow* flow;
    Time until;
  };

  [[gnu::noinline]] void FollowPath(RoceQp& qp, const FlowResult& result) {
    if (result.waits != PathWait::kNo) {
      qp.destination->path.OnFull(*now_);
      PathTable::Wait(qp, result.waits);
    }
    if (result.lets_go) PathTable::LetGo(*qp.destination, ready_);
    if (*now_ >= qp.destination->compare_at) CompareClocks(*qp.destination);
  }
  // All hosts drain their queues at the same wall-clock time (DelayWindow). The
  // wall clock may be set, and the engine's clock drifts, so their difference
  // is measured again and again.
  [[gnu::cold]] void CompareClocks(Destination& destination) {
    destination.path.cc.to_wall =
        Duration::Nanoseconds(environment_->WallClockNs(*now_) - now_->ns());
    destination.compare_at = *now_ + Duration::Seconds(10);
  }
  [[gnu::cold]] void OnError(Flow& flow) {
    if (WatchLatePosts(flow)) flow.OnFailed();
  }

  const Time* const now_;
  FlowSink* const sink_;
  const Environment* const environment_;
  ReadyList<Flow> ready_;
  PathTable paths_;
  std::vector<LateLook> late_looks_;
  TimerWheel<Flow> wheel_;
};

}  // namespace urnic
