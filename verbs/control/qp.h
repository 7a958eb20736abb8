#pragma once

// A queue pair: its memory, its attributes, and its state transitions.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/engine/engine_qp.h"
#include "verbs/control/cq.h"
#include "verbs/control/event_sink.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp_attributes.h"
#include "verbs/control/qp_block.h"
#include "verbs/control/qp_request.h"
#include "verbs/control/queue_memory.h"
#include "verbs/control/rud_rings.h"
#include "verbs/control/spin_lock.h"
#include "verbs/control/srq.h"
#include "verbs/control/work_ring.h"
#include "verbs/control/xrcd.h"

namespace urnic::control {

// The domain and the completion queues must outlive it. `posting` holds the
// fields that one posting thread at a time owns. It is public for the caller's
// inner loop. Any thread may call all other functions.
//
// The object, its rings and the engine's queue pair are one allocation
// (qp_block.h).
class Qp final : private QpEvents {
 public:
  // INVALID_ARGUMENT: a size beyond the device's limits, objects of different
  // devices, or an XRC shared receive queue. RESOURCE_EXHAUSTED: memory or the
  // device's limit. UNIMPLEMENTED: devices of this kind do not have the
  // service.
  static absl::StatusOr<std::shared_ptr<Qp>> Create(Device& device,
                                                    const QpRequest& request);

  // Opens the XRC target `number` of the domain. Its creator and all openers
  // share it, and the last of them destroys it. The opener gets its events
  // until Close(). Null: the domain has no target with that number.
  static std::shared_ptr<Qp> Open(Xrcd& xrcd, uint32_t number,
                                  EventSink* events, void* user);
  // An opener calls this before it drops its pointer. `user`: as given to
  // Open().
  void Close(const void* user);

  // Also removes its completions from its completion queues.
  ~Qp();
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  // Changes the attributes in `mask` (QpAttrMask). On failure nothing changes.
  // With an address vector it may have to resolve the next hop's MAC, and waits
  // for up to three seconds, while the engine keeps running.
  // INVALID_ARGUMENT: see CheckQpTransition(), a value out of range, or SQD to
  // RTS before the send queue has drained.
  // UNIMPLEMENTED: alternate paths. UNAVAILABLE: there is no route to the
  // destination. DEADLINE_EXCEEDED: the destination does not answer. RESET
  // empties the queues and clears the attributes; a queue pair of iWARP is in
  // INIT afterwards.
  absl::Status Modify(const QpAttributes& attributes, uint32_t mask);

  // Multicast, for UD queue pairs. INVALID_ARGUMENT: another service, or not a
  // group address; for detaching: not attached. RESOURCE_EXHAUSTED: the
  // device's limit of groups, or of queue pairs in one. UNIMPLEMENTED: devices
  // of this kind have no groups.
  absl::Status JoinGroup(const wire::Gid& group);
  absl::Status LeaveGroup(const wire::Gid& group);
  // Whether it is attached to any group.
  bool IsInGroup();

  // Moves the queue pair to ERR, and tells its listeners. `user` is not told,
  // and gets no more events of it.
  void Fail(const void* user = nullptr);
  // Moves the queue pair to ERR if its path is from `local`. False: its path is
  // from another address, it has no peer, or it has failed before.
  bool FailIfFrom(const wire::Gid& local);
  // Whether it has or had a peer: its state is RTR or beyond.
  bool IsBusy() { return State() >= QpState::kRtr; }

  // The attributes as last set, with the current state. If a queue pair of
  // iWARP is or was connected, the depths of reads are those of the connection.
  QpAttributes Query();

  // The granted sizes: at least those requested.
  const QpCaps& caps() const { return caps_; }
  uint32_t qpn() const { return engine_qp_->qpn(); }

  struct Posting {
    WorkRing sq;
    WorkRing rq;
    EngineQp* engine_qp = nullptr;
    Engine* engine = nullptr;
    const urnic_mailbox* mailbox = nullptr;
    SpinLock* sq_lock = nullptr;  // null: single_threaded
    SpinLock* rq_lock = nullptr;
    uint32_t max_send_sge = 0;
    uint32_t max_recv_sge = 0;
    uint32_t max_inline = 0;
    uint32_t opcodes = 0;  // bit n: the service has enum urnic_wr_opcode n
    bool datagrams = false;
    bool xrc = false;
    bool shares_receives = false;
    // rdma_cm moves it to RTS, not the program: see FindConnected().
    bool is_connected_by_cm = false;
    // These follow the last Modify(). A queue pair that has failed by itself
    // accepts all requests, and flushes them.
    std::atomic<bool> may_send = false;
    std::atomic<bool> may_recv = false;
    std::atomic<bool> may_read = false;  // max_rd_atomic is not 0
    SpinLock sq_lock_storage;
    SpinLock rq_lock_storage;
  };
  // Whether the mark in front of the object, on its first cache line, is
  // intact. Reads nothing else. Any thread.
  static bool HasStartMark(const Qp* qp) {
    uint64_t mark;
    std::memcpy(&mark, reinterpret_cast<const uint8_t*>(qp) - sizeof(mark),
                sizeof(mark));
    return mark == kEndpointMarks.start;
  }

