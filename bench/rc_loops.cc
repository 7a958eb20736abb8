// The RC core alone: without frame headers, ICRC, copies and DPDK.

#include <cstring>
#include <memory>

#include "bench/frames.h"
#include "bench/loops.h"
#include "tests/support/fake_host.h"
#include "tests/support/fake_rings.h"
#include "transport/rc/qp.h"

namespace urnic::bench {
namespace {

using testing::FakeHost;
using testing::FakeRings;
using testing::OwnRecvQueue;

constexpr uint32_t kBurst = 32;
constexpr uint32_t kPd = 1;
constexpr uint32_t kAll =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;

// Takes the outcome of a burst like an engine, without executing it.
struct Collect {
  void Place(const Placement& placement) {
    placements[placed++ % kBurst] = placement;
  }
  void Complete(const RecvCompletion&) { ++completed; }
  void Count(RxVerdict verdict) { ++verdicts[static_cast<size_t>(verdict)]; }
  void Sent(const SendCompletion& done) { benchmark::DoNotOptimize(done); }
  void Received(const RecvCompletion&) {}
  void Flushed(const RecvCompletion&) {}
  Placement placements[kBurst];
  uint64_t verdicts[kRxVerdictCount] = {};
  uint32_t placed = 0;
  uint32_t completed = 0;
};

// One queue pair in RTS whose peer would be itself.
struct Side {
  Side() {
    QpConfig config;
    config.dest_qpn = 2;
    config.access = kAll;
    config.timeout = Duration::Milliseconds(67);
    qp.Join(&path);
    for (auto state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      qp.Modify(state, config);
    }
    key = host.Register(kPd, 0, 65536, kAll);
    for (uint32_t i = 0; i < kBurst; ++i) slots[i].headers = headers[i];
  }

  FakeHost host{65536};
  FakeRings rings{128, 1, 0, 128, 1};
  rc::SendRecord records[128];
  rc::ReplaySlot replay[rc::kReplaySlots];
  OwnRecvQueue recv_queue{rings.rq().view(), 1};
  RoceCounters counters;
  rc::RecoveryPool pool{rc::kNoRecovery, nullptr, &counters};
  cc::SharedPath path;
  rc::Qp qp{{.qpn = 2, .pd = kPd, .max_inline = 16},
            rings.sq().view(),
            records,
            replay,
            &recv_queue.queue(),
            &host.mrs(),
            &pool};
  uint32_t key = 0;
  TxSlot slots[kBurst];
  uint8_t headers[kBurst][kMaxHeaderBytes];
  Collect out;
  Time now = Time::FromNs(1000);
};

// An acknowledgement as received from the wire.
struct Ack {
  Ack() {
    wire::PacketFields fields;
    fields.opcode = static_cast<uint8_t>(wire::Opcode::kRcAcknowledge);
    fields.syndrome = wire::kAethAck | wire::kAethCreditsInvalid;
    bytes.resize(64);
    const size_t size = wire::EmitRoce(fields, bytes);
    bytes.resize(size + wire::kIcrcBytes);
    (void)wire::ParseRoce(bytes.data(), static_cast<uint32_t>(bytes.size()),
                          packet);
  }
  void SetPsn(Psn psn) {
    auto* bth = reinterpret_cast<wire::Bth*>(bytes.data());
    bth->ack_psn = wire::Bth::MakeAckPsn(false, psn);
  }
  std::vector<uint8_t> bytes;
  RxPacket packet;
};

// 32 writes of 8 bytes become packets; one ACK completes them; one completion
// is polled. The entries stay in the ring, and only the producer index moves.
void Requester(benchmark::State& state) {
  const auto side = std::make_unique<Side>();
  for (uint32_t i = 0; i < side->rings.sq().entries(); ++i) {
    testing::SendWr wr;
    wr.opcode = URNIC_WR_RDMA_WRITE;
    wr.flags = i % kBurst == kBurst - 1 ? URNIC_SEND_SIGNALED : 0;
    wr.sges = {{side->host.address(64 * (i % kBurst)), 8, side->key}};
    wr.remote_addr = side->host.address(4096);
    wr.rkey = side->key;
    side->rings.WriteSend(i, wr);
  }
  Ack ack;
  Psn last;
  const auto turn = [&] {
    const uint32_t sent = side->qp.Transmit(side->now, side->slots);
    last = last + static_cast<int32_t>(sent);
    ack.SetPsn(last + -1);
    side->qp.OnBurst({&ack.packet, 1}, side->now, side->out);
    benchmark::DoNotOptimize(side->qp.Settle({}, side->out));
    return sent;
  };
  // Until the window holds a burst.
  side->rings.sq().indices().producer += kBurst;
  while (turn() != 0) {
  }
  Measure(state, kBurst, [&] {
    side->rings.sq().indices().producer += kBurst;
    if (turn() != kBurst) state.SkipWithError("not all packets were sent");
  });
}

// 32 writes of 8 bytes arrive and are acknowledged once.
void Responder(benchmark::State& state) {
  const auto side = std::make_unique<Side>();
  const auto frames = std::make_unique<Frame[]>(kBurst);
  std::vector<RxPacket> packets(kBurst);
  for (uint32_t i = 0; i < kBurst; ++i) {
    WriteOnlyFrame(8, side->host.address(64 * i), side->key, 2, Psn(),
                   frames[i]);
  }
  for (uint32_t i = 0; i < kBurst; ++i) {
    (void)wire::ParseRoce(frames[i].bytes.data() + 42, frames[i].size - 42,
                          packets[i]);
  }
  Psn next;
  Measure(state, kBurst, [&] {
    for (uint32_t i = 0; i < kBurst; ++i) {
      auto* bth = reinterpret_cast<wire::Bth*>(frames[i].bytes.data() + 42);
      bth->ack_psn = wire::Bth::MakeAckPsn(i == kBurst - 1, next);
      next = next.Next();
    }
    side->qp.OnBurst(packets, side->now, side->out);
    const uint32_t acks = side->qp.Transmit(side->now, side->slots);
    if (acks != 1) state.SkipWithError("not one acknowledgement");
  });
  if (side->out.verdicts[static_cast<size_t>(RxVerdict::kAccept)] !=
      static_cast<uint64_t>(state.iterations()) * kBurst) {
    state.SkipWithError("a packet was refused");
  }
}

}  // namespace

void AddRcLoops(std::vector<Loop>& loops) {
  loops.push_back({"rc/requester_write8", Requester});
  loops.push_back({"rc/responder_write8", Responder});
}

}  // namespace urnic::bench
