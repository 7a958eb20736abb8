#include "tests/sim/crowd.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "tests/sim/program_cq.h"
#include "tests/support/fake_rings.h"
#include "tests/support/host_wire.h"
#include "transport/work/timers.h"

namespace urnic::sim {

namespace {

constexpr uint8_t kReceiver = 1;  // the number of the host
constexpr uint64_t kIova = 0x40000000;
constexpr uint32_t kRights = mem::kLocalWrite | mem::kRemoteWrite;
constexpr Duration kPatience = Duration::Seconds(1);
constexpr Duration kStep = Duration::Milliseconds(1);

// What perftest asks for: 67 ms.
constexpr uint8_t kAckTimeoutCode = 14;
constexpr uint8_t kRetries = 7;

// One turn in so many is up to 300 us late. More often (engine_run.h), hosts
// with 10 Gb/s would sleep for a third of the time.
constexpr uint64_t kBusyOneIn = 10000;

// Of the traffic class: the packets support ECN.
constexpr uint8_t kEct = 2;

// Rings as ports have by default.
constexpr uint16_t kPortRing = 1024;

constexpr uint16_t kListenPort = 7000;
constexpr uint16_t kFirstPort = 10000;  // of connections; the flow is added
// Of most packets of RC: IPv4, UDP, BTH and ICRC.
constexpr uint16_t kRoceHeaders = 20 + 8 + 12 + 4;
// The longest packets of RC fit, with an RETH. So segments carry a little more.
constexpr uint16_t kHostMtu = kCrowdMtu + kRoceHeaders + 16;
// Of a segment: IPv4, and TCP with timestamps.
constexpr uint16_t kTcpHeaders = 20 + 20 + 12;

// Less than the default of each host: there are a hundred.
constexpr ConnectionLimits kConnections = {.max_connections = 4096,
                                           .segment_blocks = 256,
                                           .ranges = 4096,
                                           .early_fpdus = 4096,
                                           .held_pieces = 4096,
                                           .kept_fpdus = 1024};

}  // namespace

// A host with its program.
struct Crowd::Node {
  Node(EngineEvents* events, uint32_t entries)
      : memory(kCrowdBytes), cq(events, nullptr, entries) {}

  std::unique_ptr<EngineHost> host;
  Switch::Place* at = nullptr;
  std::vector<uint8_t> memory;
  uint32_t key = 0;
  ProgramCq cq;
  // Of a sender.
  net::Path there;
  net::Path back;
};

// A queue pair of a sender, and its peer.
struct Crowd::Flow {
  Flow(Node& from, const FlowConfig& config)
      : from(from),
        config(config),
        rings(std::bit_ceil(config.posted), 1, 0, 1, 1),
        peer_rings(1, 1, 0, std::bit_ceil(config.posted), 1) {}

