#include "transport/rc/qp.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/support/endpoint.h"
#include "tests/support/matchers.h"
#include "transport/work/timers.h"

namespace urnic::rc {
namespace {

using urnic::testing::Completion;
using urnic::testing::Endpoint;
using urnic::testing::EndpointOptions;
using urnic::testing::FakeHost;
using urnic::testing::IsOpcode;
using urnic::testing::Packet;
using urnic::testing::RecvWr;
using urnic::testing::SendWr;

constexpr uint32_t kAll = mem::kLocalWrite | mem::kRemoteWrite |
                          mem::kRemoteRead | mem::kRemoteAtomic;

// Two connected queue pairs, without a network between them.
class TwoQueuePairs : public ::testing::Test {
 protected:
  TwoQueuePairs() {
    key_a_ = host_a_.Register(1, 0, host_a_.size(), kAll);
    key_b_ = host_b_.Register(1, 0, host_b_.size(), kAll);
    QpConfig config{.dest_qpn = 0x22,
                    .mtu = 256,
                    .rq_psn = Psn(0xfffffe),
                    .sq_psn = Psn(0xfffff0),
                    .access = kAll,
                    .timeout = AckTimeout(14),
                    .max_rd_atomic = 4,
                    .max_dest_rd_atomic = 4};
    a_.Connect(config);
    std::swap(config.rq_psn, config.sq_psn);
    config.dest_qpn = 0x11;
    b_.Connect(config);
    for (size_t i = 0; i < 4096; ++i) {
      host_a_.bytes(i, 1)[0] = static_cast<uint8_t>(i * 7);
      host_b_.bytes(i, 1)[0] = static_cast<uint8_t>(i * 11 + 3);
    }
  }

  urnic_sge SgeA(size_t offset, uint32_t length) {
    return {host_a_.address(offset), length, key_a_};
  }
  urnic_sge SgeB(size_t offset, uint32_t length) {
    return {host_b_.address(offset), length, key_b_};
  }

  // Exchanges packets until nothing moves.
  void Run() {
    for (int round = 0; round < 1000; ++round) {
      const std::vector<Packet> to_b = a_.Transmit(now_);
      b_.Deliver(to_b, now_);
      const std::vector<Packet> to_a = b_.Transmit(now_);
      a_.Deliver(to_a, now_);
      a_.qp().CheckInvariants();
      b_.qp().CheckInvariants();
      if (to_a.empty() && to_b.empty()) return;
    }
    FAIL() << "still packets after 1000 rounds";
  }

  Time now_;
  FakeHost host_a_{64 * 1024};
  FakeHost host_b_{64 * 1024};
  uint32_t key_a_ = 0;
  uint32_t key_b_ = 0;
  Endpoint a_{host_a_, {.qpn = 0x11}};
  Endpoint b_{host_b_, {.qpn = 0x22}};
};

TEST_F(TwoQueuePairs, ASendLandsInTheReceiveAndBothComplete) {
  for (const uint32_t length : {0u, 1u, 255u, 256u, 257u, 2000u}) {
    ASSERT_TRUE(b_.PostRecv({.wr_id = 7, .sges = {SgeB(8192, 4096)}}));
    ASSERT_TRUE(a_.PostSend(
        {.opcode = URNIC_WR_SEND, .wr_id = 3, .sges = {SgeA(0, length)}}));
    Run();
    const auto sent = a_.TakeCompletions();
    ASSERT_EQ(sent.size(), 1u) << length;
    EXPECT_EQ(sent[0].status, URNIC_WC_SUCCESS);
    EXPECT_EQ(sent[0].wr_id, 3u);
    const auto received = b_.TakeCompletions();
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].status, URNIC_WC_SUCCESS);
    EXPECT_EQ(received[0].wr_id, 7u);
    EXPECT_EQ(received[0].byte_len, length);
    EXPECT_EQ(std::memcmp(host_a_.bytes(0, length).data(),
                          host_b_.bytes(8192, length).data(), length),
              0);
  }
}

