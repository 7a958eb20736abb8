// Which bytes are kept, and for how long.

#include <gmock/gmock.h>

#include "transport/iwarp/qp/endpoint_fixture.h"

namespace urnic::iwarp {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class KeptTest : public ::testing::Test {
 protected:
  SendWr ReadWr(uint64_t wr_id, uint32_t bytes) {
    return {.opcode = URNIC_WR_RDMA_READ,
            .wr_id = wr_id,
            .sges = {a.program.Sge(65536, bytes)},
            .remote_addr = b.program.at(0),
            .rkey = b.program.key()};
  }
  // Reads while the source changes all the time and the wire is bad. The
  // fixture compares each byte that is sent again.
  void ReadWhatChanges() {
    ASSERT_TRUE(link.Connect());
    link.faults = {
        .loss_percent = 10, .duplicate_percent = 5, .reorder_percent = 10};
    a.Post(ReadWr(1, 60000));
    uint8_t value = 0;
    ASSERT_TRUE(link.RunUntil([&] {
      b.program.Fill(0, 60000, value++);
      return !a.program.sent.empty();
    }));
    EXPECT_EQ(a.program.sent[0].status, URNIC_WC_SUCCESS);
    EXPECT_GT(b.endpoint->connection().sender().counters().retransmissions, 0u);
    // The CRC of each FPDU fits its bytes.
    EXPECT_EQ(link.verdicts[RxVerdict::kMpaBadCrc], 0u);
    a.endpoint->Disconnect(link.now);
    link.Run();
    EXPECT_TRUE(a.clean());
    EXPECT_TRUE(b.clean());
  }

  Link link;
  TestEnd& a = link.a;
  TestEnd& b = link.b;
};

TEST_F(KeptTest, AReadResponseIsResentWithTheBytesOfTheFirstTime) {
  ReadWhatChanges();
}

TEST_F(KeptTest, AlsoInPartsIfThePeersWindowIsTiny) {
  a.tcp_config.window_bytes = 700;
  ReadWhatChanges();
}

TEST_F(KeptTest, AlsoWithMarkers) {
  a.setup.markers = true;
  ReadWhatChanges();
}

TEST_F(KeptTest, AlsoIfThePathNarrowsMeanwhile) {
  ASSERT_TRUE(link.Connect());
  a.Post(ReadWr(1, 60000));
  ASSERT_TRUE(link.RunUntil([this] { return b.fpdus.kept() != 0; }));
  b.endpoint->OnTooBig(640, b.endpoint->connection().sender().una(), link.now);
  b.program.Fill(0, 60000, 7);
  link.Run();
  ASSERT_THAT(a.program.sent, SizeIs(1));
  EXPECT_EQ(a.program.sent[0].status, URNIC_WC_SUCCESS);
}

TEST_F(KeptTest, ASmallMessageCompletesWhenItWasSent) {
  ASSERT_TRUE(link.Connect());
  ASSERT_TRUE(b.program.Recv(1, {b.program.Sge(0, 64)}));
  a.program.Fill(0, 64, 1);
  a.Post({.wr_id = 5, .sges = {a.program.Sge(0, 64)}});
  link.faults.loss_percent = 100;
  (void)link.Step(link.now);
  ASSERT_THAT(a.program.sent, SizeIs(1));
  EXPECT_EQ(a.fpdus.kept(), 1u);
  a.program.Fill(0, 64, 200);  // its memory is the program's again
  link.faults.loss_percent = 0;
  link.Run();
  ASSERT_THAT(b.program.received, SizeIs(1));
  EXPECT_EQ(b.program.Read(0, 1), Bytes{1});
  EXPECT_EQ(a.fpdus.kept(), 0u);
}

TEST_F(KeptTest, ALongerMessageCompletesWithItsAcknowledgement) {
  ASSERT_TRUE(link.Connect());
  ASSERT_TRUE(b.program.Recv(1, {b.program.Sge(0, 65)}));
  a.Post({.wr_id = 5, .sges = {a.program.Sge(0, 65)}});
  const Time start = link.now;
  a.answered = false;
  (void)link.Step(link.now);
  EXPECT_THAT(a.program.sent, IsEmpty());
  EXPECT_EQ(a.fpdus.kept(), 0u);
  EXPECT_FALSE(a.answered);
  ASSERT_TRUE(link.RunUntil([this] { return !a.program.sent.empty(); }));
  // Its end asks for an acknowledgement at once.
  EXPECT_EQ(link.now, start + link.faults.delay * 2);
  EXPECT_TRUE(a.answered);
  EXPECT_FALSE(a.timed_out);
}

TEST_F(KeptTest, WithoutPlacesSmallMessagesWaitForAcknowledgements) {
  ASSERT_TRUE(link.Connect());
  a.fpdus.SetFree(2);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(b.program.Recv(i, {b.program.Sge(0, 64)}));
    a.Post({.wr_id = i, .sges = {a.program.Sge(0, 8)}});
    (void)link.Step(link.now);
  }
  EXPECT_THAT(a.program.sent, SizeIs(2));
  link.Run();
  EXPECT_THAT(a.program.sent, SizeIs(4));
}

class SmallMessagesTest : public KeptTest {
 protected:
  static constexpr uint32_t kCount = 20;

