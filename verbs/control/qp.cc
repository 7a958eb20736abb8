#include "verbs/control/qp.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/environment.h"
#include "datapath/engine/iwarp_qp.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "datapath/engine/roce_qp.h"
#include "datapath/engine/rud_window.h"
#include "ras/errors/refusal.h"
#include "transport/mem/mr_table.h"
#include "transport/wire/address_text.h"
#include "transport/work/request.h"
#include "transport/work/timers.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/device_kind.h"
#include "verbs/control/errors.h"
#include "verbs/control/failure_text.h"
#include "verbs/control/gid_table.h"
#include "verbs/control/mr.h"
#include "verbs/control/qp_caps.h"
#include "verbs/control/qp_path.h"
#include "verbs/control/qp_state_table.h"
#include "verbs/control/rud_wake.h"

namespace urnic::control {

namespace {

constexpr uint32_t kRemoteRights = mem::kRemoteWrite | mem::kRemoteRead |
                                   mem::kRemoteAtomic | mem::kFlushGlobal |
                                   mem::kFlushPersistent;
constexpr uint32_t kQpnMask = 0xffffff;
constexpr uint8_t kMaxMtuCode = 5;

uint32_t MtuBytes(uint8_t code) { return 128u << code; }

uint8_t Narrow(uint32_t depth) {
  return static_cast<uint8_t>(std::min<uint32_t>(depth, UINT8_MAX));
}

}  // namespace

QpState StateOf(const EngineQp& qp) {
  return qp.kind() == Flow::Kind::kIwarpQp
             ? static_cast<const IwarpQp&>(qp).core_state()
             : qp.state();
}

absl::StatusOr<std::shared_ptr<Qp>> Qp::Create(Device& device,
                                               const QpRequest& asked) {
  if (absl::Status s = CheckRequest(asked, device); !s.ok()) return s;
  const QpRequest request = Trimmed(asked);
  if (absl::Status s = CheckCaps(request.caps); !s.ok()) return s;
  const QpLayout layout = LayoutOf(request);
  static std::atomic<uint32_t> blocks;
  const QpBlock block =
      PlanQpBlock(sizeof(Qp),
                  QpTable::BytesOf(request.service, layout.sq_entries,
                                   ReceiveSges(request)),
                  layout, blocks.fetch_add(1, std::memory_order_relaxed));
  auto memory =
      QueueMemory::Make(device.memory(), block.bytes(), request.allocator,
                        QueueAllocator::Use::kQp, {"Qp", MarkedBlock::kPage});
  if (!memory.ok()) return memory.status();
  void* const place = memory->at(block.control);
  std::shared_ptr<Qp> qp(
      new (place) Qp(device, request, layout, block, *std::move(memory)), End);
  if (request.service == QpService::kRud) {
    if (absl::Status s = qp->MakeRudRings(request, layout, block); !s.ok())
      return s;
  }
  if (absl::Status s = qp->CreateInEngine(request, layout, block); !s.ok())
    return s;
  if (qp->service_ == QpService::kXrcTarget) {
    qp->xrcd_->AddTarget(qp->qpn(), qp);
  }
  return qp;
}

void Qp::End(Qp* qp) {
  const QueueMemory memory = std::move(qp->memory_);
  qp->~Qp();
}

Qp::Qp(Device& device, const QpRequest& request, const QpLayout& layout,
       const QpBlock& block, QueueMemory memory)
    : service_(request.service),
      device_(device),
      pd_(request.pd),
      xrcd_(request.xrcd),
      send_cq_(request.send_cq),
      recv_cq_(request.recv_cq),
      srq_(request.srq),
      memory_(std::move(memory)),
      parts_(block.parts),
      caps_(Granted(request, layout)),
      owner_(ThisProcess()) {
  if (request.events != nullptr) {
    listeners_.push_back({request.events, request.user});
  }
  parts_.WriteMarks(memory_.at(0));
  for (const size_t indices : {block.sq_indices, block.rq_indices})
    *memory_.indices_at(indices) = {};
  posting_.sq =
      WorkRing(memory_.at(block.sq_ring), memory_.indices_at(block.sq_indices),
               layout.sq_entries, layout.sq_stride);
  posting_.rq =
      WorkRing(memory_.at(block.rq_ring), memory_.indices_at(block.rq_indices),
               layout.rq_entries, layout.rq_stride);
  posting_.engine = &device.engine();
  posting_.mailbox = device.mailbox();
  posting_.max_send_sge = caps_.max_send_sge;
  posting_.max_recv_sge = caps_.max_recv_sge;
  posting_.max_inline = caps_.max_inline_data;
  posting_.opcodes = RequestsOf(service_);
  posting_.xrc = service_ == QpService::kXrcInitiator;
  posting_.datagrams = service_ == QpService::kUd;
  posting_.shares_receives = srq_ != nullptr || recv_cq_ == nullptr;
  posting_.is_connected_by_cm = service_ == QpService::kIwarp;
  if (!request.single_threaded) {
    posting_.sq_lock = &posting_.sq_lock_storage;
    posting_.rq_lock = &posting_.rq_lock_storage;
  }
}

template <typename F>
void Qp::ForEachPart(F&& f) {
  if (pd_ != nullptr) f(*pd_);
  if (xrcd_ != nullptr) f(*xrcd_);
  if (send_cq_ != nullptr) f(*send_cq_);
  if (recv_cq_ != nullptr) f(*recv_cq_);
  if (srq_ != nullptr) f(*srq_);
}

absl::Status Qp::MakeRudRings(const QpRequest& request, const QpLayout& layout,
                              const QpBlock& block) {
  const RudView rings = {
      .send_entries = layout.sq_entries,
      .receive_entries = layout.rq_entries,
      .sends = reinterpret_cast<urnic_rud_send*>(memory_.at(block.sq_ring)),
      .send_indices = memory_.indices_at(block.sq_indices),
      .receives =
          reinterpret_cast<urnic_rud_receive*>(memory_.at(block.rq_ring)),
      .receive_indices = memory_.indices_at(block.rq_indices)};
  auto made = RudRings::Make(device_, request.rud, rings, request.allocator);
  if (!made.ok()) return made.status();
  rud_ = *std::move(made);
  return absl::OkStatus();
}

absl::Status Qp::CreateInEngine(const QpRequest& request,
                                const QpLayout& layout, const QpBlock& block) {
  EngineQpConfig config;
  config.service = service_;
  if (pd_ != nullptr) config.limits.pd = pd_->id();
  config.limits.xrc =
      service_ == QpService::kXrcInitiator || service_ == QpService::kXrcTarget;
  if (xrcd_ != nullptr) config.xrc_domain = xrcd_->id();
  config.limits.max_sge_send = caps_.max_send_sge;
  config.limits.max_sge_recv = ReceiveSges(request);
  config.limits.max_inline = caps_.max_inline_data;
  config.limits.sq_sig_all = request.sq_sig_all;
  config.sq = WorkQueueView(memory_.at(block.sq_ring),
                            memory_.indices_at(block.sq_indices),
                            layout.sq_entries, layout.sq_stride);
  config.rq = WorkQueueView(memory_.at(block.rq_ring),
                            memory_.indices_at(block.rq_indices),
                            layout.rq_entries, layout.rq_stride);
  config.place = {.qp = memory_.at(block.qp),
                  .sges = memory_.at(block.sges),
                  .records = memory_.at(block.records)};
  if (srq_ != nullptr) config.srq = srq_->engine_end();
  if (send_cq_ != nullptr) config.send_cq = send_cq_->engine_end();
  if (recv_cq_ != nullptr) config.recv_cq = recv_cq_->engine_end();
  config.events = this;
  std::optional<RudWindowConfig> window;
  if (rud_ != nullptr) config.rud = &window.emplace(rud_->Config());
  if (absl::Status s = device_.qps().Reserve(device_.name()); !s.ok()) return s;
  if (absl::Status s = Enlist(config); !s.ok()) {
    device_.qps().Release();
    return s;
  }
  posting_.engine_qp = engine_qp_;
  ForEachPart([](auto& part) { part.Ref(); });
  device_.qps().Enter(*this, serial_);
  return absl::OkStatus();
}

absl::Status Qp::Enlist(const EngineQpConfig& config) {
  Engine& engine = device_.engine();
  Engine::ControlScope scope(engine);
  absl::StatusOr<EngineQp*> created = engine.qps().Create(config);
  if (!created.ok()) return created.status();
  engine_qp_ = *created;
  device_.open_nic().input_logs().OnCreated(*engine_qp_, engine.Now());
  // Ready for receive requests when it is created, as in Linux's siw and
  // iw_cxgb4.
  if (service_ == QpService::kIwarp) {
    attributes_.qp_state = QpState::kInit;
    MoveInEngine(QpState::kReset, QpState::kInit, /*resets=*/false,
                 MakeConfig(attributes_));
    OpenForPosting(attributes_);
  }
  // A window has no single peer to connect to, so it begins in RTS.
  if (service_ == QpService::kRud) {
    attributes_.qp_state = QpState::kRts;
    for (QpState now = QpState::kReset;
         const QpState next : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      MoveInEngine(std::exchange(now, next), next, /*resets=*/false,
                   MakeConfig(attributes_));
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<Qp> Qp::Open(Xrcd& xrcd, uint32_t number, EventSink* events,
                             void* user) {
  std::shared_ptr<Qp> qp = xrcd.FindTarget(number);
  if (qp == nullptr) return nullptr;
  Engine::ControlScope scope(qp->device_.engine());
  qp->listeners_.push_back({events, user});
  return qp;
}

void Qp::Close(const void* user) {
  Engine::ControlScope scope(device_.engine());
  std::erase_if(listeners_, [&](const Listener& l) { return l.user == user; });
}

Qp::~Qp() {
  if (engine_qp_ == nullptr) return;  // Create() failed
  device_.qps().Leave(serial_);
  if (service_ == QpService::kXrcTarget) xrcd_->RemoveTarget(qpn());
  if (rud_ != nullptr) RudHandler::Unbind(*this);
  Engine& engine = device_.engine();
  {
    Engine::ControlScope scope(engine);
    const uint32_t number = qpn();
    device_.open_nic().input_logs().OnDestroyed(*engine_qp_);
    engine.qps().Destroy(engine_qp_);
    ForgetCompletions(number);
  }
  ForEachPart([](auto& part) { part.Unref(); });
}

void Qp::ForgetCompletions(uint32_t number) {
  if (send_cq_ != nullptr) send_cq_->Forget(number);
  if (recv_cq_ != nullptr && recv_cq_ != send_cq_) recv_cq_->Forget(number);
}

bool Qp::IsDraining() const {
  return engine_qp_->is_roce_qp() && RoceQp::Of(*engine_qp_).sq_draining();
}

void Qp::Fail(const void* user) {
  Engine::ControlScope scope(device_.engine());
  std::erase_if(listeners_, [&](const Listener& l) { return l.user == user; });
  FailInEngine();
}

bool Qp::FailIfFrom(const wire::Gid& local) {
  Engine::ControlScope scope(device_.engine());
  const net::Path* const path = engine_qp_->serving_flow().common_path();
  const QpState now = StateOf(*engine_qp_);
  if (path == nullptr || path->local != local || now == QpState::kErr ||
      now < QpState::kRtr) {
    return false;
  }
  FailInEngine();
  return true;
}

void Qp::FailInEngine() {
  const QpState now = StateOf(*engine_qp_);
  if (now == QpState::kErr) return;
  MoveInEngine(now, QpState::kErr, /*resets=*/false, engine_qp_->config());
  for (const Listener& listener : listeners_) {
    listener.events->OnQpEvent(listener.user, QpEvent::kFatal);
  }
}

QpState Qp::State() {
  Engine::ControlScope scope(device_.engine());
  return StateOf(*engine_qp_);
}

absl::Status Qp::Named(const absl::Status& status) const {
  if (status.ok()) return status;
  return Prefixed(absl::StrCat("qp ", qpn(), ": "), status);
}

absl::Status Qp::CheckValues(const QpAttributes& a, uint32_t mask) const {
  const struct {
    uint32_t bit;
    const char* name;
    uint64_t value;
    uint64_t limit;
  } kChecks[] = {
      {kQpPkeyIndex, "pkey_index", a.pkey_index,
       device_.identity().num_pkeys - 1},
      {kQpDestQpn, "dest_qp_num", a.dest_qp_num, kQpnMask},
      {kQpTimeout, "timeout", a.timeout, 31},
      {kQpRetryCnt, "retry_cnt", a.retry_cnt, 7},
      {kQpRnrRetry, "rnr_retry", a.rnr_retry, 7},
      {kQpMinRnrTimer, "min_rnr_timer", a.min_rnr_timer, 31},
      {kQpMaxRdAtomic, "max_rd_atomic", a.max_rd_atomic, kMaxRdAtomic},
      {kQpMaxDestRdAtomic, "max_dest_rd_atomic", a.max_dest_rd_atomic,
       kMaxRdAtomic},
      {kQpPathMtu, "path_mtu", a.path_mtu, kMaxMtuCode},
  };
  for (const auto& check : kChecks) {
    if ((mask & check.bit) == 0) continue;
    absl::Status s = CheckRange(check.name, check.value, 0, check.limit);
    if (!s.ok()) return s;
  }
  if ((mask & kQpAccessFlags) != 0 &&
      (a.qp_access_flags & ~kKnownAccessFlags) != 0) {
    return Refusal(
        ErrorCode::kBadAttribute,
        absl::StrCat("qp_access_flags 0x", absl::Hex(a.qp_access_flags),
                     ": unknown flags 0x",
                     absl::Hex(a.qp_access_flags & ~kKnownAccessFlags)));
  }
  if ((mask & kQpPort) != 0 && a.port_num != kPortNumber) {
    return Refusal(
        ErrorCode::kBadAttribute,
        absl::StrCat("port_num ", int{a.port_num}, ", the device has port 1"));
  }
  if ((mask & kQpPathMtu) != 0 &&
      (a.path_mtu == 0 || MtuBytes(a.path_mtu) > device_.mtu_max())) {
    return Refusal(
        ErrorCode::kBadAttribute,
        absl::StrCat("path_mtu ", a.path_mtu == 0 ? 0 : MtuBytes(a.path_mtu),
                     " is out of range: 256 to ", device_.mtu_max(),
                     " bytes, which the port carries"));
  }
  if ((mask & kQpPathMigState) != 0 && a.path_mig_state != kPathMigrated) {
    return Refusal(
        ErrorCode::kBadAttribute,
        "path_mig_state must be MIGRATED: alternate paths are not supported");
  }
  if ((mask & kQpAltPath) != 0) {
    return Refusal(ErrorCode::kNotBuilt, "alternate paths are not supported");
  }
  return absl::OkStatus();
}

QpConfig Qp::MakeConfig(const QpAttributes& a) const {
  QpConfig config;
  config.dest_qpn = a.dest_qp_num;
  config.pkey = device_.identity().pkeys[a.pkey_index];
  config.qkey = a.qkey;
  if (service_ == QpService::kUd) {
    config.mtu = device_.mtu_max();
  } else if (a.path_mtu != 0) {
    config.mtu = MtuBytes(a.path_mtu);
  }
  config.rq_psn = Psn(a.rq_psn);
  config.sq_psn = Psn(a.sq_psn);
  config.access = a.qp_access_flags & kRemoteRights;
  config.timeout = AckTimeout(a.timeout);
  config.retry_count = a.retry_cnt;
  config.rnr_retry = a.rnr_retry;
  config.min_rnr_timer = a.min_rnr_timer;
  config.max_rd_atomic = a.max_rd_atomic;
  config.max_dest_rd_atomic = a.max_dest_rd_atomic;
  config.window_packets = device_.window_packets();
  config.bits_per_second = uint64_t{a.ah_attr.rate_mbps} * 1'000'000;
  return config;
}

// This is not an error: the router's message may be forged, and the program may
// know better.
void Qp::WarnOfPathMtu(const net::Path& path, const QpAttributes& next) const {
  const uint32_t reaches = urnic_ib_mtu(path.mtu);
  if (path.loopback || next.path_mtu == 0 ||
      MtuBytes(next.path_mtu) <= reaches) {
    return;
  }
  DebugLog(absl::StrCat(device_.identity().name, ": path_mtu ",
                        MtuBytes(next.path_mtu), " of QP ", qpn(),
                        ", but a router on the way to ",
                        wire::IpText(path.remote), " takes ", path.mtu,
                        " bytes at most, as ", reaches, " needs"));
}

namespace {

// Tells the user once why no queue pair of this device connects. The program
// itself prints only that a modify has failed.
void ExplainRdmaCm(const Device& device) {
  static std::atomic_flag told;
  if (told.test_and_set(std::memory_order_relaxed)) return;
  ComplainLoudly(absl::StrCat(
      device.identity().name,
      ": rdma_cm connects the queue pairs of an iWARP device, so ibv_modify_qp "
      "to RTS is refused; use a program that connects by rdma_cm (perftest: "
      "-R)"));
}

}  // namespace

absl::Status Qp::Modify(const QpAttributes& change, uint32_t mask) {
  std::lock_guard lock(modify_mutex_);
  const QpState from = State();
  const QpState wanted = (mask & kQpState) != 0 ? change.qp_state : from;
  if (wanted != QpState::kReset && wanted != QpState::kErr) {
    if (absl::Status s = device_.CheckWorks(); !s.ok()) return Named(s);
  }
  if ((mask & kQpCurState) != 0 && change.cur_qp_state != from) {
    return Named(Refusal(
        ErrorCode::kBadTransition,
        absl::StrCat("cur_qp_state is ", QpStateName(change.cur_qp_state),
                     ", the state is ", QpStateName(from))));
  }
  if (absl::Status s = CheckQpTransition(service_, from, wanted, mask);
      !s.ok()) {
    if (service_ == QpService::kIwarp && wanted == QpState::kRts) {
      ExplainRdmaCm(device_);
    }
    return Named(s);
  }
  const QpTransition transition = FindQpTransition(service_, from, wanted);
  const QpState to = transition.enters;
  mask &= ~transition.ignored;
  if (absl::Status s = CheckValues(change, mask); !s.ok()) return Named(s);
  const bool resets = wanted == QpState::kReset;
  QpAttributes next =
      resets ? QpAttributes{} : Merged(attributes_, change, mask);
  next.qp_state = to;
  std::optional<net::Path> path;
  if ((mask & kQpAv) != 0) {
    if (next.ah_attr.dgid.is_multicast()) {
      return Named(
          Refusal(ErrorCode::kNoGid, "ah_attr dgid is a multicast GID"));
    }
    auto resolved = ResolvePath(device_, next.ah_attr, qpn(), next.dest_qp_num);
    if (!resolved.ok()) return Named(resolved.status());
    path = *std::move(resolved);
    WarnOfPathMtu(*path, next);
  }
  Engine& engine = device_.engine();
  Engine::ControlScope scope(engine);
  if (to != QpState::kReset && to != QpState::kErr) {
    // The device may have failed while the path was found.
    if (absl::Status s = device_.CheckWorks(); !s.ok()) return Named(s);
  }
  const QpState now = StateOf(*engine_qp_);
  // ERR and RESET are valid from any state, also from one that the queue pair
  // entered by itself.
  const bool ends = to == QpState::kErr || resets;
  if (now != from && !ends) {
    return Named(Refusal(
        ErrorCode::kBadTransition,
        absl::StrCat("went to ", QpStateName(now), " by itself meanwhile")));
  }
  // Refused as in Linux's rxe, except for RESET and ERR: the event SQ_DRAINED
  // would never come.
  if (now == QpState::kSqd && !ends && IsDraining()) {
    return Named(Refusal(ErrorCode::kBadTransition,
                         absl::StrCat("SQD to ", QpStateName(to),
                                      ": its send queue still drains")));
  }
  if (path.has_value()) engine.qps().SetPath(RoceQp::Of(*engine_qp_), *path);
  notify_sqd_ = to == QpState::kSqd && next.en_sqd_async_notify != 0;
  MoveInEngine(now, to, resets, MakeConfig(next));
  attributes_ = next;
  OpenForPosting(next);
  return absl::OkStatus();
}

void Qp::MoveInEngine(QpState now, QpState to, bool resets,
                      const QpConfig& config) {
  QpTable& qps = device_.engine().qps();
  if (resets && now != QpState::kReset) {
    qps.Modify(*engine_qp_, QpState::kReset, config);
    now = QpState::kReset;
  }
  if (now == to) {
    engine_qp_->Reconfigure(config);
  } else {
    qps.Modify(*engine_qp_, to, config);
  }
  if (resets) ForgetCompletions(qpn());
}

void Qp::OpenForPosting(const QpAttributes& attributes) {
  //= IBTA 10.3.1: receive requests may be posted from INIT on, send requests
  //= from RTS on
  const QpState state = attributes.qp_state;
  posting_.may_recv.store(state != QpState::kReset, std::memory_order_relaxed);
  posting_.may_send.store(state >= QpState::kRts, std::memory_order_relaxed);
  // The depths of an iWARP connection are agreed on when it is set up.
  posting_.may_read.store(
      attributes.max_rd_atomic != 0 || service_ == QpService::kIwarp,
      std::memory_order_relaxed);
}

bool Qp::FindConnected(Posting& posting) {
  if (!posting.is_connected_by_cm) return false;
  Engine::ControlScope scope(*posting.engine);
  if (StateOf(*posting.engine_qp) < QpState::kRts) return false;
  posting.may_send.store(true, std::memory_order_relaxed);
  return true;
}

QpAttributes Qp::Query() {
  std::lock_guard lock(modify_mutex_);
  Engine::ControlScope scope(device_.engine());
  QpAttributes now = attributes_;
  now.qp_state = now.cur_qp_state = StateOf(*engine_qp_);
  if (engine_qp_->is_roce_qp()) {
    const RoceQp& roce = RoceQp::Of(*engine_qp_);
    if (now.qp_state >= QpState::kRtr) now.rq_psn = roce.recv_psn().value();
    if (now.qp_state >= QpState::kRts) now.sq_psn = roce.send_psn().value();
  } else if (service_ == QpService::kIwarp && now.qp_state >= QpState::kRts) {
    // The program does not set the depths: the two sides negotiate them.
    const rdmap::Qp& core = IwarpQp::Of(*engine_qp_).core();
    now.max_rd_atomic = Narrow(core.requester().ord());
    now.max_dest_rd_atomic = Narrow(core.responder().ird());
  }
  now.sq_draining = now.qp_state == QpState::kSqd && IsDraining();
  return now;
}

absl::Status Qp::JoinGroup(const wire::Gid& group) {
  if (absl::Status s = device_.CheckWorks(); !s.ok()) return Named(s);
  if (!HasService(device_.kind(), QpService::kUd)) {
    return Named(Refusal(ErrorCode::kNotBuilt,
                         absl::StrCat("attach_mcast: ", device_.identity().name,
                                      " has no groups")));
  }
  if (service_ != QpService::kUd || !group.is_multicast()) {
    return Named(
        Refusal(ErrorCode::kBadAttribute,
                "attach_mcast: needs a UD queue pair and a multicast GID"));
  }
  Engine::ControlScope scope(device_.engine());
  static_assert(Groups::kMaxGroups == kMaxMcastGroups &&
                Groups::kMaxMembers == kMaxMcastQpsPerGroup);
  return Named(device_.network().JoinGroup(RoceQp::Of(*engine_qp_), group,
                                           Environment::Now()));
}

absl::Status Qp::LeaveGroup(const wire::Gid& group) {
  Engine::ControlScope scope(device_.engine());
  if (service_ == QpService::kUd &&
      device_.network().LeaveGroup(RoceQp::Of(*engine_qp_), group,
                                   Environment::Now())) {
    return absl::OkStatus();
  }
  return Named(Refusal(ErrorCode::kBadAttribute,
                       "detach_mcast: not attached to that group"));
}

bool Qp::IsInGroup() {
  if (service_ != QpService::kUd) return false;
  Engine::ControlScope scope(device_.engine());
  return device_.network().groups().IsMember(RoceQp::Of(*engine_qp_));
}

void Qp::OnQpEvent(EngineQp& qp, QpEvent event) {
  if (event == QpEvent::kSqDrained && !notify_sqd_) return;
  //= IBTA 11.6.3.2: the event "communication established" is raised only in RTR
  if (event == QpEvent::kCommEstablished && qp.state() != QpState::kRtr) {
    return;
  }
  if (const auto code = CodeOfEvent(event)) {
    device_.engine().failures().Add(FailureOf(*code, qp));
  }
  for (const Listener& listener : listeners_) {
    listener.events->OnQpEvent(listener.user, event);
  }
}

}  // namespace urnic::control