  Posting& posting() { return posting_; }
  // The parts of its allocation, and the address of the allocation.
  const MarkedBlock& parts() const { return parts_; }
  const uint8_t* block() const { return memory_.at(0); }
  // For a post that finds may_send unset. True: rdma_cm has connected the queue
  // pair meanwhile, and may_send is now set. REQUIRES: no spin lock is held.
  static bool FindConnected(Posting& posting);

  QpService service() const { return service_; }
  // Its parts; null: it has none.
  const Pd* pd() const { return pd_; }
  const Xrcd* xrcd() const { return xrcd_; }
  const Cq* send_cq() const { return send_cq_; }
  const Cq* recv_cq() const { return recv_cq_; }
  const Srq* srq() const { return srq_; }
  const RudRings* rud() const { return rud_.get(); }  // only windows of RUD
  // The queue pair itself. Thread: the holder of the token.
  const EngineQp& engine_qp() const { return *engine_qp_; }
  Device& device() const { return device_; }
  const Owner& owner() const { return owner_; }

 private:
  Qp(Device& device, const QpRequest& request, const QpLayout& layout,
     const QpBlock& block, QueueMemory memory);
  // The deleter of the last pointer to it.
  static void End(Qp* qp);
  // For windows of RUD.
  absl::Status MakeRudRings(const QpRequest& request, const QpLayout& layout,
                            const QpBlock& block);
  absl::Status CreateInEngine(const QpRequest& request, const QpLayout& layout,
                              const QpBlock& block);
  absl::Status Enlist(const EngineQpConfig& config);
  // Its parts, and the objects that it keeps in use.
  template <typename F>
  void ForEachPart(F&& f);
  QpState State();
  // In SQD: whether sends are still in flight. REQUIRES: inside a ControlScope.
  bool IsDraining() const;
  // Warns in the debug log if its long packets exceed the MTU of the path.
  void WarnOfPathMtu(const net::Path& path, const QpAttributes& next) const;
  absl::Status CheckValues(const QpAttributes& attributes, uint32_t mask) const;
  QpConfig MakeConfig(const QpAttributes& attributes) const;
  void OpenForPosting(const QpAttributes& attributes);
  // Moves the engine's queue pair from `now` to `to`; with `resets`, through
  // RESET. REQUIRES: inside a ControlScope.
  void MoveInEngine(QpState now, QpState to, bool resets,
                    const QpConfig& config);
  // Moves it to ERR, unless it is in ERR, and tells its listeners. REQUIRES:
  // inside a ControlScope.
  void FailInEngine();
  // Removes this queue pair's completions. REQUIRES: inside a ControlScope.
  void ForgetCompletions(uint32_t number);
  absl::Status Named(const absl::Status& status) const;

  void OnQpEvent(EngineQp& qp, QpEvent event) override;
  void DescribeFailed(const EngineQp&, const Failure& failure,
                      std::string& lines) override {
    DescribeWithQueues(*this, failure, lines);
  }

  Posting posting_;
  const QpService service_;
  Device& device_;
  Pd* const pd_;
  Xrcd* const xrcd_;
  Cq* const send_cq_;
  Cq* const recv_cq_;
  Srq* const srq_;
  QueueMemory memory_;
  const MarkedBlock parts_;
  std::unique_ptr<const RudRings> rud_;
  QpCaps caps_;
  struct Listener {
    EventSink* events;
    void* user;
  };
  std::vector<Listener> listeners_;  // under the engine's token
  const Owner owner_;
  EngineQp* engine_qp_ = nullptr;
  uint64_t serial_ = 0;

  std::mutex modify_mutex_;  // one Modify() or Query() at a time
  QpAttributes attributes_;  // under modify_mutex_
  bool notify_sqd_ = false;  // under the engine's token
};

// The current state of an engine's queue pair. (EngineQp::state() is too old
// for iWARP, where the connection moves the queue pair.) Thread: the holder of
// the token.
QpState StateOf(const EngineQp& qp);

}  // namespace urnic::control
