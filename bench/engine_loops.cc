// The whole engine, in one thread: two engines on the two ends of a ring in
// this process, so that each side can be timed separately; and one engine that
// talks to itself. Unlike two processes, this does not include the cost of
// moving lines between cores.

#include <rte_cycles.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "bench/loops.h"
#include "datapath/engine/completion_queue.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "datapath/engine/roce_qp.h"
#include "datapath/nic/nic.h"
#include "datapath/port/port_factory.h"
#include "tests/support/fake_rings.h"

namespace urnic::bench {
namespace {

constexpr uint32_t kBurst = 32;
constexpr uint32_t kPd = 7;
constexpr size_t kStride = 8192 + 192;  // see memory_loops.cc
constexpr uint32_t kAll = mem::kLocalWrite | mem::kRemoteWrite |
                          mem::kRemoteRead | mem::kRemoteAtomic;

class NoEvents : public EngineEvents, public QpEvents {
 public:
  void OnCompletionEvent(CompletionQueue&) override {}
  void OnCqOverflow(CompletionQueue&) override { Fail("overflow"); }
  void OnQpEvent(EngineQp&, QpEvent) override {}
  [[noreturn]] static void Fail(const char* what) {
    std::fprintf(stderr, "engine loop: %s\n", what);
    std::exit(1);
  }
};
NoEvents g_events;

// Ports and engines live as long as the process, as in programs.
std::unique_ptr<Port> OpenPort(const char* dev) {
  PortConfig config;
  config.dev = dev;
  auto port = CreatePort(config);
  if (!port.ok()) NoEvents::Fail(port.status().ToString().c_str());
  return *std::move(port);
}

// One engine with one queue pair, its rings and its memory.
class Node {
 public:
  Node(std::unique_ptr<Port> port, uint32_t ip, uint32_t max_inline = 0)
      : gid_(wire::Gid::FromIpv4(ip)),
        max_inline_(max_inline),
        rings_(new testing::FakeRings(256, 1, max_inline, 64, 1)) {
    NicConfig config;
    config.addresses = {{gid_, 96 + 24}};
    nic_ = new Nic(std::move(port), config);
    engine_ = &nic_->engine();
    memory_ = new (std::align_val_t(4096)) uint8_t[1 << 20]();
  }

  Engine& engine() { return *engine_; }
  RoceQp& qp() { return *qp_; }
  wire::Gid gid() const { return gid_; }

  void CreateQp() {
    EngineQpConfig config;
    config.limits = {.pd = kPd, .max_inline = max_inline_};
    config.sq = rings_->sq().view();
    config.rq = rings_->rq().view();
    config.send_cq = &cq_;
    config.recv_cq = &cq_;
    config.events = &g_events;
    Engine::ControlScope scope(*engine_);
    qp_ = &RoceQp::Of(**engine_->qps().Create(config));
    key_ = nic_->network().mrs().Register(kPd, Address(0), Address(0), 1 << 20,
                                          kAll);
  }

  // `peer` must run at the same time to answer the address resolution.
  void Connect(Node& peer, uint32_t mtu) {
    absl::StatusOr<net::Path> path = absl::UnknownError("");
    for (int i = 0; i < 1000 && !path.ok(); ++i) {
      path = nic_->ResolvePath(
          {.local = gid_, .remote = peer.gid_, .udp_src_port = 50000},
          Duration::Milliseconds(1));
      peer.engine_->Progress();
    }
    if (!path.ok()) NoEvents::Fail("no path to the peer");
    QpConfig config;
    config.dest_qpn = peer.qp_->qpn();
    config.mtu = mtu;
    config.access = kAll;
    config.timeout = Duration::Milliseconds(67);
    config.max_rd_atomic = config.max_dest_rd_atomic = 4;
    Engine::ControlScope scope(*engine_);
    qp_->path = RocePath(*path);
    for (auto state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      engine_->qps().Modify(*qp_, state, config);
    }
  }

