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
// inner loop. All other functions may be called by any thread.
//
// It lies in one allocation with its rings and with the engine's queue pair
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
  // share it, and it is destroyed with the last of them. They get its events
  // from now on, until Close(). Null: the domain has no target with that
  // number.
  static std::shared_ptr<Qp> Open(Xrcd& xrcd, uint32_t number,
                                  EventSink* events, void* user);
  // Call it before you drop a target. `user`: as given to Open().
  void Close(const void* user);

  // Removes the queue pair, and its completions from its completion queues.
  ~Qp();
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  // Changes the attributes in `mask` (QpAttrMask). On failure nothing changes.
  // With an address vector it asks the network for the destination's MAC and
  // waits for up to three seconds, while the engine runs on.
  // INVALID_ARGUMENT: see CheckQpTransition(), a value out of range, or SQD to
  // RTS before the send queue has drained.
  // UNIMPLEMENTED: alternate paths. UNAVAILABLE: the destination is not on the
  // link. DEADLINE_EXCEEDED: it does not answer.
  // RESET empties the queues and forgets the attributes; a queue pair of iWARP
  // is in INIT after it.
  absl::Status Modify(const QpAttributes& attributes, uint32_t mask);

  // Multicast, for UD queue pairs. INVALID_ARGUMENT: another service, or not a
  // group address; for detaching: not attached. RESOURCE_EXHAUSTED: the
  // device's limit of groups, or of queue pairs in one. UNIMPLEMENTED: devices
  // of this kind have no groups.
  absl::Status JoinGroup(const wire::Gid& group);
  absl::Status LeaveGroup(const wire::Gid& group);
  // Whether it is attached to any group.
  bool IsInGroup();

  // It fails. Its listeners hear that, except for `user`, who hears no more of
  // it.
  void Fail(const void* user = nullptr);
  // It fails if its packets have this source. False: they have not, or it had
  // failed before.
  bool FailIfFrom(const wire::Gid& local);
  // It has, or had, a peer: it is in RTR or beyond.
  bool IsBusy() { return State() >= QpState::kRtr; }

  // The attributes as last set, with the current state. Of a queue pair of
  // iWARP that is or was connected, the depths of reads are the connection's.
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
    uint32_t opcodes = 0;  // bit n: enum urnic_wr_opcode n is the service's
    bool datagrams = false;
    bool xrc = false;
    bool shares_receives = false;
    // rdma_cm moves it to RTS, not the program: see FindConnected().
    bool is_connected_by_cm = false;
    // Depends on the state that was last set. A queue pair that failed by
    // itself accepts all requests and flushes them.
    std::atomic<bool> may_send = false;
    std::atomic<bool> may_recv = false;
    std::atomic<bool> may_read = false;  // max_rd_atomic is not 0
    SpinLock sq_lock_storage;
    SpinLock rq_lock_storage;
  };
  // The mark before it is there, on the cache line of its beginning. Looks at
  // nothing else. Any thread.
  static bool HasStartMark(const Qp* qp) {
    uint64_t mark;
    std::memcpy(&mark, reinterpret_cast<const uint8_t*>(qp) - sizeof(mark),
                sizeof(mark));
    return mark == kEndpointMarks.start;
  }

  Posting& posting() { return posting_; }
  // The parts of its allocation, and where that is.
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
  // Of the last pointer to it.
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
  // In SQD: sends are still under way. REQUIRES: inside a ControlScope.
  bool IsDraining() const;
  // Writes to the debug log that its long packets do not get through.
  void WarnOfPathMtu(const net::Path& path, const QpAttributes& next) const;
  absl::Status CheckValues(const QpAttributes& attributes, uint32_t mask) const;
  QpConfig MakeConfig(const QpAttributes& attributes) const;
  void OpenForPosting(const QpAttributes& attributes);
  // Moves the engine's queue pair from `now` to `to`. `resets`: through RESET.
  // REQUIRES: inside a ControlScope.
  void MoveInEngine(QpState now, QpState to, bool resets,
                    const QpConfig& config);
  // To ERR, unless it is there. Listeners hear of it. REQUIRES: inside a
  // ControlScope.
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

// The state of an engine's queue pair now: the connection of one of iWARP moves
// it, and the flow does not notice. Thread: the holder of the token.
QpState StateOf(const EngineQp& qp);

}  // namespace urnic::control
