// The upper layer of RUD, without an RNIC: what stands for it completes each
// write at once. So the figure is what the program's library costs, and a few
// instructions for the entries of the rings.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "bench/loops.h"
#include "tests/support/rud_ring_memory.h"
#include "transport/rud/upper/endpoint.h"

namespace urnic::bench {
namespace {

using rud::upper::Endpoint;
using rud::upper::Event;

constexpr uint32_t kBurst = 32;
constexpr uint32_t kEntries = 512;
constexpr uint32_t kSlotBytes = 1024;

class FakeRnic : public rud::upper::Adapter {
 public:
  explicit FakeRnic(uint32_t number) : number_(number) {}
  void Meet(FakeRnic* other) { other_ = other; }

  rud::upper::WindowAddress Address() const override {
    return {wire::Gid::FromIpv4(number_), number_, number_};
  }
  rud::upper::RingMemory Rings() override {
    return testing::RingMemoryOf(rings_);
  }
  uint32_t PacketBytes() const override { return kSlotBytes; }
  uint32_t AddPeer(const rud::upper::WindowAddress&) override { return 1; }
  void RemovePeer(uint32_t) override {}
  std::optional<rud::ContextId> AcquireContext() override {
    return rud::ContextId{next_++, 1};
  }
  void ReleaseContext(rud::ContextId) override {}

  void Doorbell() override {
    for (; consumer_ != rings_.send_indices.producer; ++consumer_) {
      urnic_rud_send& command = rings_.sends[consumer_ % kEntries];
      if (command.opcode == URNIC_RUD_PACKET) {
        urnic_rud_receive& entry = other_->Next(command.bytes);
        std::memcpy(entry.tag, command.tag, sizeof(entry.tag));
        entry.path = command.path;
        entry.peer = 1;
        other_->Push(&rings_.send_slots[consumer_ % kEntries * kSlotBytes],
                     command.bytes, URNIC_RUD_GOT_PACKET);
      } else {
        urnic_rud_receive& entry = Next(0);
        entry.context = command.local_context;
        entry.tid = command.tid;
        entry.path = command.path;
        Push(nullptr, 0, URNIC_RUD_GOT_COMPLETION);
      }
      command.status = URNIC_RUD_SENT;
    }
    rings_.send_indices.consumer = consumer_;
  }

 private:
  urnic_rud_receive& Next(uint32_t bytes) {
    urnic_rud_receive& entry =
        rings_.receives[rings_.receive_indices.producer % kEntries];
    entry.bytes = static_cast<uint16_t>(bytes);
    return entry;
  }
  void Push(const uint8_t* payload, uint32_t bytes, uint8_t type) {
    const uint32_t place = rings_.receive_indices.producer++ % kEntries;
    if (bytes != 0)
      std::memcpy(&rings_.receive_slots[place * kSlotBytes], payload, bytes);
    std::atomic_ref(rings_.receives[place].type)
        .store(type, std::memory_order_release);
  }

  const uint32_t number_;
  FakeRnic* other_ = nullptr;
  uint32_t next_ = 1;
  uint32_t consumer_ = 0;
  testing::RudRings rings_{kEntries, kEntries, kSlotBytes};
};

struct Pair {
  FakeRnic a{1};
  FakeRnic b{2};
  std::unique_ptr<Endpoint> from;
  std::unique_ptr<Endpoint> to;
  Time now = Time::FromNs(1'000'000'000);
  Event events[kBurst];

  Pair() {
    a.Meet(&b);
    b.Meet(&a);
    rud::upper::Adapter* const adapters[] = {&a, &b};
    from = std::make_unique<Endpoint>(rud::upper::EndpointConfig(),
                                      std::span(adapters).first(1), 1);
    to = std::make_unique<Endpoint>(rud::upper::EndpointConfig(),
                                    std::span(adapters).last(1), 2);
    from->AddPeer(now, to->Address());
    to->AddPeer(now, from->Address());
    for (int i = 0; i < 1000; ++i) {
      now = now + Duration::Microseconds(100);
      from->Poll(now, events);
      to->Poll(now, events);
    }
  }

  void Writes() {
    const uint8_t data[8] = {};
    now = now + Duration::Microseconds(2);
    for (uint32_t i = 0; i < kBurst; ++i) from->WriteInline(now, 1, data, i, i);
    from->Flush();
    now = now + Duration::Microseconds(2);
    uint32_t done = 0;
    while (done != kBurst) {
      const uint32_t count = from->Poll(now, events);
      if (count == 0) {
        std::fprintf(stderr, "rud loop: nothing completes\n");
        std::exit(1);
      }
      done += count;
    }
  }
};

}  // namespace

void AddRudLoops(std::vector<Loop>& loops) {
  loops.push_back({"rud/upper_write_8", [](benchmark::State& state) {
                     Pair pair;
                     Measure(state, kBurst, [&] { pair.Writes(); });
                   }});
}

}  // namespace urnic::bench