// Hardware does this, and request/response programs rely on it: a program that
// has the answer also has the completion of its request.
TEST_F(TwoQueuePairs, CompletionsFollowTheOrderOfThePackets) {
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(a_.PostRecv({.wr_id = 10 + i, .sges = {SgeA(8192, 64)}}));
    ASSERT_TRUE(b_.PostRecv({.wr_id = i, .sges = {SgeB(8192, 64)}}));
  }
  // The acknowledgement and the answer come in one burst, and so does a message
  // that crosses an acknowledgement.
  std::vector<Packet> burst;
  const auto send = [this](Endpoint& end, uint64_t id, const urnic_sge& sge) {
    ASSERT_TRUE(
        end.PostSend({.opcode = URNIC_WR_SEND, .wr_id = id, .sges = {sge}}));
  };
  send(b_, 21, SgeB(0, 8));
  for (const Packet& p : b_.Transmit(now_)) burst.push_back(p);
  for (uint64_t i = 1; i <= 2; ++i) {
    send(a_, i, SgeA(0, 8));
    b_.Deliver(a_.Transmit(now_), now_);
    send(b_, 21 + i, SgeB(0, 8));
    for (const Packet& p : b_.Transmit(now_)) burst.push_back(p);
  }
  ASSERT_EQ(burst.size(), 5u);
  a_.Deliver(burst, now_);
  std::vector<std::pair<bool, uint64_t>> got;
  for (const Completion& done : a_.TakeCompletions()) {
    EXPECT_EQ(done.status, URNIC_WC_SUCCESS);
    got.push_back({done.recv, done.wr_id});
  }
  EXPECT_THAT(got,
              ::testing::ElementsAre(std::pair{true, 11}, std::pair{false, 1},
                                     std::pair{true, 12}, std::pair{false, 2},
                                     std::pair{true, 13}));
}

TEST_F(TwoQueuePairs, AnsweringALongReadLeavesRoomForRequests) {
  ASSERT_TRUE(b_.PostSend({.opcode = URNIC_WR_RDMA_READ,
                           .sges = {SgeB(0, 60000)},
                           .remote_addr = host_a_.address(0),
                           .rkey = key_a_}));
  a_.Deliver(b_.Transmit(now_), now_);
  ASSERT_TRUE(a_.PostSend({.opcode = URNIC_WR_RDMA_WRITE,
                           .sges = {SgeA(0, 8)},
                           .remote_addr = host_b_.address(0),
                           .rkey = key_b_}));
  const std::vector<Packet> burst = a_.Transmit(now_, 8);
  ASSERT_EQ(burst.size(), 5u);
  EXPECT_THAT(burst.back(),
              IsOpcode(wire::Opcode::kRcWriteOnly, Psn(0xfffff0)));
  b_.Deliver(burst, now_);
  Run();
  EXPECT_EQ(a_.TakeCompletions().size(), 1u);
  EXPECT_EQ(b_.TakeCompletions().size(), 1u);
}

TEST_F(TwoQueuePairs, AWriteLandsAtItsAddress) {
  for (const uint32_t length : {0u, 1u, 256u, 3000u}) {
    ASSERT_TRUE(a_.PostSend({.opcode = URNIC_WR_RDMA_WRITE,
                             .wr_id = 3,
                             .sges = {SgeA(100, length)},
                             .remote_addr = host_b_.address(10000),
                             .rkey = key_b_}));
    Run();
    const auto sent = a_.TakeCompletions();
    ASSERT_EQ(sent.size(), 1u) << length;
    EXPECT_EQ(sent[0].status, URNIC_WC_SUCCESS);
    EXPECT_EQ(sent[0].opcode, URNIC_WC_RDMA_WRITE);
    EXPECT_TRUE(b_.TakeCompletions().empty());
    EXPECT_EQ(std::memcmp(host_a_.bytes(100, length).data(),
                          host_b_.bytes(10000, length).data(), length),
              0);
  }
}

