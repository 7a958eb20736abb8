#pragma once

// The engine of one port: the loop that receives, steers, lets the transport
// work, places, completes and transmits; with the tables that it needs.
//
// Threads. Everything is done by whoever holds the token
// (datapath/engine/token.h): a program thread inside Doorbell() or Progress(),
// the helper thread when no program thread looks, or a control call inside a
// ControlScope. There is no other lock, and the data path never waits for the
// token.
//
// Clock: the engine is the only reader of the clock on the packet path, once
// per iteration and once per doorbell.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/engine/address_table.h"
#include "datapath/engine/completion_writer.h"
#include "datapath/engine/engine_qp.h"
#include "datapath/engine/groups.h"
#include "datapath/engine/gsi.h"
#include "datapath/engine/number_table.h"
#include "datapath/engine/pending_set.h"
#include "datapath/engine/qp_table.h"
#include "datapath/engine/ready_list.h"
#include "datapath/engine/timer_wheel.h"
#include "datapath/engine/token.h"
#include "datapath/engine/transmit_queue.h"
#include "datapath/memory/guarded_memory.h"
#include "datapath/port/port.h"
#include "ras/metrics/counters.h"
#include "transport/mem/mr_table.h"
#include "transport/net/host.h"
#include "transport/wire/frame.h"

namespace urnic {

class HelperThread;

struct EngineConfig {
  Port* port = nullptr;                      // outlives the engine
  std::vector<net::LocalAddress> addresses;  // that are ours
  // The P_Key table, for QP1; other queue pairs have their own of it.
  std::vector<uint16_t> pkeys = {0xffff};
  uint32_t max_qps = kMaxQueuePairs;
  uint32_t max_mrs = 1u << 18;  // a power of two
  // The order of QPNs and keys. Drawn if it is not given.
  std::optional<NumberKey> number_key;
};

// Who has asked for a path (Engine::Ask).
class PathWaiter {
 public:
  // Called by the holder of the token: neither waits nor takes a ControlScope.
  // `path` is valid if the status is kFound, and during the call only.
  virtual void OnPath(net::PathStatus status, const net::Path& path) = 0;

 protected:
  ~PathWaiter() = default;
};

class Engine {
 public:
  explicit Engine(const EngineConfig& config);
  // REQUIRES: no queue pair is left and no other thread is inside.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- Data path: any thread, never waits -------------------------------

  // After posting to `qp`: transmits at once if the engine is free, else
  // leaves word for whoever holds it.
  void Doorbell(EngineQp& qp);

  // One bounded iteration on behalf of a thread that polls. False if another
  // thread is at it.
  bool Progress();

  // The caller is about to sleep (ibv_req_notify_cq): the helper thread takes
  // over at once.
  void HandOver();

  // --- Control: inside a ControlScope ------------------------------------

  // Takes the token, waiting if it must; nothing else runs meanwhile.
  class ControlScope {
   public:
    explicit ControlScope(Engine& engine);
    // Waits for `patience` at most. REQUIRES, unless entered(): nothing of the
    // engine is touched.
    ControlScope(Engine& engine, Duration patience);
    ~ControlScope();
    bool entered() const { return entered_; }
    ControlScope(const ControlScope&) = delete;
    ControlScope& operator=(const ControlScope&) = delete;

   private:
    void Enter();

    Engine& engine_;
    bool entered_ = false;
  };

  mem::MrTable& mrs() { return mrs_; }

  // The addresses that are ours from now on. A path from one that is gone stays
  // what it is, and works again when the address is back; meanwhile what is
  // sent along it is lost (tx_source_gone), as on a host without the address:
  // requests of RC fail when their retries are used up, datagrams complete and
  // do not arrive. What arrives for such an address is not for us (kNotForUs).
  // Groups stay joined.
  void SetAddresses(std::vector<net::LocalAddress> addresses);

  // `config.limits.qpn` is ignored: the engine chooses the number.
  // RESOURCE_EXHAUSTED at max_qps, and when no number is left that the
  // connection manager does not hold.
  absl::StatusOr<EngineQp*> CreateQp(EngineQpConfig config);
  // Nothing of the queue pair is touched afterwards.
  void DestroyQp(EngineQp* qp);
  // `config.number` is ignored: the engine chooses it. REQUIRES: fewer than
  // kMaxSrqs are there.
  SharedReceiveQueue* CreateSrq(const SharedReceiveQueue& config);
  // REQUIRES: no queue pair uses it. XRC queue pairs may: they stop using it.
  void DestroySrq(SharedReceiveQueue* srq);
  static constexpr uint32_t kMaxSrqs = 1u << 16;
  // Nothing of the queue is touched afterwards, and it raises no event.
  // REQUIRES: no queue pair completes to it.
  void ForgetCq(CompletionQueue& cq) { completions_.Forget(cq); }
  // A number for urnic_sq_wqe.to, for queue pairs of this protection domain;
  // 0: there are too many (AddressTable).
  uint32_t CreateAh(const net::Path& path, uint32_t pd) {
    RocePath known(path);
    host_.CheckSource(known);
    return addresses_.Add(known, pd);
  }
  void DestroyAh(uint32_t number) { addresses_.Remove(number); }
  // Moves the queue pair, which must be allowed (verbs/control checks), and
  // completes what that flushes.
  void ModifyQp(EngineQp& qp, QpState target, const QpConfig& config);
  void ReconfigureQp(EngineQp& qp, const QpConfig& config);

