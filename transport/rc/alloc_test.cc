// The packet path allocates nothing: two queue pairs exchange all operations,
// through preallocated buffers, while an allocation guard counts.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/support/alloc_guard.h"
#include "tests/support/fake_host.h"
#include "tests/support/fake_rings.h"
#include "transport/rc/qp.h"
#include "transport/work/timers.h"

namespace urnic::rc {
namespace {

using testing::AllocGuard;
using testing::FakeHost;
using testing::FakeRings;
using testing::OwnRecvQueue;

constexpr uint32_t kAll = mem::kLocalWrite | mem::kRemoteWrite |
                          mem::kRemoteRead | mem::kRemoteAtomic;
constexpr size_t kFrameBytes = 4096 + 64;

struct FixedSink {
  void Place(const Placement& placement) {
    placements[placement_count++] = placement;
  }
  void Complete(const RecvCompletion& done) { received += done.status == 0; }
  void Count(RxVerdict verdict) { accepted += verdict == RxVerdict::kAccept; }

  // Executes the collected placements, as an engine does after OnBurst().
  void Execute() {
    for (uint32_t i = 0; i < placement_count; ++i) {
      const Placement& p = placements[i];
      auto* target = reinterpret_cast<uint8_t*>(p.target);
      if (p.kind == Placement::Kind::kCopy) {
        std::memcpy(target, p.source, p.bytes);
      } else {
        std::memcpy(p.original, target, 8);
      }
    }
    placement_count = 0;
  }

  Placement placements[1024];
  uint32_t placement_count = 0;
  uint32_t received = 0;
  uint32_t accepted = 0;
};

class End {
 public:
  End() : rings_(64, 4, 64, 64, 4), records_(64) {
    key_ = host_.Register(1, 0, host_.size(), kAll);
    for (uint32_t i = 0; i < kRunMax; ++i) slots_[i].headers = frames_[i];
  }

  // One burst: transmits, and hands the packets to `peer`.
  uint32_t ExchangeWith(End& peer, Time now) {
    const uint32_t count = qp_.Transmit(now, slots_);
    for (uint32_t i = 0; i < count; ++i) {
      const TxSlot& slot = slots_[i];
      uint8_t* at = frames_[i] + slot.header_bytes;
      for (uint32_t s = 0; s < slot.segment_count; ++s) {
        std::memcpy(at, reinterpret_cast<void*>(slot.segments[s].address),
                    slot.segments[s].bytes);
        at += slot.segments[s].bytes;
      }
      const auto bytes = static_cast<uint32_t>(at - frames_[i]);
      peer.Receive(frames_[i], bytes + slot.pad_bytes + wire::kIcrcBytes, now);
    }
    return count;
  }

  void Receive(const uint8_t* frame, uint32_t bytes, Time now) {
    RxPacket packet;
    if (wire::ParseRoce(frame, bytes, packet) != RxVerdict::kAccept) return;
    qp_.OnBurst({&packet, 1}, now, sink_);
    sink_.Execute();
    Poll();
  }
  void Poll() { (void)qp_.Settle({}, *this); }
  // The sink of Settle().
  void Sent(const SendCompletion& done) { sent_ += done.status == 0; }
  void Received(const RecvCompletion&) {}
  void Flushed(const RecvCompletion&) { ++flushed_; }

  FakeHost host_{64 * 1024};
  uint32_t key_ = 0;
  FakeRings rings_;
  std::vector<SendRecord> records_;
  ReplaySlot replay_[kReplaySlots];
  OwnRecvQueue recv_queue_{rings_.rq().view(), 4};
  cc::SharedPath path_;
  RoceCounters counters_;
  RecoveryPool pool_{kNoRecovery, nullptr, &counters_};
  Qp qp_{QpLimits{.qpn = 1,
                  .pd = 1,
                  .max_sge_send = 4,
                  .max_sge_recv = 4,
                  .max_inline = 64,
                  .sq_sig_all = true},
         rings_.sq().view(),
         records_,
         replay_,
         &recv_queue_.queue(),
         &host_.mrs(),
         &pool_};
  FixedSink sink_;
  uint8_t frames_[kRunMax][kFrameBytes];
  TxSlot slots_[kRunMax];
  uint32_t sent_ = 0;
  uint32_t flushed_ = 0;
};

TEST(AllocTest, TheGuardSeesMallocAndNew) {
  AllocGuard guard;
  std::vector<int> something(100);
  something[0] = 1;
  EXPECT_GT(guard.count(), 0u);
}

TEST(AllocTest, NothingIsAllocatedOnThePacketPath) {
  // Too big for the stack.
  const auto a = std::make_unique<End>();
  const auto b = std::make_unique<End>();
  QpConfig config;
  config.access = kAll;
  config.timeout = AckTimeout(8);
  config.max_rd_atomic = config.max_dest_rd_atomic = 4;
  for (End* end : {a.get(), b.get()}) {
    end->qp_.Join(&end->path_);
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      end->qp_.Modify(state, config);
    }
  }
  static constexpr uint8_t kOpcodes[] = {URNIC_WR_RDMA_WRITE,
                                         URNIC_WR_RDMA_WRITE_WITH_IMM,
                                         URNIC_WR_SEND,
                                         URNIC_WR_RDMA_READ,
                                         URNIC_WR_ATOMIC_CMP_AND_SWP,
                                         URNIC_WR_ATOMIC_FETCH_AND_ADD};
  for (uint32_t i = 0; i < 48; ++i) {
    const uint8_t opcode = kOpcodes[i % std::size(kOpcodes)];
    testing::SendWr wr{.opcode = opcode, .wr_id = i};
    const uint32_t length = i % 6 >= 4 ? 8 : 100 * i;
    wr.sges = {{a->host_.address(0), length, a->key_}};
    wr.remote_addr = b->host_.address(8192);
    wr.rkey = b->key_;
    ASSERT_TRUE(a->rings_.PostSend(wr));
    if (i % 6 == 1 || i % 6 == 2) {
      ASSERT_TRUE(b->rings_.PostRecv(
          {.wr_id = i, .sges = {{b->host_.address(0), 8192, b->key_}}}));
    }
  }
  Time now;
  AllocGuard guard;
  while (a->ExchangeWith(*b, now) + b->ExchangeWith(*a, now) != 0) {
  }
  (void)a->qp_.OnTimer(a->qp_.NextDeadline(), *a);
  EXPECT_EQ(guard.count(), 0u);
  EXPECT_EQ(a->sent_, 48u);
  EXPECT_EQ(b->sink_.received, 16u);
  // Flushing allocates nothing either.
  ASSERT_TRUE(a->rings_.PostSend({.wr_id = 99}));
  ASSERT_TRUE(a->rings_.PostRecv({.wr_id = 99}));
  AllocGuard flush_guard;
  a->qp_.Modify(QpState::kErr, config);
  a->Poll();
  EXPECT_EQ(flush_guard.count(), 0u);
  EXPECT_EQ(a->flushed_, 1u);
}

// The size of a queue pair without its rings (bench/BUDGET.md), and of the
// structures that exist per work request, read or region.
TEST(SizeTest, StructuresStayWithinTheirBudgets) {
  EXPECT_LE(sizeof(Qp) + sizeof(RecvQueue) + sizeof(RecvRing), 1024u);
  EXPECT_EQ(sizeof(SendRecord), 16u);
  EXPECT_EQ(sizeof(ReplaySlot), 56u);
  EXPECT_EQ(sizeof(mem::MemoryRegion), 64u);
  EXPECT_EQ(sizeof(Placement), 56u);
}

}  // namespace
}  // namespace urnic::rc
