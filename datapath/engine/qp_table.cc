#include "datapath/engine/qp_table.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "datapath/engine/connection_table.h"
#include "datapath/engine/iwarp_qp.h"
#include "datapath/engine/network.h"
#include "datapath/engine/rud_window.h"
#include "datapath/engine/transmitter.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"
#include "transport/base/mutation.h"
#include "transport/iwarp/qp/image.h"
#include "transport/rud/context_pool.h"

namespace urnic {

namespace {

bool Overflowed(const CompletionQueue* cq) {
  return cq != nullptr && cq->overflowed();
}

bool IsRc(const EngineQp& qp) { return qp.kind() == Flow::Kind::kRcQp; }

template <typename Qp>
absl::Status MakeRoomFor(uint32_t qpn, NumberTable<Qp>& qps) {
  if (qps.Find(qpn) != nullptr) {
    return Refusal(ErrorCode::kNumberTaken,
                   absl::StrCat("queue pair number ", qpn, " is in use"));
  }
  if (!qps.MakeRoomFor(qpn)) {
    return Refusal(ErrorCode::kNoPlace,
                   absl::StrCat("queue pair number ", qpn,
                                " has no place in a table of ", qps.max()));
  }
  return absl::OkStatus();
}

absl::Status Refused(uint32_t qpn, const ImageRefusal& refusal) {
  return Refusal(ErrorCode::kImageRefused,
                 absl::StrCat("the image of queue pair ", qpn,
                              " is refused: ", refusal.Text()));
}

}  // namespace

QpTable::~QpTable() { URNIC_CHECK(places_.size() == 0); }

absl::StatusOr<EngineQp*> QpTable::Create(EngineQpConfig config) {
  if (config.service == QpService::kIwarp) return CreateIwarp(config);
  if (config.service == QpService::kRud) return CreateRud(config);
  NumberTable<RoceQp>& qps = network_->qps();
  if (qps.size() == qps.max()) {
    return Refusal(ErrorCode::kNoPlace,
                   absl::StrCat("all ", qps.max(), " queue pairs are in use"));
  }
  //= IBTA 12.9.8.4: a queue pair number is not used again while its connection
  //= is in TIMEWAIT
  const std::optional<uint32_t> qpn = qps.Draw([this](uint32_t number) {
    return network_->gsi().IsQpnBusy(Qpn{number});
  });
  if (!qpn.has_value()) {
    return Refusal(
        ErrorCode::kNoPlace,
        "no queue pair number is left: all numbers that are leased to this "
        "network are in use, or have connections in TIMEWAIT");
  }
  config.limits.qpn = *qpn;
  return Enlist(RoceQp::Create(config, &network_->mrs(), parts_.recovery), qps);
}

absl::StatusOr<EngineQp*> QpTable::CreateIwarp(EngineQpConfig config) {
  NumberTable<EngineQp>& qps = network_->iwarp_qps();
  if (!network_->serves_iwarp()) {
    return Refusal(ErrorCode::kNotBuilt, "the network has no iWARP");
  }
  const std::optional<uint32_t> qpn = qps.Draw([](uint32_t) { return false; });
  if (!qpn.has_value()) {
    return Refusal(ErrorCode::kNoPlace,
                   absl::StrCat("all ", qps.max(), " queue pairs are in use"));
  }
  config.limits.qpn = *qpn;
  QpPtr<EngineQp> qp(PlaceQp<IwarpQp>(config, &network_->mrs()));
  return Enlist(std::move(qp), qps);
}

absl::StatusOr<EngineQp*> QpTable::CreateRud(EngineQpConfig config) {
  URNIC_CHECK(config.rud != nullptr);
  NumberTable<RudWindow>& windows = network_->rud_windows();
  const std::optional<uint32_t> number =
      windows.Draw([](uint32_t) { return false; });
  if (!number.has_value()) {
    return Refusal(ErrorCode::kNoPlace,
                   absl::StrCat("all ", windows.max(), " windows are in use"));
  }
  config.limits.qpn = *number;
  QpPtr<RudWindow> window(
      PlaceQp<RudWindow>(config, *config.rud, &network_->rud_contexts()));
  network_->AddPathUsers(window.get());
  return Enlist(std::move(window), windows);
}

uint64_t& QpTable::CreatedLike(const EngineQp& qp) const {
  if (qp.is_roce_qp()) return parts_.counters->roce_qps;
  return qp.kind() == Flow::Kind::kRudWindow ? parts_.counters->rud_windows
                                             : parts_.counters->iwarp_qps;
}

template <typename Qp>
Qp* QpTable::Enlist(QpPtr<Qp> qp, NumberTable<Qp>& numbers) {
  parts_.flows->Reserve(places_.size() + 1);
  numbers.Add(qp->qpn(), qp.get());
  places_.Add(*qp);
  parts_.pending->Reserve(qp->place + 1);
  ++CreatedLike(*qp);
  parts_.trace->Add(TracePoint::kQpCreated, SubjectOf(*qp),
                    {static_cast<uint64_t>(qp->service())});
  return qp.release();
}

void QpTable::Destroy(EngineQp* qp) {
  SendOwed(*qp);
  parts_.counters->requesters.Add(qp->counters());
  Remove(qp);
}

void QpTable::Remove(EngineQp* qp) {
  parts_.trace->Add(TracePoint::kQpDestroyed, SubjectOf(*qp));
  parts_.flows->Remove(*qp);
  if (IsRc(*qp)) parts_.flows->LeavePath(RoceQp::Of(*qp));
  if (qp->service() == QpService::kUd) {
    network_->LeaveAllGroups(RoceQp::Of(*qp), *parts_.now);
  }
  places_.Remove(*qp);
  if (qp->is_roce_qp()) {
    network_->qps().Remove(qp->qpn());
  } else if (qp->kind() == Flow::Kind::kRudWindow) {
    network_->LeaveAllGroups(RudWindow::Of(*qp), *parts_.now);
    network_->RemovePathUsers(&RudWindow::Of(*qp));
    network_->rud_windows().Remove(qp->qpn());
  } else {
    network_->iwarp_qps().Remove(qp->qpn());
  }
  QpDeleter()(qp);
}

EngineQpBytes QpTable::BytesOf(QpService service, uint32_t sq_entries,
                               uint32_t max_sge_recv) {
  if (service == QpService::kRud) return {.qp = sizeof(RudWindow)};
  EngineQpBytes bytes = service == QpService::kIwarp
                            ? IwarpQp::BytesOf(sq_entries)
                            : RoceQp::BytesOf(service, sq_entries);
  bytes.sges = max_sge_recv * sizeof(urnic_sge);
  return bytes;
}

void QpTable::SendOwed(EngineQp& qp) {
  if (qp.is_roce_qp()) parts_.transmitter->SendOwed(RoceQp::Of(qp));
}

void QpTable::Modify(EngineQp& qp, QpState target, const QpConfig& config) {
  parts_.history->Add(HistoryEvent::kState, qp.qpn(),
                      static_cast<uint32_t>(qp.state()),
                      static_cast<uint32_t>(target), SubjectOf(qp).iwarp);
  parts_.trace->Add(TracePoint::kQpModified, SubjectOf(qp),
                    {static_cast<uint64_t>(target), config.dest_qpn,
                     config.rq_psn.value(), config.sq_psn.value()});
  if (target == QpState::kReset || target == QpState::kErr) {
    SendOwed(qp);
    parts_.flows->Remove(qp);
  }
  const FlowResult result = qp.Modify(target, config, *parts_.sink);
  parts_.flows->Apply(qp, result);
  if (target == QpState::kReset && IsRc(qp)) {
    parts_.flows->LeavePath(RoceQp::Of(qp));
  }
  if (target == QpState::kRtr && qp.is_roce_qp()) AdoptPath(RoceQp::Of(qp));
}

void QpTable::SetPath(RoceQp& qp, const net::Path& path) {
  qp.path = RocePath(path);
  AdoptPath(qp);
}

// Only the paths of connected queue pairs follow a route.
void QpTable::AdoptPath(RoceQp& qp) {
  if (qp.state() < QpState::kRtr || qp.service() == QpService::kUd) return;
  network_->Adopt(qp.path, *parts_.now);
  if (!IsRc(qp)) return;
  // The size of the ring is known when the device works, which it does by now.
  parts_.flows->SetPortRoom(parts_.port->info().rx_ring);
  parts_.flows->JoinPath(qp);
}

// The image includes its counters.
std::string QpTable::Extract(RoceQp* qp) {
  std::string image;
  qp->AppendImage(*parts_.now, image);
  Remove(qp);
  return image;
}

absl::StatusOr<RoceQp*> QpTable::Insert(EngineQpConfig config,
                                        const net::Path& path,
                                        std::span<const uint8_t> image) {
  NumberTable<RoceQp>& qps = network_->qps();
  const uint32_t qpn = config.limits.qpn;
  const absl::Status room = MakeRoomFor(qpn, qps);
  if (!room.ok()) return room;
  SharedReceiveQueue* xrc_srq = nullptr;
  if (config.service == QpService::kXrcTarget) {
    xrc_srq = std::exchange(config.srq, nullptr);
  }
  QpPtr<RoceQp> made =
      RoceQp::Create(config, &network_->mrs(), parts_.recovery);
  if (xrc_srq != nullptr) made->TakeFrom(xrc_srq->ring);
  made->path = RocePath(path);
  if (IsRc(*made)) parts_.flows->JoinPath(*made);
  const ImageRefusal refusal = made->BecomeImage(image, *parts_.now);
  if (!refusal.ok()) {
    if (IsRc(*made)) parts_.flows->LeavePath(*made);
    return Refused(qpn, refusal);
  }
  RoceQp* const qp = Enlist(std::move(made), qps);
  AdoptPath(*qp);
  FlowResult result = qp->Settle(*parts_.sink);
  // The owner was told of the failure before the move.
  if (result.state == QpState::kErr) parts_.flows->WatchLatePosts(*qp);
  // Requests may have been posted meanwhile; Transmit() finds them.
  result.has_work |= result.state < QpState::kSqe;
  MUTATION_SKIPS(moves_forget_timers)
  parts_.flows->Apply(*qp, result);
  return qp;
}

absl::StatusOr<std::string> QpTable::Extract(IwarpQp* qp) {
  std::string image;
  if (IwarpConnection* const connection = qp->connection()) {
    auto extracted = connection->table().Extract(*connection);
    if (!extracted.ok()) return extracted.status();
    image = *std::move(extracted);
  } else {
    qp->AppendImage(*parts_.now, image);
  }
  Remove(qp);
  return image;
}

absl::StatusOr<IwarpQp*> QpTable::Insert(EngineQpConfig config,
                                         ConnectionTable& connections,
                                         const ConnectConfig& connection,
                                         std::span<const uint8_t> image) {
  NumberTable<EngineQp>& qps = network_->iwarp_qps();
  const absl::Status room = MakeRoomFor(config.limits.qpn, qps);
  if (!room.ok()) return room;
  QpPtr<EngineQp> made(PlaceQp<IwarpQp>(config, &network_->mrs()));
  IwarpQp& qp = IwarpQp::Of(*Enlist(std::move(made), qps));
  const absl::Status status = InsertIwarp(qp, connections, connection, image);
  if (status.ok()) return &qp;
  Remove(&qp);
  return status;
}

absl::Status QpTable::InsertIwarp(IwarpQp& qp, ConnectionTable& connections,
                                  const ConnectConfig& connection,
                                  std::span<const uint8_t> image) {
  ImageKind kind = ImageKind::kIwarp;
  std::optional<ImageShape> shape;
  ImageRefusal refusal = ReadImageKind(image, kind);
  if (!refusal.ok()) return Refused(qp.qpn(), refusal);
  if (kind == ImageKind::kIwarp) {
    refusal = iwarp::ReadImageShape(image, shape);
  } else {
    refusal = ReadImageShape(image, shape.emplace());
  }
  if (!refusal.ok()) return Refused(qp.qpn(), refusal);
  if (!shape.has_value()) {
    return Refusal(ErrorCode::kImageRefused, "the image has no queue pair");
  }
  qp.MakeRoomForReads(shape->replay_slots);
  if (kind == ImageKind::kIwarp) {
    return connections.Insert(qp, connection, image).status();
  }
  refusal = qp.BecomeImage(image, *parts_.now);
  if (!refusal.ok()) return Refused(qp.qpn(), refusal);
  const FlowResult result = qp.Settle(*parts_.sink);
  // The owner was told of the failure before the move.
  if (result.state == QpState::kErr) parts_.flows->WatchLatePosts(qp);
  parts_.flows->Apply(qp, result);
  return absl::OkStatus();
}

std::optional<uint32_t> QpTable::AppendImages(uint32_t place, size_t enough,
                                              std::string& out) const {
  for (; place < places_.end(); ++place) {
    if (out.size() >= enough) return place;
    if (const EngineQp* qp = places_.At(place)) {
      qp->AppendImage(*parts_.now, out);
    }
  }
  return std::nullopt;
}

void QpTable::AddRequesters(RequesterCounters& to) const {
  places_.ForEach([&to](const EngineQp& qp) { to.Add(qp.counters()); });
}

void QpTable::FailUsersOfFullQueues() {
  places_.ForEach([this](EngineQp& qp) {
    if (qp.state() == QpState::kReset || qp.state() == QpState::kErr ||
        !(Overflowed(qp.send_cq) || Overflowed(qp.recv_cq))) {
      return;
    }
    Modify(qp, QpState::kErr, qp.config());
    qp.OnEvent(QpEvent::kFatal);
  });
  network_->srqs().ForEach([](SharedReceiveQueue& srq) {
    if (srq.failed || !Overflowed(srq.cq)) return;
    srq.failed = true;
    if (srq.events != nullptr) srq.events->OnSrqError(srq);
  });
}

}  // namespace urnic
