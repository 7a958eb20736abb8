// The program's ends of the rings, and the memory of the rings.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "transport/work/work_queue.h"
#include "verbs/control/completion_ring.h"
#include "verbs/control/limits.h"
#include "verbs/control/queue_memory.h"
#include "verbs/control/work_ring.h"

namespace urnic::control {
namespace {

TEST(QpLayoutTest, OneEntryOfOneSgeIsOneCacheLine) {
  const QpLayout layout = MakeQpLayout(100, 1, 0, 100, 1);
  EXPECT_EQ(layout.sq_entries, 128u);
  EXPECT_EQ(layout.sq_stride, 64u);
  EXPECT_EQ(layout.inline_bytes(), 16u);
  EXPECT_EQ(layout.rq_entries, 128u);
  EXPECT_EQ(layout.rq_stride, 32u);
  EXPECT_EQ(layout.bytes(), 256u + 128 * 64 + 128 * 32);
}

TEST(QpLayoutTest, HoldsTheLargestEntryOfEachSize) {
  for (uint32_t sges = 0; sges <= kMaxSge; ++sges) {
    for (uint32_t bytes = 0; bytes <= kMaxInline; bytes += 37) {
      const QpLayout layout = MakeQpLayout(1, sges, bytes, 1, sges);
      EXPECT_EQ(layout.sq_stride % URNIC_ABI_LINE, 0u);
      EXPECT_GE(layout.inline_bytes(), bytes);
      EXPECT_GE(layout.inline_bytes(), sges * sizeof(urnic_sge));
      EXPECT_EQ(layout.rq_stride % 16, 0u);
      EXPECT_GE(layout.rq_stride, 16 + sges * sizeof(urnic_sge));
    }
  }
}

TEST(QpLayoutTest, AQueueMayBeMissing) {
  const QpLayout layout = MakeQpLayout(0, 0, 0, 0, 0);
  EXPECT_EQ(layout.sq_entries, 0u);
  EXPECT_EQ(layout.rq_entries, 0u);
  WorkRing ring(nullptr, nullptr, 0, 64);
  // Indices are REQUIRED only to look for room.
  urnic_queue_indices indices = {};
  ring = WorkRing(nullptr, &indices, 0, 64);
  EXPECT_EQ(ring.Next(), nullptr);
}

// A process may have 65530 mappings, and unmapping one between two neighbours
// takes one more.
TEST(QueueMemoryTest, FreeingEveryOtherOneOfManyLeavesRoomForMore) {
  std::vector<QueueMemory> all;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1 << 18; ++i) {
      auto memory = QueueMemory::Make(nullptr, 512);
      ASSERT_TRUE(memory.ok()) << i << ": " << memory.status();
      all.push_back(*std::move(memory));
    }
    for (size_t i = 0; i < all.size(); i += 2) all[i] = QueueMemory();
    all.clear();
  }
}

TEST(QueueMemoryTest, ItsIndicesAreZeroedAndItIsLineAligned) {
  for (const size_t bytes : {1u, 64u, 100u, 4096u, 1u << 20}) {
    for (int round = 0; round < 3; ++round) {
      auto memory = QueueMemory::Make(nullptr, bytes);
      ASSERT_TRUE(memory.ok());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->at(0)) % URNIC_ABI_LINE,
                0u);
      const size_t zeroed = std::min(bytes, QpLayout::kSqRing);
      EXPECT_EQ(std::count(memory->at(0), memory->at(zeroed), 0),
                static_cast<ptrdiff_t>(zeroed));
      std::memset(memory->at(0), 0xff, bytes);
    }
  }
}

TEST(WorkRingTest, TheEnginesEndSeesEachEntryAfterPublish) {
  auto memory = QueueMemory::Make(nullptr, 4096);
  ASSERT_TRUE(memory.ok());
  urnic_queue_indices* indices = memory->indices_at(0);
  WorkRing ring(memory->at(256), indices, 4, 64);
  WorkQueueView view(memory->at(256), indices, 4, 64);
  uint64_t posted = 0;
  uint32_t consumed = 0;
  for (uint32_t round = 0; round < 10; ++round) {
    const uint32_t waiting = view.Posted(consumed);
    while (uint8_t* entry = ring.Next()) {
      std::memcpy(entry, &posted, sizeof(posted));
      ring.Advance();
      ++posted;
    }
    EXPECT_EQ(view.Posted(consumed), waiting) << "not published yet";
    ring.Publish();
    ASSERT_EQ(view.Posted(consumed), 4u) << "full";
    // Not all of them, so that the ring wraps at changing entries.
    for (uint32_t i = 0; i < 3; ++i, ++consumed) {
      EXPECT_EQ(view.Read<uint64_t>(consumed), consumed);
    }
    view.PublishConsumer(consumed);
  }
  EXPECT_EQ(posted, 31u);
}

class CompletionRingTest : public testing::Test {
 protected:
  void Push(uint32_t qpn) {
    urnic_cqe& cqe = cqes_[indices_.producer & 7];
    cqe.qp_num = qpn;
    cqe.wr_id = next_id_++;
    ++indices_.producer;
  }
  std::vector<uint64_t> PollAll() {
    std::vector<uint64_t> ids;
    ring_.Poll(100, [&](const urnic_cqe& c) { ids.push_back(c.wr_id); });
    return ids;
  }

  urnic_queue_indices indices_ = {};
  urnic_cqe cqes_[8] = {};
  uint64_t next_id_ = 0;
  CompletionRing ring_{cqes_, &indices_, 8};
};

TEST_F(CompletionRingTest, ReturnsCompletionsInOrderAndFreesTheirEntries) {
  for (uint32_t i = 0; i < 5; ++i) Push(1);
  EXPECT_EQ(ring_.Poll(2, [](const urnic_cqe&) {}), 2u);
  EXPECT_EQ(indices_.consumer, 2u);
  EXPECT_EQ(PollAll(), (std::vector<uint64_t>{2, 3, 4}));
  EXPECT_EQ(indices_.consumer, 5u);
  EXPECT_TRUE(PollAll().empty());
}

TEST_F(CompletionRingTest, ForgetsOneQueuePairAndKeepsTheOrderOfTheRest) {
  // Every pattern of two queue pairs in a ring that has wrapped.
  for (uint32_t pattern = 0; pattern < 256; ++pattern) {
    for (int i = 0; i < 3; ++i) Push(9);
    PollAll();
    std::vector<uint64_t> expected;
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t qpn = 1 + (pattern >> i & 1);
      if (qpn == 2) expected.push_back(next_id_);
      Push(qpn);
    }
    ring_.Forget(1);
    EXPECT_EQ(PollAll(), expected) << pattern;
  }
}

}  // namespace
}  // namespace urnic::control
