// The data of iWARP connections between two engines at the ends of a ring, also
// if the wire loses, reorders and duplicates frames.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "tests/support/iwarp_node.h"

namespace urnic {
namespace {

using iwarp::Event;
using testing::IwarpNode;
using testing::IwarpNodeOptions;
using testing::IwarpPair;
using testing::SendWr;
using Program = IwarpNode::Program;

struct Wire {
  const char* name;
  const char* fault = "";
  bool ipv6 = false;
};

constexpr size_t kSource = 0;
constexpr size_t kTarget = 512 << 10;

class IwarpDataTest : public ::testing::TestWithParam<Wire> {
 protected:
  IwarpDataTest()
      : pair_("iwd", {.fault = GetParam().fault, .ipv6 = GetParam().ipv6}) {
    for (size_t i = 0; i < kTarget; ++i) {
      a.memory()[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
    }
    EXPECT_TRUE(pair_.Connect(from, to));
  }

  SendWr Request(uint8_t opcode, uint32_t bytes) {
    SendWr wr = {.opcode = opcode, .remote_addr = b.address(kTarget)};
    wr.rkey = b.key();
    wr.wr_id = ++requests_;
    if (bytes != 0) wr.sges = {a.Sge(kSource, bytes)};
    return wr;
  }
  bool RunUntilDone(size_t at_a, size_t at_b) {
    return pair_.RunUntil(
        [&] { return a.done.size() >= at_a && b.done.size() >= at_b; });
  }
  // All completions are successes, in the order of their requests.
  static void ExpectInOrder(const IwarpNode& node, size_t count) {
    ASSERT_EQ(node.done.size(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(node.done[i].status, URNIC_WC_SUCCESS) << i;
      ASSERT_EQ(node.done[i].wr_id, i + 1);
    }
  }

  IwarpPair pair_;
  IwarpNode& a = pair_.a;
  IwarpNode& b = pair_.b;
  Program& from = a.Create();
  Program& to = b.Create();
  uint64_t requests_ = 0;
};

TEST_P(IwarpDataTest, SendsOfAllLengths) {
  const uint32_t kLengths[] = {0, 1, 63, 64, 1000, 1460, 5000, 100000, 500000};
  uint64_t receives = 0;
  for (const uint32_t bytes : kLengths) {
    ASSERT_TRUE(b.PostReceive(
        to, {.wr_id = ++receives, .sges = {b.Sge(kTarget, 512 << 10)}}));
    std::memset(b.memory() + kTarget, 0, bytes);
    ASSERT_TRUE(a.PostSend(from, Request(URNIC_WR_SEND, bytes)));
    ASSERT_TRUE(RunUntilDone(requests_, receives)) << bytes;
    EXPECT_EQ(b.done.back().byte_len, bytes);
    ASSERT_EQ(std::memcmp(b.memory() + kTarget, a.memory() + kSource, bytes), 0)
        << bytes;
  }
  ExpectInOrder(a, requests_);
  ExpectInOrder(b, receives);
}

// When a gap is filled, more receives may complete at a time than a burst has
// packets.
TEST_P(IwarpDataTest, ManySmallSendsAtATime) {
  uint64_t receives = 0;
  for (int round = 0; round < 8; ++round) {
    for (uint32_t i = 0; i < IwarpNode::kEntries; ++i) {
      ASSERT_TRUE(b.PostReceive(
          to, {.wr_id = ++receives, .sges = {b.Sge(kTarget, 8)}}));
    }
    for (uint32_t i = 0; i < IwarpNode::kEntries; ++i) {
      ASSERT_TRUE(a.PostSend(from, Request(URNIC_WR_SEND, 8)));
    }
    ASSERT_TRUE(RunUntilDone(requests_, receives));
  }
  ExpectInOrder(a, requests_);
  ExpectInOrder(b, receives);
}

TEST_P(IwarpDataTest, WritesAndReads) {
  for (const uint32_t bytes : {8u, 4096u, 400000u}) {
    ASSERT_TRUE(a.PostSend(from, Request(URNIC_WR_RDMA_WRITE, bytes)));
    // A read behind it returns what it has written.
    SendWr read = Request(URNIC_WR_RDMA_READ, bytes);
    read.sges = {a.Sge(kTarget, bytes)};
    ASSERT_TRUE(a.PostSend(from, read));
    ASSERT_TRUE(RunUntilDone(requests_, 0));
    EXPECT_EQ(std::memcmp(b.memory() + kTarget, a.memory(), bytes), 0);
    EXPECT_EQ(std::memcmp(a.memory() + kTarget, a.memory(), bytes), 0);
    std::memset(a.memory() + kTarget, 0, bytes);
    std::memset(b.memory() + kTarget, 0, bytes);
  }
  ExpectInOrder(a, requests_);
}

TEST_P(IwarpDataTest, AtomicsAndImmediateData) {
  const uint64_t before = 40;
  std::memcpy(b.memory() + kTarget, &before, sizeof(before));
  SendWr add = Request(URNIC_WR_ATOMIC_FETCH_AND_ADD, 0);
  add.sges = {a.Sge(kTarget, 8)};
  add.compare_add = 2;
  ASSERT_TRUE(a.PostSend(from, add));
  ASSERT_TRUE(b.PostReceive(to, {.wr_id = 1, .sges = {b.Sge(0, 64)}}));
  SendWr write = Request(URNIC_WR_RDMA_WRITE_WITH_IMM, 8);
  write.imm_or_key = 0x1234;
  write.remote_addr += 64;
  ASSERT_TRUE(a.PostSend(from, write));
  ASSERT_TRUE(RunUntilDone(2, 1));
  ExpectInOrder(a, 2);
  uint64_t word;
  std::memcpy(&word, a.memory() + kTarget, sizeof(word));
  EXPECT_EQ(word, before);
  std::memcpy(&word, b.memory() + kTarget, sizeof(word));
  EXPECT_EQ(word, before + 2);
  EXPECT_EQ(b.done[0].opcode, URNIC_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(b.done[0].imm_or_key, 0x1234u);
}

// Both ends send at the same time, for a while.
TEST_P(IwarpDataTest, BothDirectionsAtATime) {
  constexpr uint64_t kCount = 200;
  constexpr uint32_t kBytes = 3000;
  struct Side {
    IwarpNode& node;
    IwarpNode& peer;
    Program& program;
    uint64_t posted = 0;
    uint64_t receives = 0;
  } sides[] = {{a, b, from}, {b, a, to}};
  const auto post = [&] {
    for (Side& side : sides) {
      while (side.receives < kCount &&
             side.node.PostReceive(
                 side.program, {.wr_id = side.receives,
                                .sges = {side.node.Sge(kTarget, kBytes)}})) {
        ++side.receives;
      }
    }
    for (size_t i = 0; i < 2; ++i) {
      // At most as many as the peer has receives for.
      while (sides[i].posted < sides[1 - i].receives &&
             sides[i].node.PostSend(
                 sides[i].program,
                 {.wr_id = sides[i].posted,
                  .sges = {sides[i].node.Sge(kSource, kBytes)}})) {
        ++sides[i].posted;
      }
    }
    return a.done.size() == 2 * kCount && b.done.size() == 2 * kCount;
  };
  ASSERT_TRUE(pair_.RunUntil(post));
  for (const IwarpNode* node : {&a, &b}) {
    for (const urnic_cqe& cqe : node->done) {
      ASSERT_EQ(cqe.status, URNIC_WC_SUCCESS);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Wires, IwarpDataTest,
    ::testing::Values(Wire{"Good"}, Wire{"Ipv6", "", true},
                      Wire{"Loss", "loss=2%"},
                      Wire{"Reorder", "delay=100us,reorder=10%:500us"},
                      Wire{"Duplicate", "duplicate=10%:200us"},
                      Wire{"All",
                           "loss=1%,delay=50us,reorder=5%:300us,"
                           "duplicate=5%:100us"}),
    [](const auto& info) { return info.param.name; });

// Programs that were written for RC detect the end of a Write by its last byte.
TEST(IwarpEarlyTest, WritesArePlacedBehindAHoleIfTheirRegionAllowsIt) {
  constexpr uint32_t kBytes = 256 << 10;
  for (const bool relaxed : {false, true}) {
    IwarpPair pair("iwe", {.fault = "delay=100us,reorder=10%:500us"});
    IwarpNode& a = pair.a;
    IwarpNode& b = pair.b;
    b.Control([&](ConnectionTable&) {
      b.network().mrs().Change(
          MrKey{b.key()}, testing::kNodePd, b.address(0), b.address(0),
          IwarpNode::kMemoryBytes,
          testing::kNodeRights | (relaxed ? mem::kRelaxedOrdering : 0));
    });
    Program& from = a.Create();
    Program& to = b.Create();
    ASSERT_TRUE(pair.Connect(from, to));
    for (size_t i = 0; i < kBytes; ++i) {
      a.memory()[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
    }
    const auto post = [&](uint8_t opcode, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        SendWr wr = {.opcode = opcode, .remote_addr = b.address(kTarget)};
        wr.rkey = b.key();
        wr.sges = {a.Sge(kSource, kBytes)};
        ASSERT_TRUE(a.PostSend(from, wr));
      }
      const size_t all = a.done.size() + count;
      ASSERT_TRUE(pair.RunUntil([&] { return a.done.size() == all; }));
    };
    post(URNIC_WR_RDMA_WRITE, 20);
    EXPECT_EQ(std::memcmp(b.memory() + kTarget, a.memory(), kBytes), 0);
    EXPECT_EQ(b.count(RxVerdict::kTcpEarly) != 0, relaxed);
    // A program detects a Send by its completion.
    const uint64_t before = b.count(RxVerdict::kTcpEarly);
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(b.PostReceive(to, {.sges = {b.Sge(kTarget, kBytes)}}));
    }
    post(URNIC_WR_SEND, 20);
    EXPECT_GT(b.count(RxVerdict::kTcpEarly), before);
    for (const urnic_cqe& done : a.done) EXPECT_EQ(done.status, 0);
    EXPECT_EQ(b.count(RxVerdict::kMpaBadCrc), 0u);
  }
}

// --- A good wire is enough ---------------------------------------------------

class IwarpProgramTest : public ::testing::Test {
 protected:
  bool RunUntilTold(IwarpNode& node, Event event) {
    return pair_.RunUntil([&] { return node.has_told(event); });
  }

  IwarpPair pair_{"iwp"};
  IwarpNode& a = pair_.a;
  IwarpNode& b = pair_.b;
  Program& from = a.Create();
};

TEST_F(IwarpProgramTest, ASharedReceiveQueueServesSeveralConnections) {
  testing::FakeRings rings(1, 1, 0, 64, 1);
  class Events final : public SrqEvents {
   public:
    void OnSrqLimit(SharedReceiveQueue&) override { ++limits; }
    void OnSrqError(SharedReceiveQueue&) override {}
    int limits = 0;
  } events;
  SharedReceiveQueue* srq = b.Control([&](ConnectionTable&) {
    SharedReceiveQueue config;
    config.ring = RecvRing(rings.rq().view(), 1);
    config.events = &events;
    SharedReceiveQueue* made = b.network().CreateSrq(config);
    made->ring.SetLimit(3);
    return made;
  });
  Program& second = a.Create();
  Program* receivers[] = {&b.Create(srq), &b.Create(srq)};
  ASSERT_TRUE(pair_.Connect(from, *receivers[0], 2000));
  ASSERT_TRUE(pair_.Connect(second, *receivers[1], 2001));
  for (uint64_t i = 0; i < 4; ++i) {
    rings.PostRecv({.wr_id = i, .sges = {b.Sge(i * 64, 64)}});
  }
  for (Program* program : {&from, &second}) {
    ASSERT_TRUE(a.PostSend(*program, {.sges = {a.Sge(0, 64)}}));
  }
  ASSERT_TRUE(pair_.RunUntil([this] { return b.done.size() == 2; }));
  EXPECT_EQ(b.done[0].wr_id, 0u);
  EXPECT_EQ(b.done[1].wr_id, 1u);
  EXPECT_EQ(events.limits, 1);
  for (Program* receiver : receivers) b.Destroy(*receiver);
  b.Control([&](ConnectionTable&) { b.network().DestroySrq(srq); });
}

TEST_F(IwarpProgramTest, ASendWithoutAReceiveEndsTheConnection) {
  Program& to = b.Create();
  ASSERT_TRUE(pair_.Connect(from, to));
  ASSERT_TRUE(a.PostSend(from, {.sges = {a.Sge(0, 1000)}}));
  ASSERT_TRUE(RunUntilTold(a, Event::kDisconnected));
  ASSERT_TRUE(RunUntilTold(b, Event::kDisconnected));
  EXPECT_EQ(b.count(RxVerdict::kDdpNoBuffer), 1u);
  EXPECT_EQ(from.qp->core_state(), QpState::kErr);
  EXPECT_FALSE(to.events.empty());
}

TEST_F(IwarpProgramTest, AFullCompletionQueueEndsTheConnection) {
  IwarpPair pair("iwq", {.cq_entries = 4});
  Program& sender = pair.a.Create();
  Program& receiver = pair.b.Create();
  ASSERT_TRUE(pair.Connect(sender, receiver));
  pair.b.LetCqOverflow();
  for (uint64_t i = 0; i < 8; ++i) {
    pair.b.PostReceive(receiver, {.wr_id = i, .sges = {pair.b.Sge(0, 8)}});
    pair.a.PostSend(sender, {.flags = 0, .sges = {pair.a.Sge(0, 8)}});
  }
  // `b` reads nothing.
  while (receiver.qp->core_state() == QpState::kRts) {
    pair.a.engine().Progress();
    pair.b.engine().Progress();
  }
  ASSERT_TRUE(
      pair.RunUntil([&] { return pair.a.has_told(Event::kDisconnected); }));
  EXPECT_EQ(receiver.events.back(), QpEvent::kFatal);
}

TEST_F(IwarpProgramTest, MemoryThatIsGoneAbortsOnlyItsConnection) {
  Program& other = a.Create();
  Program& to = b.Create();
  ASSERT_TRUE(pair_.Connect(from, b.Create(), 2000));
  ASSERT_TRUE(pair_.Connect(other, to, 2001));
  // The key of a region that no program owns.
  const uint32_t key = a.Control([&](ConnectionTable&) {
    return a.network().mrs().Register(testing::kNodePd, 4096, 4096, 4096,
                                      testing::kNodeRights);
  });
  SendWr wr;
  wr.sges = {{4096, 1000, key}};
  ASSERT_TRUE(a.PostSend(from, wr));
  ASSERT_TRUE(RunUntilTold(a, Event::kDisconnected));
  ASSERT_FALSE(a.done.empty());
  EXPECT_EQ(a.done[0].status, URNIC_WC_LOC_PROT_ERR);
  ASSERT_TRUE(b.PostReceive(to, {.sges = {b.Sge(0, 8)}}));
  ASSERT_TRUE(a.PostSend(other, {.wr_id = 5, .sges = {a.Sge(0, 8)}}));
  ASSERT_TRUE(pair_.RunUntil(
      [this] { return !b.done.empty() && b.done.back().status == 0; }));
}

}  // namespace
}  // namespace urnic
