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
  uint32_t AddPeer(const rud::upper::WindowAddress&) override { return 1; }
  void RemovePeer(uint32_t) override {}
  std::optional<rud::ContextId> AcquireContext() override {
    return rud::ContextId{next_++, 1};
  }
  void ReleaseContext(rud::ContextId) override {}

  void Doorbell() override {
    for (; consumer_ != send_indices_.producer; ++consumer_) {
      urnic_rud_send& command = sends_[consumer_ % kEntries];
      if (command.opcode == URNIC_RUD_PACKET) {
        urnic_rud_receive& entry = other_->Next(command.bytes);
        std::memcpy(entry.tag, command.tag, sizeof(entry.tag));
        entry.path = command.path;
        entry.peer = 1;
        other_->Push(&send_slots_[consumer_ % kEntries * kSlotBytes],
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
    send_indices_.consumer = consumer_;
  }

 private:
  urnic_rud_receive& Next(uint32_t bytes) {
    urnic_rud_receive& entry = receives_[receive_indices_.producer % kEntries];
    entry.bytes = static_cast<uint16_t>(bytes);
    return entry;
  }
  void Push(const uint8_t* payload, uint32_t bytes, uint8_t type) {
    const uint32_t place = receive_indices_.producer++ % kEntries;
    if (bytes != 0)
      std::memcpy(&receive_slots_[place * kSlotBytes], payload, bytes);
    std::atomic_ref(receives_[place].type)
        .store(type, std::memory_order_release);
  }

  const uint32_t number_;
  FakeRnic* other_ = nullptr;
  uint32_t next_ = 1;
  uint32_t consumer_ = 0;
  urnic_queue_indices send_indices_ = {};
  urnic_queue_indices receive_indices_ = {};
  std::vector<urnic_rud_send> sends_ = std::vector<urnic_rud_send>(kEntries);
  std::vector<urnic_rud_receive> receives_ =
      std::vector<urnic_rud_receive>(kEntries);
  std::vector<uint8_t> send_slots_ =
      std::vector<uint8_t>(size_t{kEntries} * kSlotBytes);
  std::vector<uint8_t> receive_slots_ =
      std::vector<uint8_t>(size_t{kEntries} * kSlotBytes);
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