TEST_F(TwoQueuePairs, AReadFillsAScatterList) {
  ASSERT_TRUE(a_.PostSend({.opcode = URNIC_WR_RDMA_READ,
                           .wr_id = 5,
                           .sges = {SgeA(8000, 100), SgeA(9000, 900)},
                           .remote_addr = host_b_.address(50),
                           .rkey = key_b_}));
  Run();
  const auto done = a_.TakeCompletions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, URNIC_WC_SUCCESS);
  EXPECT_EQ(done[0].byte_len, 1000u);
  EXPECT_EQ(std::memcmp(host_b_.bytes(50, 100).data(),
                        host_a_.bytes(8000, 100).data(), 100),
            0);
  EXPECT_EQ(std::memcmp(host_b_.bytes(150, 900).data(),
                        host_a_.bytes(9000, 900).data(), 900),
            0);
}

TEST_F(TwoQueuePairs, AtomicsReturnTheOriginalValue) {
  const uint64_t before = 41;
  std::memcpy(host_b_.bytes(1024, 8).data(), &before, 8);
  for (const bool swap : {false, true}) {
    ASSERT_TRUE(a_.PostSend(
        {.opcode = static_cast<uint8_t>(swap ? URNIC_WR_ATOMIC_CMP_AND_SWP
                                             : URNIC_WR_ATOMIC_FETCH_AND_ADD),
         .wr_id = 5,
         .sges = {SgeA(swap ? 8 : 0, 8)},
         .remote_addr = host_b_.address(1024),
         .rkey = key_b_,
         .compare_add = swap ? 42u : 1u,
         .swap = 99}));
  }
  Run();
  EXPECT_EQ(a_.TakeCompletions().size(), 2u);
  uint64_t values[3];
  std::memcpy(&values[0], host_a_.bytes(0, 8).data(), 8);
  std::memcpy(&values[1], host_a_.bytes(8, 8).data(), 8);
  std::memcpy(&values[2], host_b_.bytes(1024, 8).data(), 8);
  EXPECT_EQ(values[0], 41u);
  EXPECT_EQ(values[1], 42u);
  EXPECT_EQ(values[2], 99u);
}

TEST_F(TwoQueuePairs, ManyRequestsOfAllKindsCompleteInOrder) {
  for (uint64_t i = 0; i < 48; ++i) {
    SendWr wr{.wr_id = i,
              .remote_addr = host_b_.address(16384 + 1024 * (i % 8)),
              .rkey = key_b_};
    wr.sges = {SgeA(1024 * (i % 8), 700)};
    switch (i % 4) {
      case 0:
        wr.opcode = URNIC_WR_RDMA_WRITE;
        break;
      case 1:
        wr.opcode = URNIC_WR_RDMA_READ;
        break;
      case 2:
        wr.opcode = URNIC_WR_SEND_WITH_IMM;
        ASSERT_TRUE(b_.PostRecv({.wr_id = i, .sges = {SgeB(32768, 700)}}));
        break;
      default:
        wr.opcode = URNIC_WR_RDMA_WRITE_WITH_IMM;
        ASSERT_TRUE(b_.PostRecv({.wr_id = i, .sges = {}}));
        break;
    }
    ASSERT_TRUE(a_.PostSend(wr));
  }
  Run();
  const auto done = a_.TakeCompletions();
  ASSERT_EQ(done.size(), 48u);
  for (uint64_t i = 0; i < 48; ++i) {
    EXPECT_EQ(done[i].wr_id, i);
    EXPECT_EQ(done[i].status, URNIC_WC_SUCCESS);
  }
  const auto received = b_.TakeCompletions();
  ASSERT_EQ(received.size(), 24u);
}

}  // namespace
}  // namespace urnic::rc
