// How the programs of a session connect and part, and the trouble they make.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "tests/sim/check_replay.h"
#include "tests/sim/session_end.h"

namespace urnic::sim {

namespace {

constexpr Duration kPathPatience = Duration::Seconds(2);
constexpr Duration kPeerPatience = Duration::Seconds(2);
// A set-up takes 30 seconds at most, and its last segments may be repeated for
// a while.
constexpr Duration kSetUpPatience = Duration::Seconds(200);
constexpr uint32_t kMagic = 0x5e551011;

constexpr uint32_t kNoNumber = UINT32_MAX;

QpConfig WithAccess() {
  QpConfig config;
  config.access = kSessionRights;
  return config;
}

}  // namespace

// --- Private data ------------------------------------------------------------

// The session, its life, and up to 60 bytes that follow from these.
std::vector<uint8_t> Session::PrivateData(bool answer) const {
  const uint32_t words[] = {kMagic, config_.number, life_};
  std::vector<uint8_t> data(sizeof(words));
  std::memcpy(data.data(), words, sizeof(words));
  Random random((uint64_t{config_.number} << 32 | life_) * 2 +
                (answer ? 1 : 0));
  for (uint64_t n = random.Below(61); n != 0; --n) {
    data.push_back(random.Byte());
  }
  return data;
}

uint32_t Session::NumberIn(std::span<const uint8_t> private_data) {
  uint32_t words[2];
  if (private_data.size() < sizeof(words)) return kNoNumber;
  std::memcpy(words, private_data.data(), sizeof(words));
  return words[0] == kMagic ? words[1] : kNoNumber;
}

// --- Connecting --------------------------------------------------------------

void Session::Start() {
  world_.After(
      Duration::Nanoseconds(static_cast<int64_t>(random_.Below(3000000))),
      [this] { Begin(); });
}

void Session::Begin() {
  parting_ = struck_ = false;
  trouble_ = Trouble::kNone;
  if (!config_.calm && random_.OneIn(2)) {
    trouble_ = static_cast<Trouble>(
        random_.Below(static_cast<uint64_t>(Trouble::kTroubles)));
  }
  for (const auto& end : ends_) {
    end->life = {};
    end->life.sleeps = random_.OneIn(2);
    if (end->key != 0) continue;
    end->key = end->host.WithToken([&] {
      return end->host.network().mrs().Register(
          EngineHost::kPd, reinterpret_cast<uint64_t>(end->memory.data()),
          kSessionIova, end->memory.size(), kSessionRights);
    });
  }
  End& end = *ends_[0];
  Later(end, [this, &end] {
    end.host.Ask(PeerOf(end).host.gid(), kPathPatience,
                 [this, &end](net::PathStatus status, const net::Path& path) {
                   if (status == net::PathStatus::kFound) {
                     return Connect(end, path);
                   }
                   Require(!config_.still, "a host was not found");
                   Finish(end);
                 });
  });
  if (!quiet()) PlanTrouble();
}

void Session::MakeQp(End& end) {
  End::Life& life = end.life;
  life.rings = std::make_unique<testing::FakeRings>(32, 1, 0, 16, 1);
  for (auto& cq : life.cqs) cq = std::make_unique<ProgramCq>(&end, nullptr);
  EngineQpConfig config;
  config.service = QpService::kIwarp;
  config.limits = {.pd = EngineHost::kPd, .max_sge_send = 1, .max_sge_recv = 1};
  config.sq = life.rings->sq().view();
  config.rq = life.rings->rq().view();
  config.send_cq = &life.cqs[0]->queue;
  config.recv_cq = &life.cqs[random_.Below(2)]->queue;
  config.events = &end;
  auto qp = end.host.engine().qps().Create(config);
  Require(qp.ok(), "no queue pair");
  life.qp = &IwarpQp::Of(**qp);
  if (config_.log_bytes != 0) {
    life.inputs = std::make_shared<InputLog>(life.qp->qpn(), config_.log_bytes);
    Require(life.qp->LogInputs(life.inputs, end.host.engine().Now()),
            "inputs cannot be logged");
  }
  end.host.engine().qps().Modify(*life.qp, QpState::kInit, WithAccess());
  life.last_memory.clear();
  // The peer may send as soon as it is connected.
  PostReceives(end);
}

void Session::Connect(End& end, const net::Path& path) {
  End::Life& life = end.life;
  if (life.qp == nullptr) MakeQp(end);
  ConnectConfig config;
  config.path = path;
  config.local_port = static_cast<uint16_t>(
      kFirstPort + config_.number * kPorts + next_port_ % kPorts);
  config.remote_port = trouble_ == Trouble::kAsksNobody ? kNobodysPort : kPort;
  config.setup.max_ird = kSessionReads;
  config.ird = config.ord = kSessionReads;
  config.events = &end;
  const auto connection =
      TableOf(end).Connect(*life.qp, config, PrivateData(false));
  if (connection.ok()) {
    life.connection = *connection;
    return Plan(end, {});
  }
  Require(
      connection.status().code() == absl::StatusCode::kAlreadyExists ||
          connection.status().code() == absl::StatusCode::kResourceExhausted,
      "a connection is refused");
  // The last life has left all ports in TIME-WAIT, or there are too many
  // connections.
  const bool again = ++next_port_ % kPorts != 0;
  const Duration pause = again ? Duration() : Duration::Milliseconds(700);
  world_.After(pause, [this, &end, path] {
    Later(end, [this, &end, path] { Connect(end, path); });
  });
}

void Session::OnRequest(EngineHost& host, IwarpConnection& connection) {
  End& end = *ends_[1];
  End::Life& life = end.life;
  const auto data = connection.endpoint().private_data();
  const bool ours = &host == &end.host && !life.requested &&
                    ends_[0]->life.connection != nullptr &&
                    std::ranges::equal(data, PrivateData(false));
  // Others are old, and have been under way for long.
  if (!ours || trouble_ == Trouble::kForgetsRequest) {
    Require(ours || !config_.still || !config_.calm, "an unexpected request");
    life.requested |= ours;
    return host.engine().connections().Forget(&connection);
  }
  Require(trouble_ != Trouble::kAsksNobody, "somebody listens at every port");
  life.requested = true;
  life.connection = &connection;
  connection.set_owner(&end, 0);
  if (trouble_ == Trouble::kNeverAnswers) return;
  if (random_.OneIn(2)) return Answer(end);
  Later(end, [this, &end] { Answer(end); });
}

void Session::Answer(End& end) {
  End::Life& life = end.life;
  if (life.ended || life.left) return;
  if (trouble_ == Trouble::kRejects) {
    const absl::Status status =
        TableOf(end).Reject(*life.connection, PrivateData(true));
    Require(status.ok() || !config_.still, "a request cannot be rejected");
    return Later(end, [this, &end] { Finish(end); });
  }
  MakeQp(end);
  const absl::Status status =
      TableOf(end).Accept(*life.connection, *life.qp, kSessionReads,
                          kSessionReads, PrivateData(true));
  life.answered = status.ok();
  if (status.ok()) return Plan(end, {});
  Require(!config_.still || !quiet(), "a request cannot be accepted");
  Require(status.code() == absl::StatusCode::kFailedPrecondition,
          "a request is not accepted for another reason");
}

// --- Events ------------------------------------------------------------------

void Session::OnEvent(End& end, IwarpConnection& connection,
                      iwarp::Event event) {
  End::Life& life = end.life;
  Require(life.connection == &connection, "an event of a forgotten connection");
  Require(!life.ended, "an event after the end");
  if (event != iwarp::Event::kConnected) return OnEnd(end, event);
  Require(!life.connected, "connected twice");
  Require(&end == ends_[0].get() || life.answered,
          "connected without an answer");
  Require(connection.listener() != nullptr || &end == ends_[1].get() ||
              std::ranges::equal(connection.endpoint().private_data(),
                                 PrivateData(true)),
          "another answer than was given");
  life.connected = true;
  ++stats_.connected;
  Plan(end, Duration::Nanoseconds(500));
}

void Session::OnEnd(End& end, iwarp::Event event) {
  using iwarp::Failure;
  End::Life& life = end.life;
  life.ended = true;
  const Failure failure = life.connection->endpoint().failure();
  const bool in_order =
      event == iwarp::Event::kDisconnected && failure == Failure::kNone;
  if (!in_order) ++stats_.failures;
  const auto told = [&] {
    return absl::StrCat(" (event ", static_cast<int>(event), ", failure ",
                        static_cast<int>(failure), "); ", Where());
  };
  if (quiet() && (config_.still || (config_.mild && life.connected)) &&
      (!in_order || !parting_)) {
    Violate("a connection has failed" + told());
  }
  if (failure == Failure::kProtocol && trouble_ != Trouble::kLosesKey &&
      trouble_ != Trouble::kSendsTooMuch) {
    Violate("a rule of the protocol was broken" + told());
  }
  if (event == iwarp::Event::kDisconnected && !life.connected) {
    Violate("the end of what never began" + told());
  }
  if (event == iwarp::Event::kRejected) {
    const auto data = life.connection->endpoint().private_data();
    const bool by_program = trouble_ == Trouble::kRejects &&
                            std::ranges::equal(data, PrivateData(true));
    const bool forgotten =
        trouble_ == Trouble::kForgetsRequest || !config_.still || !quiet();
    if (!by_program && (!forgotten || !data.empty())) {
      Violate("rejected by nobody" + told());
    }
  }
  Later(end, [this, &end] { Finish(end); });
}

// --- Trouble -----------------------------------------------------------------

void Session::PlanTrouble() {
  ++stats_.troubles;
  // In the handshake, or later.
  const uint64_t most_us = random_.OneIn(2) ? 300 : 5000;
  End& end = *ends_[random_.Below(2)];
  world_.After(
      Duration::Microseconds(static_cast<int64_t>(random_.Below(most_us))),
      [this, &end, now = life_] {
        if (now != life_) return;
        Later(end, [this, &end] { MakeTrouble(end); });
      });
}

void Session::MakeTrouble(End& end) {
  End::Life& life = end.life;
  if (life.left || parting_) return;
  const bool has_connection = life.connection != nullptr && !life.ended;
  const bool has_qp = life.qp != nullptr && has_connection;
  switch (trouble_) {
    case Trouble::kDisconnects:
      if (!has_connection) return;
      TableOf(end).Disconnect(*life.connection);
      break;
    case Trouble::kForgets:
      if (!has_connection) return;
      struck_ = true;
      return Finish(end);
    case Trouble::kDestroysQp:
      if (!has_qp) return;
      Vanish(end);
      break;
    case Trouble::kFailsQp:
      if (!has_qp) return;
      end.host.engine().qps().Modify(*life.qp, QpState::kErr,
                                     life.qp->config());
      break;
    case Trouble::kResetsQp:
      if (!has_qp) return;
      end.host.engine().qps().Modify(*life.qp, QpState::kReset,
                                     life.qp->config());
      Vanish(end);
      break;
    case Trouble::kLosesKey:
      Require(
          end.host.network().mrs().Deregister(MrKey{std::exchange(end.key, 0)}),
          "a key is not there");
      break;
    case Trouble::kSendsTooMuch:
      if (!has_qp || !life.connected || life.ended) return;
      while (life.local_used != (1u << kSlots) - 1) {
        PostOne(end, URNIC_WR_SEND);
      }
      end.host.engine().Doorbell(*life.qp);
      break;
    default:
      return;
  }
  struck_ = true;
  PlanGiveUp();
}

// If nothing has come of it, a program ends the connection.
void Session::PlanGiveUp() {
  world_.After(Duration::Seconds(1), [this, now = life_] {
    if (now != life_) return;
    End& end = *ends_[random_.Below(2)];
    Later(end, [this, &end] { Part(end); });
    PlanGiveUp();
  });
}

// --- Parting -----------------------------------------------------------------

void Session::Part(End& end) {
  End::Life& life = end.life;
  if (life.left || life.ended) return;
  parting_ = true;
  if (life.connection == nullptr) return;
  if (life.qp != nullptr && random_.OneIn(2)) {
    return end.host.engine().qps().Modify(*life.qp, QpState::kErr,
                                          life.qp->config());
  }
  TableOf(end).Disconnect(*life.connection);
}

void Session::TakeDown(End& end) {
  End::Life& life = end.life;
  if (life.qp == nullptr) return;
  end.host.engine().qps().Modify(*life.qp, QpState::kErr, life.qp->config());
  Handle(end);
  Require(life.requests.empty() && life.receives_done == life.receives_posted,
          "not everything was flushed");
  Vanish(end);
}

void Session::Vanish(End& end) {
  End::Life& life = end.life;
  end.host.engine().qps().Destroy(std::exchange(life.qp, nullptr));
  for (const auto& cq : life.cqs) end.host.engine().ForgetCq(cq->queue);
  life.last_memory = end.memory;
  if (life.inputs == nullptr) return;
  stats_.replayed += CheckReplay(*life.inputs);
  life.inputs.reset();
}

// The program is done with its end.
void Session::Finish(End& end) {
  End::Life& life = end.life;
  if (std::exchange(life.left, true)) return;
  if (life.connection != nullptr && random_.OneIn(2)) {
    TableOf(end).Forget(std::exchange(life.connection, nullptr));
  }
  TakeDown(end);
  if (life.connection != nullptr) {
    TableOf(end).Forget(std::exchange(life.connection, nullptr));
  }
  End& peer = PeerOf(end);
  const bool has_begun =
      peer.life.connection != nullptr || peer.life.qp != nullptr;
  if (peer.life.left || !has_begun) return EndLife();
  // The peer may not have been told: a RST is sent once. Its program gives up
  // in the end. A set-up gives up itself.
  const bool alone = peer.life.ended || peer.life.connected ||
                     &peer == ends_[1].get() || random_.OneIn(2);
  world_.After(alone ? kPeerPatience : kSetUpPatience, [this, &peer, alone,
                                                        now = life_] {
    if (now != life_ || peer.life.left) return;
    Require(!config_.still || !quiet(), "who is left was not told");
    Require(alone, "a set-up does not end");
    Later(peer, [this, &peer] { Finish(peer); });
  });
}

void Session::EndLife() {
  const bool whole = quiet() && config_.mild && ends_[0]->life.connected &&
                     ends_[1]->life.connected;
  for (const auto& end : ends_) {
    Require(!whole || IsDone(*end), "a message is lost");
    CheckLeftovers(*end);
  }
  ++stats_.lives;
  if (++life_ == config_.lives) return;
  // The other end asks next time.
  std::swap(ends_[0], ends_[1]);
  std::swap(ends_[0]->index, ends_[1]->index);
  if (random_.OneIn(2)) ++next_port_;
  world_.After(Duration::Milliseconds(1), [this] { Begin(); });
}

}  // namespace urnic::sim