  // Datagrams to the group reach the queue pair; joined twice is joined once.
  // The first one of this port tells the network (IGMP, MLD), and again when
  // it asks; the last one takes it back. Errors of Groups::Join().
  absl::Status JoinGroup(EngineQp& qp, const wire::Gid& group);
  // False: the queue pair has not joined.
  bool LeaveGroup(EngineQp& qp, const wire::Gid& group);
  // Has it joined any?
  bool IsInGroup(const EngineQp& qp) const {
    return groups_.GroupOf(qp) != nullptr;
  }

  // QP1: who gets which class of management datagrams, and sending them.
  GsiPort& gsi() { return gsi_; }

  // Asks for the way to a GID. `waiter` is called once, by the holder of the
  // token, perhaps within this call; kNoAnswer when `timeout` has passed.
  // 0: too many questions, and nothing was asked.
  net::QuestionId Ask(const net::PathQuery& query, PathWaiter* waiter,
                      Duration timeout);
  // `waiter` is not called (any more).
  void Cancel(net::QuestionId id) { host_.Cancel(id); }

  // counters(), with the requesters of living queue pairs.
  EngineCounters CountersOfAll() const;

  // --- Control: outside a ControlScope -----------------------------------

  // Finds the way to a GID: Ask(), and runs the engine until there is an
  // answer, up to `timeout`. Without one it looks at what is known.
  // INVALID_ARGUMENT: IPv4 and IPv6 mixed; NOT_FOUND: `local` is not ours;
  // UNAVAILABLE: no route; DEADLINE_EXCEEDED: no answer; RESOURCE_EXHAUSTED:
  // too many neighbours or questions.
  absl::StatusOr<net::Path> ResolvePath(const net::PathQuery& query,
                                        Duration timeout);

  // Starts the helper thread (datapath/engine/helper_thread.h). Once.
  // RESOURCE_EXHAUSTED: no more descriptors, or threads.
  absl::Status StartHelper();

  // Sums since the start, of the requesters only those of queue pairs that are
  // gone. Written by the token holder; without the token a value may be a
  // moment old.
  const EngineCounters& counters() const { return counters_; }
  Port& port() { return *port_; }

  // The time of the engine's clock: monotonic nanoseconds.
  static Time Now();
  // The wall clock's time at that moment, in nanoseconds since 1970, provided
  // that nobody has set the clock since.
  static int64_t WallClockNs(Time then);

 private:
  friend class HelperThread;

  Engine(const EngineConfig& config, const NumberKey& key);

  // A thread that posts a receive while the queue pair fails may not see the
  // failure yet, and then does not ring the doorbell. So the engine looks at
  // the queue pair until that store must be visible (no processor holds one
  // back for so long); later posters see EngineQp::wants_recv_doorbell. The
  // looking must end, because thousands of queue pairs may fail together.
  static constexpr Duration kStoresVisible = Duration::Milliseconds(1);
  struct LateLook {
    EngineQp* qp;
    Time until;
  };
  // A run of packets of one queue pair out of one burst.
  struct Run {
    EngineQp* qp = nullptr;
    uint32_t count = 0;
    RxPacket packets[kBurstMax];
  };
  struct Sink;  // datapath/engine/engine_sink.h

  // Entering with the token held: the lcore id.
  void Enter();
  // Whether the thread that is inside may fault; asked when there is something
  // to copy.
  CopyMode ThisThreadsCopyMode();
  // Leaves; wakes the helper if it sleeps past what is due.
  void Leave();

  // One bounded iteration by the token holder; true if there was anything to
  // do. `inline_poll`: an acknowledgement may wait for the caller's next call.
  bool Iterate(bool inline_poll);

  void DrainPending();
  void LookOnceMore(Time now);
  void ServicePost(EngineQp& qp);
  bool Receive(Time now);
  // The first `count` of rx_.
  void ProcessFrames(uint32_t count, Time now);
  void FreeReceived();
  // Of the first `count` of rx_.
  void PrefetchQps(uint32_t count);
  RxVerdict Classify(const uint8_t* frame, size_t bytes, RxPacket& packet,
                     EngineQp*& qp, Time now);
  void FinishRun(Time now);
  // Completions, events, readiness and timer after `qp` has moved.
  void AfterWork(EngineQp& qp);
  static void ReportSrqLimit(SharedReceiveQueue& srq);
  void PushSendCompletions(EngineQp& qp);
  void PushFlushedReceives(EngineQp& qp);