  // Writes of 8 bytes, posted at the same time.
  void PostWrites() {
    a.program.Fill(0, kCount * 8, 3);
    for (uint64_t i = 0; i < kCount; ++i) {
      a.Post({.opcode = URNIC_WR_RDMA_WRITE,
              .wr_id = i,
              .sges = {a.program.Sge(i * 8, 8)},
              .remote_addr = b.program.at(i * 8),
              .rkey = b.program.key()});
    }
  }
  void ExpectWritten() {
    ASSERT_THAT(a.program.sent, SizeIs(kCount));
    for (uint64_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(a.program.sent[i].wr_id, i);
      EXPECT_EQ(a.program.sent[i].status, URNIC_WC_SUCCESS);
    }
    EXPECT_EQ(b.program.Read(0, kCount * 8), a.program.Read(0, kCount * 8));
  }
};

TEST_F(SmallMessagesTest, ThoseThatArePostedTogetherShareASegment) {
  ASSERT_TRUE(link.Connect());
  uint32_t segments = 0;
  link.tamper_to_b = [&segments](Packet& packet) {
    segments += !packet.payload.empty();
    return true;
  };
  PostWrites();
  (void)link.Step(link.now);
  EXPECT_THAT(a.program.sent, SizeIs(kCount));
  EXPECT_EQ(a.fpdus.kept(), 1u);
  link.Run();
  ExpectWritten();
  EXPECT_EQ(segments, 1u);
  EXPECT_EQ(a.fpdus.kept(), 0u);
}

TEST_F(SmallMessagesTest, AlsoWithMarkersOnABadWire) {
  a.setup.markers = b.setup.markers = true;
  ASSERT_TRUE(link.Connect());
  link.faults = {
      .loss_percent = 20, .duplicate_percent = 5, .reorder_percent = 10};
  PostWrites();
  link.Run();
  ExpectWritten();
}

TEST_F(SmallMessagesTest, ALongerOneInBetweenKeepsItsPlace) {
  ASSERT_TRUE(link.Connect());
  a.program.Fill(0, 8, 1);
  a.program.Fill(8, 65, 2);
  for (const auto& [at, bytes] : {std::pair{8u, 65u}, {0u, 8u}, {8u, 65u}}) {
    a.Post({.opcode = URNIC_WR_RDMA_WRITE,
            .sges = {a.program.Sge(at, bytes)},
            .remote_addr = b.program.at(0),
            .rkey = b.program.key()});
  }
  link.Run();
  EXPECT_THAT(a.program.sent, SizeIs(3));
  EXPECT_EQ(b.program.Read(0, 65), a.program.Read(8, 65));
}

// Their sender does not wait for it.
TEST_F(SmallMessagesTest, AnAcknowledgementMayTravelWithAnAnswer) {
  link.faults.delay = Duration::Microseconds(10);
  ASSERT_TRUE(link.Connect());
  link.Run(Duration::Milliseconds(20));
  uint32_t answers = 0;
  link.tamper_to_a = [&answers](Packet&) { return ++answers != 0; };
  const auto post_one = [this] {
    EXPECT_TRUE(b.program.Recv(1, {b.program.Sge(0, 8)}));
    a.Post({.sges = {a.program.Sge(0, 8)}});
    link.Run(link.faults.delay * 2);
  };
  const Time start = link.now;
  post_one();
  EXPECT_EQ(answers, 0u);
  for (uint32_t i = 1; i < 16; ++i) post_one();
  EXPECT_LT(link.now, start + Duration::Milliseconds(1));
  EXPECT_EQ(answers, 1u);
}

// Its program waits for the completion in a verb, which receives the answer,
// too. Then it looks into its memory.
TEST_F(SmallMessagesTest, ALoneWriteCompletesWithItsAcknowledgement) {
  link.faults.delay = Duration::Microseconds(10);
  ASSERT_TRUE(link.Connect());
  link.Run(Duration::Milliseconds(20));
  const Time start = link.now;
  a.Post({.opcode = URNIC_WR_RDMA_WRITE,
          .sges = {a.program.Sge(0, 8)},
          .remote_addr = b.program.at(0),
          .rkey = b.program.key()});
  (void)link.Step(link.now);
  EXPECT_THAT(a.program.sent, IsEmpty());
  EXPECT_EQ(a.fpdus.kept(), 0u);
  ASSERT_TRUE(link.RunUntil([this] { return !a.program.sent.empty(); }));
  EXPECT_EQ(link.now, start + link.faults.delay * 2);
}

TEST_F(KeptTest, AnAnswerWaitsForAPlaceOfAnotherConnection) {
  ASSERT_TRUE(link.Connect());
  b.fpdus.SetFree(0);
  a.Post(ReadWr(1, 100));
  link.Run(Duration::Milliseconds(20));
  EXPECT_THAT(a.program.sent, IsEmpty());
  b.fpdus.SetFree(1);
  const Time start = link.now;
  ASSERT_TRUE(link.RunUntil([this] { return !a.program.sent.empty(); }));
  EXPECT_LT(link.now, start + Duration::Milliseconds(2));
}

TEST_F(KeptTest, AConnectionKeepsNoMoreThanItsRecords) {
  ASSERT_TRUE(link.Connect());
  link.faults.delay = Duration::Milliseconds(10);
  a.Post(ReadWr(1, 60000));
  size_t most = 0;
  ASSERT_TRUE(link.RunUntil([&] {
    most = std::max(most, b.fpdus.kept());
    return !a.program.sent.empty();
  }));
  EXPECT_EQ(most, 16u);
}

TEST_F(KeptTest, ADestroyedEndpointReleasesEverything) {
  ASSERT_TRUE(link.Connect());
  a.Post({.wr_id = 5, .sges = {a.program.Sge(0, 8)}});
  link.faults.loss_percent = 100;
  (void)link.Step(link.now);
  EXPECT_EQ(a.fpdus.kept(), 1u);
  a.endpoint.reset();
  EXPECT_EQ(a.fpdus.kept(), 0u);
}

}  // namespace
}  // namespace urnic::iwarp
