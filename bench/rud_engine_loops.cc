// Writes of RUD from the program's call to its event: the upper layer, and two
// engines on the two ends of a ring, in one thread. Next to the loops of RC
// (engine_loops.cc), which begin and end at the rings of the verbs.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "bench/loops.h"
#include "datapath/engine/engine.h"
#include "tests/support/rud_node.h"
#include "tests/support/rud_ring_memory.h"
#include "transport/rud/upper/endpoint.h"

namespace urnic::bench {
namespace {

using rud::upper::Endpoint;
using rud::upper::Event;

constexpr uint32_t kBurst = 32;
constexpr uint32_t kEntries = 512;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "rud loop: %s\n", what);
  std::exit(1);
}

// One RNIC, its window, and the endpoint over it.
class Node : public testing::RudNode, public rud::upper::Adapter {
 public:
  Node(const char* dev, uint32_t ip)
      : RudNode({.dev = dev, .ip = ip, .entries = kEntries}) {
    Adapter* const adapter = this;
    endpoint_ = std::make_unique<Endpoint>(rud::upper::EndpointConfig(),
                                           std::span(&adapter, 1), ip);
  }

  Endpoint& endpoint() { return *endpoint_; }
  // Before the endpoints meet.
  void Meet(Node& other) { path_ = testing::FindPath(*this, other); }

  rud::upper::WindowAddress Address() const override {
    return {gid(), number_, key()};
  }
  rud::upper::RingMemory Rings() override {
    return testing::RingMemoryOf(rings());
  }
  uint32_t PacketBytes() const override { return kSlotBytes; }
  uint32_t AddPeer(const rud::upper::WindowAddress& address) override {
    return RudNode::AddPeer(path_, address.window, address.key);
  }
  void RemovePeer(uint32_t) override {}
  std::optional<rud::ContextId> AcquireContext() override { return Acquire(); }
  void ReleaseContext(rud::ContextId) override {}
  void Doorbell() override { engine().Doorbell(window()); }

 private:
  const uint32_t number_ = window().qpn();
  net::Path path_;
  std::unique_ptr<Endpoint> endpoint_;
};

// As programs' RNICs, they live as long as the process.
struct Pair {
  Node& a = *new Node("ring:rud_bench:a", 0x0a030001);
  Node& b = *new Node("ring:rud_bench:b", 0x0a030002);
  Time now = Time::FromNs(1'000'000'000);
  Event events[kBurst];

  Pair() {
    a.Meet(b);
    b.Meet(a);
    a.endpoint().AddPeer(now, b.endpoint().Address());
    b.endpoint().AddPeer(now, a.endpoint().Address());
    for (int i = 0; i < 1000; ++i) {
      now = now + Duration::Microseconds(100);
      b.engine().Progress();
      b.endpoint().Poll(now, events);
      a.engine().Progress();
      a.endpoint().Poll(now, events);
    }
  }

  void Writes() {
    const uint8_t data[8] = {};
    now = now + Duration::Microseconds(4);
    for (uint32_t i = 0; i < kBurst; ++i)
      a.endpoint().WriteInline(now, 1, data, b.pvo().value + i * 64, i);
    a.endpoint().Flush();
    uint32_t done = 0;
    for (int turns = 0; done != kBurst; ++turns) {
      if (turns == 10) Fail("nothing completes");
      b.engine().Progress();
      b.endpoint().Poll(now, events);
      a.engine().Progress();
      now = now + Duration::Microseconds(4);
      done += a.endpoint().Poll(now, events);
    }
  }
};

}  // namespace

void AddRudEngineLoops(std::vector<Loop>& loops) {
  loops.push_back(
      {"engine/rud/write/8/list_of_32", [](benchmark::State& state) {
         static Pair& pair = *new Pair;
         Measure(state, kBurst, [] { pair.Writes(); });
       }});
}

}  // namespace urnic::bench
