#include "tests/support/iwarp_node.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "datapath/port/narrow_port.h"
#include "transport/base/check.h"

namespace urnic::testing {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);
constexpr uint16_t kPort = 7000;

wire::Gid GidOf(uint32_t number, bool ipv6) {
  if (!ipv6) return wire::Gid::FromIpv4(0x0a010000 + number);
  wire::Gid gid;
  gid.bytes = {0xfd, 0x01};
  gid.bytes[15] = static_cast<uint8_t>(number);
  return gid;
}

std::unique_ptr<Port> OpenPort(const std::string& dev,
                               const IwarpNodeOptions& options) {
  std::unique_ptr<Port> port = OpenTestPort(dev, options.fault);
  if (options.link_mtu == nullptr) return port;
  return std::make_unique<NarrowPort>(std::move(port), options.link_mtu);
}

NicConfig ConfigOf(const IwarpNodeOptions& options) {
  NicConfig config;
  config.iwarp = true;
  config.iwarp_options = options.iwarp;
  config.connections = options.limits;
  config.number_key = options.number_key;
  return config;
}

QpConfig WithAccess() {
  QpConfig config;
  config.access = kNodeRights;
  return config;
}

std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

IwarpNode::IwarpNode(const std::string& dev, uint32_t number,
                     const IwarpNodeOptions& options)
    : NicNode(OpenPort(dev, options), GidOf(number, options.ipv6),
              ConfigOf(options), options.cq_entries) {
  setup.max_ird = kDepth;
}

IwarpNode::~IwarpNode() { End(); }

void IwarpNode::End() {
  if (ended()) return;
  for (Program& program : programs_) {
    if (program.qp != nullptr) Destroy(program);
  }
  EndNic();
}

EngineQpConfig IwarpNode::ConfigFor(Program& program) {
  EngineQpConfig config;
  config.service = QpService::kIwarp;
  config.limits = {
      .pd = kNodePd, .max_sge_send = 2, .max_sge_recv = 2, .max_inline = 64};
  config.sq = program.rings.sq().view();
  config.rq = program.rings.rq().view();
  config.send_cq = config.recv_cq = &cq();
  config.events = this;
  return config;
}

IwarpNode::Program& IwarpNode::Create(SharedReceiveQueue* srq) {
  Program& program = programs_.emplace_back();
  EngineQpConfig config = ConfigFor(program);
  if (srq != nullptr) config.rq = {};
  config.srq = srq;
  Engine::ControlScope scope(engine());
  auto qp = engine().qps().Create(config);
  URNIC_CHECK(qp.ok());
  program.qp = &IwarpQp::Of(**qp);
  engine().qps().Modify(*program.qp, QpState::kInit, WithAccess());
  return program;
}

void IwarpNode::Destroy(Program& program) {
  Engine::ControlScope scope(engine());
  engine().qps().Destroy(std::exchange(program.qp, nullptr));
}

void IwarpNode::Modify(Program& program, QpState target) {
  Engine::ControlScope scope(engine());
  engine().qps().Modify(*program.qp, target, WithAccess());
}

std::string IwarpNode::Extract(Program& program) {
  Engine::ControlScope scope(engine());
  connections().DeliverEvents();
  auto image = engine().qps().Extract(std::exchange(program.qp, nullptr));
  URNIC_CHECK(image.ok());
  return *std::move(image);
}

absl::Status IwarpNode::Insert(IwarpNode& from, Program& program, uint32_t qpn,
                               const ConnectConfig& where,
                               std::string_view image) {
  URNIC_CHECK(key() == from.key());
  EngineQpConfig config = ConfigFor(program);
  config.limits.qpn = qpn;
  ConnectConfig here = where;
  here.events = this;
  Engine::ControlScope scope(engine());
  network().mrs().Change(MrKey{key()}, kNodePd, from.address(0),
                         from.address(0), kMemoryBytes, kNodeRights);
  auto qp = engine().qps().Insert(config, connections(), here, BytesOf(image));
  if (!qp.ok()) return qp.status();
  program.qp = *qp;
  const auto at = std::ranges::find(from.programs_, &program,
                                    [](Program& p) { return &p; });
  programs_.splice(programs_.end(), from.programs_, at);
  return absl::OkStatus();
}