  Node& from;
  const FlowConfig config;
  testing::FakeRings rings;
  testing::FakeRings peer_rings;
  EngineQp* qp = nullptr;
  EngineQp* peer = nullptr;
  IwarpConnection* connection = nullptr;       // of iWARP, once it is begun
  IwarpConnection* peer_connection = nullptr;  // once it is accepted
  testing::SendWr request;
  testing::RecvWr receive;
  bool failed = false;
  Time posted_at;
  std::vector<Duration> times;
};

Crowd::Crowd(const CrowdBuffers& buffers, const CrowdConfig& config,
             uint64_t seed)
    : config_(config), random_(seed), switch_(world_), end_(world_.now()) {
  receiver_ = MakeNode(kReceiver, buffers.receiver);
  for (uint32_t i = 1; i <= config.senders; ++i) {
    senders_.push_back(
        MakeNode(static_cast<uint8_t>(kReceiver + i), buffers.senders));
  }
  FindPaths();
  if (config.iwarp) Listen();
}

Crowd::~Crowd() {
  const auto end = [](Node& node, EngineQp* qp, IwarpConnection* connection) {
    node.host->WithToken([&] {
      Engine& engine = node.host->engine();
      if (connection != nullptr) engine.connections().Forget(connection);
      engine.qps().Destroy(qp);
    });
  };
  for (const auto& flow : flows_) {
    end(flow->from, flow->qp, flow->connection);
    end(*receiver_, flow->peer, flow->peer_connection);
  }
}

std::unique_ptr<Crowd::Node> Crowd::MakeNode(uint8_t number,
                                             const Buffers& buffers) {
  auto made = std::make_unique<Node>(static_cast<EngineEvents*>(this),
                                     std::bit_ceil(config_.requests));
  Node& node = *made;
  LinkConfig up;
  up.delay = config_.hop_delay;
  LinkConfig down = up;
  if (number == kReceiver) {
    down.bits_per_second = config_.bits_per_second;
    down.buffer_bytes = config_.buffer_bytes;
    down.red = config_.red;
    down.reorder_ppm = config_.reorder_ppm;
  }
  const uint64_t up_seed = random_.Next();
  const uint64_t down_seed = random_.Next();
  node.at = &switch_.Add(
      testing::MacOf(number), up, up_seed, down, down_seed,
      [&node](Frame frame) { node.host->port().OnFrame(std::move(frame)); });
  EngineHostConfig config;
  config.number = number;
  config.iwarp = config_.iwarp;
  config.connections = kConnections;
  config.max_qps = config_.qps + 1;
  config.busy_one_in = kBusyOneIn;
  config.after_turn = [this, &node] { Poll(node); };
  config.port.frames.mac = testing::MacOf(number);
  config.port.frames.mtu = kHostMtu;
  config.port.frames.pool = buffers.pool();
  config.port.frames.lcore = buffers.lcore();
  config.port.frames.rx_ring = kPortRing;
  config.port.tx_ring = kPortRing;
  config.port.bits_per_second = config_.port_bits_per_second;
  node.host = std::make_unique<EngineHost>(
      world_, config, random_.Next(),
      [this, &node](Frame frame) { switch_.Send(*node.at, std::move(frame)); },
      [](EngineHost&, const cm::Event&) {});
  node.key = node.host->WithToken([&] {
    return node.host->network().mrs().Register(
        EngineHost::kPd, reinterpret_cast<uint64_t>(node.memory.data()), kIova,
        node.memory.size(), kRights);
  });
  return made;
}

void Crowd::FindPaths() {
  for (const auto& node : senders_) {
    Ask(*node, *receiver_, node->there);
    Ask(*receiver_, *node, node->back);
  }
  const Time limit = end_ + kPatience;
  while (paths_ != 2 * senders_.size()) {
    Require(end_ < limit, "not all hosts were found");
    RunFor(kStep);
  }
}

void Crowd::Ask(Node& from, Node& to, net::Path& path) {
  from.host->WithToken([&] {
    from.host->Ask(
        to.host->gid(), kPatience,
        [this, &path](net::PathStatus status, const net::Path& p) {
          Require(status == net::PathStatus::kFound, "no path");
          path = p;
          ++paths_;
        },
        config_.red.max_bytes != 0 ? kEct : 0);
  });
}

// --- Flows -------------------------------------------------------------------

void Crowd::Add(const FlowConfig& config) {
  Node& from = *senders_[config.sender];
  flows_.push_back(std::make_unique<Flow>(from, config));
  Flow& flow = *flows_.back();
  flow.qp = MakeQp(from, flow);
  flow.peer = MakeQp(*receiver_, flow);
  if (!config.iwarp) {
    BringUp(*receiver_, *flow.peer, from.back, *flow.qp);
    BringUp(from, *flow.qp, from.there, *flow.peer);
  }
  if (config.dead) {
    receiver_->host->WithToken([&] {
      receiver_->host->engine().qps().Modify(*flow.peer, QpState::kReset, {});
    });
  }
  flow.request.opcode = config.opcode;
  flow.request.wr_id = flows_.size() - 1;
  flow.request.sges = {{kIova, config.bytes, from.key}};
  flow.request.remote_addr = kIova;
  flow.request.rkey = receiver_->key;
  flow.receive.sges = {{kIova, config.bytes, receiver_->key}};
  world_.At(end_ + config.start,
            [this, &flow] { flow.config.iwarp ? Connect(flow) : Start(flow); });
}

EngineQp* Crowd::MakeQp(Node& node, Flow& flow) {
  testing::FakeRings& rings =
      &node == &flow.from ? flow.rings : flow.peer_rings;
  EngineQpConfig config;
  if (flow.config.iwarp) config.service = QpService::kIwarp;
  config.limits = {.pd = EngineHost::kPd, .max_sge_send = 1, .max_sge_recv = 1};
  config.sq = rings.sq().view();
  config.rq = rings.rq().view();
  config.send_cq = config.recv_cq = &node.cq.queue;
  return node.host->WithToken([&] {
    QpTable& qps = node.host->engine().qps();
    const auto qp = qps.Create(config);
    Require(qp.ok(), "no queue pair");
    if (flow.config.iwarp) {
      QpConfig access;
      access.access = kRights;
      qps.Modify(**qp, QpState::kInit, access);
    }
    return *qp;
  });
}

// A queue pair of RC.
void Crowd::BringUp(Node& node, EngineQp& qp, const net::Path& path,
                    const EngineQp& peer) {
  QpConfig config;
  config.access = kRights;
  config.mtu = kCrowdMtu;
  config.dest_qpn = peer.qpn();
  config.timeout = AckTimeout(kAckTimeoutCode);
  config.retry_count = kRetries;
  RoceQp::Of(qp).path = RocePath(path);
  node.host->WithToken([&] {
    for (auto state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      node.host->engine().qps().Modify(qp, state, config);
    }
  });
}

// --- Connections -------------------------------------------------------------

void Crowd::Listen() {
  receiver_->host->WithToken([&] {
    ListenerConfig config;
    config.port = kListenPort;
    config.backlog = kConnections.max_connections;
    config.events = this;
    const bool listens =
        receiver_->host->engine().connections().Listen(config).ok();
    Require(listens, "no listener");
  });
}

void Crowd::Connect(Flow& flow) {
  const auto number = static_cast<uint32_t>(flow.request.wr_id);
  uint8_t data[sizeof(number)];
  std::memcpy(data, &number, sizeof(number));
  flow.from.host->WithToken([&] {
    ConnectConfig config;
    config.path = flow.from.there;
    config.local_port = static_cast<uint16_t>(kFirstPort + number);
    config.remote_port = kListenPort;
    config.events = this;
    config.user = number;
    const auto connection = flow.from.host->engine().connections().Connect(
        IwarpQp::Of(*flow.qp), config, data);
    Require(connection.ok(), "a connection is refused");
    flow.connection = *connection;
  });
}

// Of both ends. Programs post a moment later, outside of the engine.
void Crowd::OnConnectionEvent(IwarpConnection& connection, iwarp::Event event) {
  if (event == iwarp::Event::kRequest) {
    uint32_t number = UINT32_MAX;
    const auto data = connection.endpoint().private_data();
    if (data.size() == sizeof(number)) {
      std::memcpy(&number, data.data(), sizeof(number));
    }
    Require(number < flows_.size(), "a request of nobody");
    Flow& flow = *flows_[number];
    flow.peer_connection = &connection;
    connection.set_owner(this, number);
    const bool accepted =
        receiver_->host->engine()
            .connections()
            .Accept(connection, IwarpQp::Of(*flow.peer), 0, 0, {})
            .ok();
    Require(accepted, "a request cannot be accepted");
    return;
  }
  Flow& flow = *flows_[connection.user()];
  if (event != iwarp::Event::kConnected) return Fail(flow);
  if (&connection != flow.connection) return;
  world_.After(Duration::Nanoseconds(1), [this, &flow] { Start(flow); });
}

// --- Programs ----------------------------------------------------------------

void Crowd::Poll(Node& node) {
  urnic_cqe cqe;
  while (node.cq.Poll(cqe)) {
    // The receiver's are of sends, which their senders follow.
    if (&node != receiver_.get()) OnDone(*flows_[cqe.wr_id], cqe);
  }
}

void Crowd::OnDone(Flow& flow, const urnic_cqe& cqe) {
  if (cqe.status != URNIC_WC_SUCCESS) {
    Require(flow.failed || flow.config.iwarp ||
                cqe.status == URNIC_WC_RETRY_EXC_ERR,
            "a request has failed");
    return Fail(flow);
  }
  if (flow.config.posted == 1) {
    flow.times.push_back(world_.now() - flow.posted_at);
  }
  Post(flow);
  flow.from.host->engine().Doorbell(*flow.qp);
}

void Crowd::Fail(Flow& flow) {
  if (!std::exchange(flow.failed, true)) ++failed_;
}

void Crowd::Start(Flow& flow) {
  for (uint32_t i = 0; i < flow.config.posted; ++i) Post(flow);
  flow.from.host->engine().Doorbell(*flow.qp);
}

void Crowd::Post(Flow& flow) {
  if (flow.config.opcode == URNIC_WR_SEND) {
    Require(flow.peer_rings.PostRecv(flow.receive), "no room for a receive");
  }
  Require(flow.rings.PostSend(flow.request), "no room for a request");
  flow.posted_at = world_.now();
}

void Crowd::RunFor(Duration time) {
  end_ = end_ + time;
  world_.RunUntil(end_);
}

// --- Results -----------------------------------------------------------------

CrowdReading Crowd::Read() const {
  CrowdReading reading;
  RequesterCounters sum;
  for (const auto& flow : flows_) {
    const RequesterCounters counters = flow->qp->counters();
    reading.bytes.push_back(counters.bytes_acked);
    sum.Add(counters);
  }
  reading.sent = sum.requests_sent;
  reading.resent = sum.requests_resent;
  reading.timeouts = sum.timeouts;
  reading.failed = failed_;
  const Link& slow = Switch::downlink(*receiver_->at);
  reading.offered = slow.count(LinkCount::k_offered);
  reading.dropped = slow.count(LinkCount::k_overflowed);
  reading.queued = slow.under_way() -
                   config_.hop_delay *
                       static_cast<int64_t>(reading.offered - reading.dropped);
  EngineHost& host = *receiver_->host;
  reading.arrived = host.engine().counters().rx_packets;
  reading.duplicates =
      host.count(RxVerdict::kDuplicate) + host.count(RxVerdict::kHeldTwice);
  reading.not_held =
      host.count(RxVerdict::kSequenceGap) + host.count(RxVerdict::kAfterGap);
  return reading;
}

const std::vector<Duration>& Crowd::times(size_t flow) const {
  return flows_[flow]->times;
}

FullPacket Crowd::full_packet(size_t flow) const {
  // Ethernet, and what the link adds (link.h, impairer.h).
  constexpr uint32_t kAdded =
      14 + Link::kHeadBytes + impair::kWireOverheadBytes;
  if (flows_[flow]->config.iwarp) {
    return {.payload_bytes = kHostMtu - kTcpHeaders,
            .on_link_bytes = kHostMtu + kAdded};
  }
  return {.payload_bytes = kCrowdMtu,
          .on_link_bytes = kCrowdMtu + kRoceHeaders + kAdded};
}

}  // namespace urnic::sim
