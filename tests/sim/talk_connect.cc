// How two programs connect and disconnect.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/qp_table.h"
#include "tests/sim/talk_end.h"

namespace urnic::sim {

namespace {

constexpr uint8_t kReads = 4;
constexpr Duration kTalkPatience = Duration::Seconds(2);

}  // namespace

// --- Connecting --------------------------------------------------------------

void Talk::Start() {
  world_.After(
      Duration::Nanoseconds(static_cast<int64_t>(random_.Below(3000000))),
      [this] { Begin(); });
}

void Talk::Begin() {
  parting_ = false;
  for (const auto& end : ends_) {
    end->handle = {};
    end->established = end->failed = end->left = false;
    end->sleeps = random_.OneIn(2);
    end->fetched.clear();
    end->requests.clear();
    end->heard.clear();
    end->slots_used = 0;
    end->posted = end->completed = end->receives_asked = 0;
    end->sends_completed = end->receives_posted = end->receives_done = 0;
    end->fetched_receives = 0;
    end->first_psn = Psn(static_cast<uint32_t>(random_.Next()));
  }
  End& end = *ends_[0];
  end.host.Later([this, &end] {
    end.host.Ask(PeerOf(end).host.gid(), kTalkPatience,
                 [this, &end](net::PathStatus status, const net::Path& path) {
                   if (status == net::PathStatus::kFound) {
                     return Connect(end, path);
                   }
                   Require(!config_.still, "a host was not found");
                   ++stats_.failures;
                   EndLife();
                 });
  });
}

void Talk::MakeQp(End& end, const net::Path& path) {
  end.rings = std::make_unique<testing::FakeRings>(16, 1, 0, 16, 1);
  const bool one_queue = config_.ordered || random_.OneIn(2);
  for (auto& cq : end.cqs) cq = std::make_unique<ProgramCq>(&end, nullptr);
  EngineQpConfig config;
  config.limits = {.pd = EngineHost::kPd, .max_sge_send = 1, .max_sge_recv = 1};
  config.sq = end.rings->sq().view();
  config.rq = end.rings->rq().view();
  config.send_cq = &end.cqs[0]->queue;
  config.recv_cq = &end.cqs[one_queue ? 0 : 1]->queue;
  config.events = &end;
  auto qp = end.host.engine().qps().Create(config);
  Require(qp.ok(), "no queue pair");
  end.qp = &RoceQp::Of(**qp);
  end.qp->path = RocePath(path);
}

void Talk::Connect(End& end, const net::Path& path) {
  MakeQp(end, path);
  cm::ConnectParams request;
  request.service_id = EngineHost::kServiceId;
  request.mad_path.local = request.path.local = path.local;
  request.mad_path.remote = request.path.remote = path.remote;
  request.packet_life_time_code = 10;  // 4 ms
  request.qpn = Qpn{end.qp->qpn()};
  request.starting_psn = end.first_psn;
  request.responder_resources = request.initiator_depth = kReads;
  request.remote_response_timeout_code = 12;  // 17 ms
  request.local_response_timeout_code = 12;
  const uint32_t words[] = {config_.number, life_};
  request.private_data = {reinterpret_cast<const uint8_t*>(words),
                          sizeof(words)};
  Require(end.host.cm().Connect(request, 0, world_.now(), end.host.sink(),
                                end.handle) == 0,
          "no connection");
}

void Talk::OnRequest(const cm::Event& event) {
  End& end = *ends_[1];
  uint32_t words[2];
  std::memcpy(words, event.private_data.data(), sizeof(words));
  if (words[1] != life_ || end.handle.value != 0 || ends_[0]->qp == nullptr) {
    // An old one that has been under way for long.
    EngineHost& host = end.host;
    return host.Later([this, &host, handle = event.handle] {
      (void)host.cm().Destroy(handle, world_.now(), host.sink());
    });
  }
  Require(event.remote_qpn.value == ends_[0]->qp->qpn(),
          "a request of another queue pair");
  end.handle = event.handle;
  const wire::Gid remote = event.path.remote;
  end.host.Later([this, &end, remote] {
    end.host.Ask(remote, kTalkPatience,
                 [this, &end](net::PathStatus status, const net::Path& path) {
                   if (status == net::PathStatus::kFound) {
                     return Answer(end, path);
                   }
                   Require(!config_.still, "who has asked is not found");
                   Finish(end);
                 });
  });
}

void Talk::Answer(End& end, const net::Path& path) {
  if (end.left) return;  // it has ended meanwhile
  MakeQp(end, path);
  cm::AcceptParams reply;
  reply.qpn = Qpn{end.qp->qpn()};
  reply.starting_psn = end.first_psn;
  reply.responder_resources = reply.initiator_depth = kReads;
  const int error =
      end.host.cm().Accept(end.handle, reply, world_.now(), end.host.sink());
  Require(error == 0 || !config_.still, "a request cannot be accepted");
  if (error != 0) return Finish(end);
  BringUp(end);
  // Messages may arrive before the RTU.
  PostReceives(end);
}

void Talk::BringUp(End& end) {
  cm::QpAttributes attributes;
  Require(end.host.cm().GetQpAttributes(end.handle, attributes) == 0,
          "no attributes");
  QpConfig config;
  config.access = kTalkRights;
  config.mtu = config_.mtu;
  config.dest_qpn = attributes.remote_qpn.value;
  config.sq_psn = attributes.send_psn;
  config.rq_psn = attributes.receive_psn;
  config.timeout = Duration::Nanoseconds(4096ll << config_.ack_timeout_code);
  config.min_rnr_timer = 1;
  config.max_rd_atomic = attributes.initiator_depth;
  config.max_dest_rd_atomic = attributes.responder_resources;
  for (auto state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    end.host.engine().qps().Modify(*end.qp, state, config);
  }
}

void Talk::Establish(End& end) {
  if (end.established || end.qp == nullptr) return;
  end.established = true;
  Plan(end, kTalkPause);
}

bool Talk::Owns(const EngineHost& host, cm::Handle handle) const {
  return std::any_of(std::begin(ends_), std::end(ends_), [&](const auto& end) {
    return &end->host == &host && end->handle == handle;
  });
}

void Talk::OnCmEvent(const EngineHost& host, const cm::Event& event) {
  End& end = &ends_[0]->host == &host && ends_[0]->handle == event.handle
                 ? *ends_[0]
                 : *ends_[1];
  const cm::Handle handle = event.handle;
  const auto later = [&](auto what) {
    end.host.Later([&end, handle, what] {
      if (end.handle == handle) what(end);
    });
  };
  switch (event.kind) {
    case cm::EventKind::kRepReceived:
      return later([this](End& end) {
        if (end.qp == nullptr || end.established) return;
        BringUp(end);
        PostReceives(end);
        if (end.host.cm().SendRtu(end.handle, {}, end.host.sink()) == 0) {
          Establish(end);
        }
      });
    case cm::EventKind::kRtuReceived:
    case cm::EventKind::kUserEstablished:
      return later([this](End& end) { Establish(end); });
    case cm::EventKind::kDreqReceived:
      return later([this](End& end) {
        TakeDown(end);
        (void)end.host.cm().SendDrep(end.handle, {}, world_.now(),
                                     end.host.sink());
      });
    case cm::EventKind::kMraReceived:
    case cm::EventKind::kDrepReceived:
    case cm::EventKind::kDreqError:
      return;
    case cm::EventKind::kTimewaitExit:
      return later([this](End& end) { Finish(end); });
    default:  // not connected
      if (config_.still) {
        Violate(absl::StrCat("who wants to connect is not connected: event ",
                             static_cast<int>(event.kind), ", reason ",
                             event.reject_reason, "; ", Where()));
      }
      return later([this](End& end) {
        if (end.host.cm().state(end.handle) == cm::State::kIdle) Finish(end);
      });
  }
}

// --- Parting -----------------------------------------------------------------

void Talk::Fail(End& end, uint8_t status) {
  if (end.failed) return;
  end.failed = true;
  if (parting_) {
    Require(status == URNIC_WC_WR_FLUSH_ERR || !config_.mild,
            "an error at the end");
    return;
  }
  Require(!config_.mild, "a connection has failed");
  ++stats_.failures;
}

void Talk::Part(End& end) {
  if (end.qp == nullptr) return;
  TakeDown(end);
  const int error =
      end.host.cm().Disconnect(end.handle, {}, world_.now(), end.host.sink());
  if (error == 0) return;
  Require(!config_.still, "nobody can part");
  const cm::State state = end.host.cm().state(end.handle);
  if (state != cm::State::kDreqReceived && state != cm::State::kTimewait) {
    Finish(end);
  }
}

// The end of the queue pair: what is left is flushed, once.
void Talk::TakeDown(End& end) {
  if (end.qp == nullptr) return;
  parting_ = true;
  end.host.engine().qps().Modify(*end.qp, QpState::kErr, end.qp->config());
  Handle(end);
  Require(end.requests.empty() && end.receives_done == end.receives_posted,
          "not everything was flushed");
  for (const auto& cq : end.cqs) end.host.engine().ForgetCq(cq->queue);
  end.host.engine().qps().Destroy(std::exchange(end.qp, nullptr));
}

// The connection manager is done with this end.
void Talk::Finish(End& end) {
  if (end.left) return;
  TakeDown(end);
  end.left = true;
  Require(end.host.cm().Destroy(end.handle, world_.now(), end.host.sink()) == 0,
          "an unknown handle");
  End& peer = PeerOf(end);
  if (peer.left || peer.handle.value == 0) return EndLife();
  // The peer may not have been told: its program gives up in the end.
  peer.host.Later([this, &peer] {
    world_.After(kTalkPatience, [this, &peer, life = life_] {
      if (life != life_ || peer.left) return;
      Require(!config_.still, "who is left was not told");
      peer.host.Later([this, &peer] { Finish(peer); });
    });
  });
}

void Talk::EndLife() {
  const bool whole = !ends_[0]->failed && !ends_[1]->failed;
  for (const auto& end : ends_) {
    uint64_t counted = 0;
    std::memcpy(&counted, &end->memory[end->counter()], 8);
    Require(counted == PeerOf(*end).atomics || !config_.mild,
            "an atomic was lost");
    std::memset(&end->memory[end->counter()], 0, 8);
    PeerOf(*end).atomics = 0;
    Require(!whole || !config_.mild ||
                std::all_of(end->memory.begin(), end->memory.end() - 64,
                            [](uint8_t byte) { return byte == kTalkGuard; }),
            "memory has changed that nobody meant");
    std::fill(end->memory.begin(), end->memory.end() - 64, kTalkGuard);
  }
  ++stats_.lives;
  if (++life_ == config_.lives) return;
  // The other end asks next time.
  std::swap(ends_[0], ends_[1]);
  std::swap(ends_[0]->index, ends_[1]->index);
  world_.After(Duration::Milliseconds(1), [this] { Begin(); });
}

}  // namespace urnic::sim