  // Fills the ring once; after that, Post() moves only the index.
  void Prepare(uint8_t opcode, uint32_t bytes, uint32_t list,
               const Node& peer) {
    for (uint32_t i = 0; i < rings_->sq().entries(); ++i) {
      testing::SendWr wr;
      wr.opcode = opcode;
      wr.flags = i % list == list - 1 ? URNIC_SEND_SIGNALED : 0;
      wr.sges = {{Address(kStride * (i % kBurst)), bytes, key_}};
      wr.remote_addr = peer.Address(kStride * (i % kBurst));
      wr.rkey = peer.key_;
      rings_->WriteSend(i, wr);
    }
  }
  // As ib_send_lat: sends of two inline bytes, and receives for them.
  void PrepareSends() {
    testing::SendWr wr;
    wr.inline_data = {1, 2};
    for (uint32_t i = 0; i < rings_->sq().entries(); ++i) {
      rings_->WriteSend(i, wr);
    }
    while (rings_->PostRecv({.sges = {{Address(0), 2, key_}}})) {
    }
  }
  // REQUIRES: PrepareSends(), which has filled the entry.
  void PostRecv() {
    std::atomic_ref(rings_->rq().indices().producer)
        .fetch_add(1, std::memory_order_release);
  }
  void Post(uint32_t count) {
    std::atomic_ref(rings_->sq().indices().producer)
        .fetch_add(count, std::memory_order_release);
    engine_->Doorbell(*qp_);
  }
  // True if there was a completion, which is consumed.
  bool Poll() {
    if (cq_indices_.consumer == cq_indices_.producer) return false;
    if (cq_ring_[cq_indices_.consumer & 255].status != URNIC_WC_SUCCESS) {
      NoEvents::Fail("a completion in error");
    }
    ++cq_indices_.consumer;
    return true;
  }
  void Await() {
    while (!Poll()) {
      if (!engine_->Progress()) NoEvents::Fail("token is taken");
    }
  }

 private:
  uint64_t Address(size_t offset) const {
    return reinterpret_cast<uint64_t>(memory_) + offset;
  }