  void TransmitReady(Time now, bool may_defer_acks);
  // The same while the port takes nothing.
  [[gnu::cold]] void TransmitToOurselves(Time now);
  uint32_t TransmitQp(EngineQp& qp, Time now, uint32_t room);
  // Builds frames of the first `count` slots; returns how many.
  uint32_t TransmitSlots(EngineQp& qp, uint32_t count);
  static bool MayLoop(const EngineQp& qp);
  // How many of `wanted` frames of the queue pair have a place to go.
  uint32_t RoomFor(const EngineQp& qp, uint32_t wanted) const {
    return MayLoop(qp) ? std::min(wanted, tx_.loop_room()) : wanted;
  }
  RocePath* PathOf(EngineQp& qp, const TxSlot& slot);
  // False: the packet's way or its memory is not there; the queue pair knows.
  bool BuildFrame(EngineQp& qp, CopyMode mode, const TxSlot& slot,
                  rte_mbuf* frame);
  // Before a queue pair stops answering: what it owes goes out, as far as the
  // port takes it. A peer that waits for its last acknowledgement would retry
  // for nothing, and fail.
  void SendOwed(EngineQp& qp);
  // What is complete, but still waits for room, at the end.
  void SendLastFrames();
  // Takes `qp` off every list of the engine.
  void Unlink(EngineQp& qp);
  // What cannot complete cannot go on: queue pairs, and XRC's shared receive
  // queues, which peers find gone (IBTA 11.6.3.3).
  void FailUsersOfFullQueues();

  // What has no queue pair of its own: groups and QP1 (multicast.cc).
  RxVerdict OnPacketWithoutQp(const wire::FrameView& view,
                              const RxPacket& packet, Time now);
  RxVerdict OnMulticast(const wire::FrameView& view, const RxPacket& packet,
                        Time now);
  // For paths that are not as most: false if there is no way out, and then the
  // frame is gone.
  bool GoesOut(const net::Path& path, rte_mbuf* frame);
  // A copy of the frame to ourselves, if one of ours has joined.
  void LoopMulticast(const net::Path& path, const rte_mbuf* frame);
  void LeaveAllGroups(EngineQp& qp);

  // The host core and QP1, off the packet path (engine_host.cc).
  void OnControlTimer(Time now);
  void SetControlDeadline() {
    control_deadline_ = std::min(gsi_.NextDeadline(), host_.NextDeadline());
  }
  // Hands answers to those who have asked.
  void DeliverAnswers(Time now);
  // What the queue pair has sent was not answered in time.
  void Suspect(const EngineQp& qp, Time now);

  // The ring that an XRC request names, if the queue pair may use it.
  RecvRing* FindXrcRing(const EngineQp& qp, const RxPacket& packet) const;

  EngineQp* FindQp(uint32_t qpn) const { return qps_.Find(qpn); }

  // The first of the queue pairs', QP1's, the host's and the held completion
  // events'.
  Time NextDeadline() const {
    return std::min({wheel_.NextDeadline(), control_deadline_,
                     completions_.held_deadline()});
  }

  // What every thread looks at.
  alignas(64) Token<std::atomic> token_;
  PendingSet<std::atomic> pending_;
  std::atomic<uint32_t> refused_polls_{0};

  // The token holder's, from here on.
  alignas(64) Port* port_;
  void* mr_memory_ = nullptr;  // behind mrs_
  size_t mr_entries_ = 0;
  CopyMode copy_mode_ = CopyMode::kGuarded;
  bool copy_mode_known_ = false;  // of the thread that is inside
  Time last_now_;                 // its time
  mem::MrTable mrs_;
  QpTable qps_;
  NumberTable<SharedReceiveQueue> srqs_;
  ReadyList<EngineQp> ready_;
  CompletionWriter completions_;
  // Have failed a moment ago: what was posted meanwhile is still to be flushed.
  std::vector<LateLook> in_error_;
  TimerWheel<EngineQp> wheel_;
  AddressTable addresses_;
  Groups groups_;
  Time control_deadline_ = Time::Infinite();  // the first of gsi_ and host_
  EngineCounters counters_;

  Run run_;
  rte_mbuf* rx_[kBurstMax];
  uint32_t rx_count_ = 0;  // processed, not freed yet
  TransmitQueue tx_;
  net::Host host_;
  GsiPort gsi_;
  TxSlot slots_[kBurstMax];
  uint8_t slot_headers_[kBurstMax][kMaxHeaderBytes];
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<uint8_t[]> null_sink_;  // takes what null regions lose
  std::unique_ptr<HelperThread> helper_;
};

}  // namespace urnic
