// Writes of RUD from the program's call to its event: the upper layer, and two
// engines on the two ends of a ring, in one thread. Next to the loops of RC
// (engine_loops.cc), which begin and end at the rings of the verbs.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "bench/loops.h"
#include "datapath/engine/rud_window.h"
#include "tests/support/nic_node.h"
#include "transport/rud/upper/endpoint.h"

namespace urnic::bench {
namespace {

using rud::upper::Endpoint;
using rud::upper::Event;

constexpr uint32_t kBurst = 32;
constexpr uint32_t kJob = 5;
constexpr uint32_t kEntries = 512;
constexpr uint32_t kSlotBytes = 1024;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "rud loop: %s\n", what);
  std::exit(1);
}

// One RNIC, its window, and the endpoint over it.
class Node : public testing::NicNode, public rud::upper::Adapter {
 public:
  Node(const char* dev, uint32_t ip)
      : NicNode(testing::OpenTestPort(dev), wire::Gid::FromIpv4(ip), {}, 64),
        key_(ip ^ 77),
        tces_(tce_storage_, ip) {
    RudWindowConfig window = {
        .job = kJob,
        .key = key_,
        .max_payload = kSlotBytes,
        .send = rud::SendFifo(sends_.data(), kEntries, &send_indices_,
                              send_slots_.data(), kSlotBytes),
        .receive =
            rud::ReceiveFifo(receives_.data(), kEntries, &receive_indices_,
                             receive_slots_.data(), kSlotBytes),
        .tces = &tces_,
        .task = {&views_, 0}};
    EngineQpConfig config;
    config.service = QpService::kRud;
    config.rud = &window;
    {
      Engine::ControlScope scope(engine());
      window_ = &RudWindow::Of(**engine().qps().Create(config));
      for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts})
        engine().qps().Modify(*window_, state, {});
    }
    pvo_ = tces_
               .Register(kJob, address(0), kMemoryBytes, mem::kRemoteWrite,
                         rud::PageSize::k4K)
               .value();
    Adapter* const adapter = this;
    endpoint_ = std::make_unique<Endpoint>(rud::upper::EndpointConfig(),
                                           std::span(&adapter, 1), ip);
  }

  Endpoint& endpoint() { return *endpoint_; }
  uint64_t pvo() const { return pvo_.value; }
  // Before the endpoints meet.
  void Meet(Node& other) { path_ = testing::FindPath(*this, other); }

  rud::upper::WindowAddress Address() const override {
    return {gid(), window_->qpn(), key_};
  }
  rud::upper::RingMemory Rings() override {
    return {.sends = sends_.data(),
            .send_indices = &send_indices_,
            .send_slots = send_slots_.data(),
            .receives = receives_.data(),
            .receive_indices = &receive_indices_,
            .receive_slots = receive_slots_.data(),
            .send_count = kEntries,
            .send_slot_bytes = kSlotBytes,
            .receive_count = kEntries,
            .receive_slot_bytes = kSlotBytes};
  }
  uint32_t PacketBytes() const override { return kSlotBytes; }
  uint32_t AddPeer(const rud::upper::WindowAddress& address) override {
    Engine::ControlScope scope(engine());
    return window_->AddPeer(path_, address.window, address.key);
  }
  void RemovePeer(uint32_t) override {}
  std::optional<rud::ContextId> AcquireContext() override {
    Engine::ControlScope scope(engine());
    return window_->AcquireContext();
  }
  void ReleaseContext(rud::ContextId) override {}
  void Doorbell() override { engine().Doorbell(*window_); }

 private:
  const uint32_t key_;
  rud::TaskViews<std::atomic> views_;
  std::vector<rud::Tce> tce_storage_ =
      std::vector<rud::Tce>(rud::TceTables::kTables * size_t{512});
  rud::TceTables tces_;
  std::vector<urnic_rud_send> sends_ = std::vector<urnic_rud_send>(kEntries);
  std::vector<uint8_t> send_slots_ =
      std::vector<uint8_t>(size_t{kEntries} * kSlotBytes);
  urnic_queue_indices send_indices_ = {};
  std::vector<urnic_rud_receive> receives_ =
      std::vector<urnic_rud_receive>(kEntries);
  std::vector<uint8_t> receive_slots_ =
      std::vector<uint8_t>(size_t{kEntries} * kSlotBytes);
  urnic_queue_indices receive_indices_ = {};
  RudWindow* window_ = nullptr;
  rud::Pvo pvo_;
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
      a.endpoint().WriteInline(now, 1, data, b.pvo() + i * 64, i);
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