  const wire::Gid gid_;
  const uint32_t max_inline_;
  testing::FakeRings* const rings_;
  Nic* nic_;
  Engine* engine_;
  uint8_t* memory_;
  RoceQp* qp_ = nullptr;
  urnic_cqe* cq_ring_ = new urnic_cqe[256];
  urnic_queue_indices cq_indices_ = {};
  CompletionQueue cq_{cq_ring_, &cq_indices_, 256, &g_events, nullptr};
  uint32_t key_ = 0;
};

struct Nodes {
  Node* a;
  Node* b;
};

void Connect(const Nodes& n) {
  InstallMemoryGuard(nullptr, nullptr);
  n.a->CreateQp();
  n.b->CreateQp();
  n.a->Connect(*n.b, 4096);
  n.b->Connect(*n.a, 4096);
}

Nodes& RingNodes() {
  static Nodes nodes = [] {
    Nodes n{new Node(OpenPort("ring:bench:a"), 0x0a010001),
            new Node(OpenPort("ring:bench:b"), 0x0a010002)};
    Connect(n);
    return n;
  }();
  return nodes;
}

// Between two calls, a message and the acknowledgement of the last one are
// under way to `a`.
Nodes& PingPongNodes() {
  constexpr uint32_t kMaxInline = 236;  // what ib_send_lat asks for
  static Nodes nodes = [] {
    Nodes n{new Node(OpenPort("ring:trip:a"), 0x0a020001, kMaxInline),
            new Node(OpenPort("ring:trip:b"), 0x0a020002, kMaxInline)};
    Connect(n);
    n.a->PrepareSends();
    n.b->PrepareSends();
    n.a->Post(1);
    n.b->Await();
    n.b->PostRecv();
    n.b->Post(1);
    return n;
  }();
  return nodes;
}

// `count` writes in one list: the poster's doorbell, the peer's receive and
// ACK, the poster's completion. Each part is timed.
void Writes(benchmark::State& state, uint32_t bytes, uint32_t count) {
  Nodes& nodes = RingNodes();
  nodes.a->Prepare(URNIC_WR_RDMA_WRITE, bytes, count, *nodes.b);
  uint64_t post = 0;
  uint64_t respond = 0;
  uint64_t complete = 0;
  Measure(state, count, [&] {
    const uint64_t t0 = rte_rdtsc();
    nodes.a->Post(count);
    const uint64_t t1 = rte_rdtsc();
    nodes.b->engine().Progress();
    const uint64_t t2 = rte_rdtsc();
    while (!nodes.a->Poll()) {
      if (!nodes.a->engine().Progress()) NoEvents::Fail("token is taken");
      nodes.b->engine().Progress();
    }
    const uint64_t t3 = rte_rdtsc();
    post += t1 - t0;
    respond += t2 - t1;
    complete += t3 - t2;
  });
  const double packets = static_cast<double>(state.iterations()) * count;
  const double ns = 1e9 / static_cast<double>(rte_get_tsc_hz()) / packets;
  state.counters["post"] = static_cast<double>(post) * ns;
  state.counters["respond"] = static_cast<double>(respond) * ns;
  state.counters["complete"] = static_cast<double>(complete) * ns;
}

// Half a trip of ib_send_lat, without the verbs above the rings: awaits the
// completion of the last send, then the answer; posts the next receive and
// send. The ends take turns, so that no poll is wasted.
void HalfTrip(benchmark::State& state) {
  Nodes& nodes = PingPongNodes();
  Measure(state, 2, [&] {
    for (Node* node : {nodes.a, nodes.b}) {
      node->Await();
      node->Await();
      node->PostRecv();
      node->Post(1);
    }
  });
}

// The cost of an iteration that finds nothing.
void IdleIteration(benchmark::State& state) {
  Nodes& nodes = RingNodes();
  Measure(state, 1, [&] { nodes.a->engine().Progress(); });
}

// The cost of an event of the trace: kept, or not wanted.
void TraceEvents(benchmark::State& state, uint8_t level) {
  Trace& trace = RingNodes().a->engine().trace();
  trace.levels().Set(TraceComponent::kReceive, level);
  Measure(state, kBurst, [&] {
    for (uint64_t i = 0; i < kBurst; ++i)
      trace.Add(TracePoint::kPacketReceived, {.qpn = 17}, {1, i, 8, 0});
  });
  trace.levels().Set(TraceComponent::kReceive, trace_level::kDefault);
}

// As Writes(), with each packet that arrives in the trace of its engine.
void TracedWrites(benchmark::State& state, uint32_t bytes, uint32_t count) {
  const auto set = [](uint8_t level) {
    for (Node* node : {RingNodes().a, RingNodes().b}) {
      node->engine().trace().levels().Set(TraceComponent::kReceive, level);
    }
  };
  set(trace_level::kHotInternals);
  Writes(state, bytes, count);
  set(trace_level::kDefault);
}

}  // namespace

void AddEngineLoops(std::vector<Loop>& loops) {
  for (const uint32_t bytes : {8, 4096}) {
    for (const uint32_t count : {1, 32}) {
      loops.push_back(
          {"engine/write/" + std::to_string(bytes) + "/list_of_" +
               std::to_string(count),
           [=](benchmark::State& state) { Writes(state, bytes, count); }});
    }
  }
  loops.push_back({"engine/traced_write/8/list_of_32",
                   [](auto& state) { TracedWrites(state, 8, kBurst); }});
  loops.push_back({"engine/trace/kept", [](auto& state) {
                     TraceEvents(state, trace_level::kHotInternals);
                   }});
  loops.push_back({"engine/trace/off", [](auto& state) {
                     TraceEvents(state, trace_level::kDefault);
                   }});
  loops.push_back({"engine/half_trip", HalfTrip});
  loops.push_back({"engine/idle_iteration", IdleIteration});
}

}  // namespace urnic::bench