IwarpListener* IwarpNode::Listen(uint16_t port, uint32_t backlog) {
  return Control([&](ConnectionTable& table) {
    auto listener = table.Listen(
        {.port = port, .backlog = backlog, .setup = setup, .events = this});
    URNIC_CHECK(listener.ok());
    return *listener;
  });
}

absl::StatusOr<IwarpConnection*> IwarpNode::TryConnect(
    Program& program, NicNode& peer, uint16_t local_port, uint16_t remote_port,
    std::string_view private_data) {
  const ConnectConfig config = {.path = FindPath(*this, peer),
                                .local_port = local_port,
                                .remote_port = remote_port,
                                .setup = setup,
                                .ird = kDepth,
                                .ord = kDepth,
                                .events = this};
  return Control([&](ConnectionTable& table) {
    return table.Connect(*program.qp, config, BytesOf(private_data));
  });
}

IwarpConnection& IwarpNode::Connect(Program& program, NicNode& peer,
                                    uint16_t local_port, uint16_t remote_port,
                                    std::string_view private_data) {
  auto connection =
      TryConnect(program, peer, local_port, remote_port, private_data);
  URNIC_CHECK(connection.ok());
  return **connection;
}

absl::Status IwarpNode::Accept(IwarpConnection& connection, Program& program,
                               std::string_view private_data) {
  return Control([&](ConnectionTable& table) {
    return table.Accept(connection, *program.qp, kDepth, kDepth,
                        BytesOf(private_data));
  });
}

void IwarpNode::OnConnectionEvent(IwarpConnection& connection,
                                  iwarp::Event event) {
  using iwarp::Event;
  if (event == Event::kRequest) connection.set_owner(this, told.size());
  on_event(connection, event);
  Told& now = told.emplace_back(Told{&connection, event, ""});
  const bool has_data =
      event == Event::kRequest || event == Event::kRejected ||
      (event == Event::kConnected && connection.listener() == nullptr);
  if (has_data) {
    const auto data = connection.endpoint().private_data();
    now.private_data.assign(data.begin(), data.end());
  }
  if (event != Event::kRequest || acceptors.empty()) return;
  Program& program = *acceptors.front();
  acceptors.pop_front();
  // Under the token already.
  const absl::Status status = connections().Accept(
      connection, *program.qp, kDepth, kDepth, BytesOf(answer));
  URNIC_CHECK(status.ok());
}

void IwarpNode::OnQpEvent(EngineQp& qp, QpEvent event) {
  for (Program& program : programs_) {
    if (program.qp == &qp) program.events.push_back(event);
  }
}

bool IwarpNode::PostSend(Program& program, const SendWr& wr) {
  if (!program.rings.PostSend(wr)) return false;
  engine().Doorbell(*program.qp);
  return true;
}

bool IwarpNode::PostReceive(Program& program, const RecvWr& wr) {
  if (!program.rings.PostRecv(wr)) return false;
  if (program.qp->wants_recv_doorbell()) engine().Doorbell(*program.qp);
  return true;
}

void IwarpNode::Drain() {
  urnic_cqe cqe;
  while (Poll(cqe)) done.push_back(cqe);
}

bool IwarpNode::has_told(iwarp::Event event) const {
  return std::ranges::find(told, event, &Told::event) != told.end();
}

IwarpPair::IwarpPair(const std::string& name, const IwarpNodeOptions& options)
    : a("ring:" + name + ":a", 1, options),
      b("ring:" + name + ":b", 2, options) {}

void IwarpPair::Step() {
  for (IwarpNode* node : {&a, &b}) {
    node->engine().Progress();
    node->Drain();
  }
}

bool IwarpPair::RunUntil(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    Step();
  }
  return true;
}

void IwarpPair::RunAWhile() {
  for (int i = 0; i < 100; ++i) Step();
}

bool IwarpPair::Connect(IwarpNode::Program& from, IwarpNode::Program& to,
                        uint16_t local_port) {
  if (b.connections().listeners() == 0) b.Listen(kPort);
  b.acceptors.push_back(&to);
  a.Connect(from, b, local_port, kPort);
  return RunUntil([&] {
    return from.qp->core_state() == QpState::kRts &&
           to.qp->core_state() == QpState::kRts;
  });
}

}  // namespace urnic::testing
