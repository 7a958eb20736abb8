// Retransmissions that were not necessary, and how that is found out.

#include <gtest/gtest.h>

#include "transport/iwarp/tcp/sender_fixture.h"

namespace urnic::tcp {
namespace {

class SenderUndoTest : public SenderTest {
 protected:
  SenderUndoTest() { Measured(Ms(10)); }

  // Sends 8 segments, and lets their timer expire. Returns when the first of
  // them was resent.
  Time TimeOut() {
    sender_.cc.packets = 8;
    SendChunks(8);
    while (sender_.cc.timeouts == 0) {
      FireNext();
      if (sender_.cc.timeouts == 0) Send();
    }
    const auto sent = Send();
    EXPECT_EQ(sent.size(), 1u);
    EXPECT_EQ(At(sent.at(0)), 0u);
    return now_;
  }
};

//= RFC 5682 3.1
TEST_F(SenderUndoTest, ATimeoutIsSpuriousIfOriginalsAreAcknowledged) {
  TimeOut();
  upper_.Add(4, kMss);
  EXPECT_EQ(Send().size(), 0u) << "until the first acknowledgement";
  Pass(Ms(1));
  Ack(1000);
  auto sent = Send();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(At(sent[0]), 8000u) << "new data, not what is thought lost";
  Pass(Ms(1));
  Ack(2000);
  EXPECT_EQ(sender_.cc.undone, 1u);
  EXPECT_FALSE(sender_.recovering());
  EXPECT_EQ(sender_.scoreboard().lost_segments(), 0u);
  EXPECT_EQ(sender_.cc.window(), 8u);
  Ack(10000);
  EXPECT_EQ(sender_.counters().undone, 1u);
}

//= RFC 5682 3.1
TEST_F(SenderUndoTest, ATimeoutIsRealIfOnlyNewDataAreSacked) {
  TimeOut();
  upper_.Add(4, kMss);
  Pass(Ms(10));
  Ack(1000);
  EXPECT_EQ(Send().size(), 2u);
  Pass(Ms(10));
  Ack(1000, {{8000, 9000}});
  EXPECT_EQ(sender_.cc.undone, 0u);
  sender_.cc.packets = 4;
  const auto sent = Send();
  ASSERT_GE(sent.size(), 2u);
  EXPECT_EQ(At(sent[0]), 1000u);
  EXPECT_TRUE(sent[1].is_retransmission);
}

//= RFC 5682 3.1
TEST_F(SenderUndoTest, WithoutNewDataATimeoutIsTakenAsReal) {
  TimeOut();
  Pass(Ms(10));
  Ack(1000);
  sender_.cc.packets = 2;
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(At(sent[0]), 1000u);
}

//= RFC 5682 3.1
TEST_F(SenderUndoTest, AnAcknowledgementOfEverythingTellsNothing) {
  TimeOut();
  Ack(8000);
  EXPECT_EQ(sender_.cc.undone, 0u);
  EXPECT_FALSE(sender_.recovering());
}

//= RFC 5682 3.1
TEST_F(SenderUndoTest, SacksBeforeTheFirstAcknowledgementDecideNothing) {
  TimeOut();
  upper_.Add(4, kMss);
  Pass(Ms(1));
  Ack(0, {{1000, 2000}});
  EXPECT_EQ(sender_.cc.undone, 0u) << "the first one may really be lost";
  EXPECT_EQ(Send().size(), 0u);
}

//= RFC 5682 3.1
TEST_F(SenderUndoTest, ATimeoutInRecoveryIsTakenAsReal) {
  SendChunks(8);
  Pass(Ms(10));
  Ack(0, {{2000, 5000}});
  EXPECT_EQ(Send().size(), 2u);
  FireNext();
  EXPECT_EQ(sender_.cc.timeouts, 1u);
  EXPECT_EQ(At(Send().at(0)), 0u);
  upper_.Add(4, kMss);
  Pass(Ms(10));
  Ack(1000, {{2000, 5000}});
  EXPECT_EQ(At(Send().at(0)), 1000u) << "the second one, not new data";
}

TEST_F(SenderUndoTest, ProgressBeforeTheRetransmissionLeavesMakesItUseless) {
  sender_.cc.packets = 8;
  SendChunks(8);
  while (sender_.cc.timeouts == 0) {
    FireNext();
    if (sender_.cc.timeouts == 0) Send();
  }
  upper_.Add(4, kMss);
  Ack(1000);
  EXPECT_EQ(At(Send().at(0)), 8000u);
}

//= RFC 3522 3.2
TEST_F(SenderUndoTest, AnEchoOfTheOriginalUndoesATimeoutAtOnce) {
  const Time original = now_;
  TimeOut();
  Pass(Ms(1));
  AckWithEcho(1000, original);
  EXPECT_EQ(sender_.cc.undone, 1u);
  EXPECT_FALSE(sender_.recovering());
  EXPECT_EQ(sender_.pipe(), 7000u);
}

//= RFC 3522 3.2
TEST_F(SenderUndoTest, AnEchoOfTheRetransmissionUndoesNothing) {
  const Time original = now_;
  const Time resent = TimeOut();
  Pass(Ms(10));
  AckWithEcho(1000, resent);
  EXPECT_EQ(sender_.cc.undone, 0u);
  Pass(Ms(10));
  sender_.cc.packets = 4;
  Send();
  AckWithEcho(2000, original);
  EXPECT_EQ(sender_.cc.undone, 0u) << "only the first acknowledgement counts";
}

//= RFC 3522 3.2
TEST_F(SenderUndoTest, AnEchoOfTheOriginalUndoesARecoveryAndShowsReordering) {
  const Time original = now_;
  SendChunks(8);
  Pass(Ms(10));
  Ack(0, {{1000, 4000}});
  EXPECT_EQ(Send().size(), 1u);
  Pass(Ms(2));
  AckWithEcho(4000, original);
  EXPECT_EQ(sender_.cc.undone, 1u);
  EXPECT_FALSE(sender_.recovering());
  EXPECT_TRUE(sender_.scoreboard().rack.reordering_seen);
}

//= RFC 3708 2
//= RFC 2883 4
TEST_F(SenderUndoTest, ARecoveryIsUndoneIfEachRetransmissionWasADuplicate) {
  SendChunks(10);
  Pass(Ms(10));
  Ack(0, {{2000, 10000}});
  EXPECT_EQ(Send().size(), 2u);
  Pass(Ms(1));
  Ack(10000);  // the originals came late
  EXPECT_EQ(sender_.cc.undone, 0u);
  Pass(Ms(9));
  Ack(10000, {{0, 1000}});
  EXPECT_EQ(sender_.cc.undone, 0u) << "the other one is unexplained";
  Ack(10000, {{1000, 2000}});
  EXPECT_EQ(sender_.cc.undone, 1u);
  Ack(10000, {{1000, 2000}});
  EXPECT_EQ(sender_.cc.undone, 1u);
}

//= RFC 3708 2
TEST_F(SenderUndoTest, ADsackLongAfterTheRepairUndoesNothing) {
  SendChunks(10);
  Pass(Ms(10));
  Ack(0, {{1000, 10000}});
  EXPECT_EQ(Send().size(), 1u);
  Pass(Ms(10));
  Ack(10000);
  SendChunks(1);
  Ack(11000);
  Ack(11000, {{0, 1000}});
  EXPECT_EQ(sender_.cc.undone, 0u);
  EXPECT_EQ(sender_.scoreboard().rack.multiple, 2);
  EXPECT_EQ(sender_.scoreboard().rack.persist, 16);
}

//= RFC 3708 2
TEST_F(SenderUndoTest, ADsackOfAnotherTimeUndoesNothing) {
  SendChunks(10);
  Ack(5000);
  Pass(Ms(10));
  Ack(5000, {{6000, 10000}});
  EXPECT_EQ(Send().size(), 1u);
  Ack(5000, {{0, 1000}, {6000, 10000}});
  EXPECT_EQ(sender_.cc.undone, 0u);
}

//= RFC 2883 4
TEST_F(SenderUndoTest, ADsackWithinTheNextBlockIsNotSackedAgain) {
  SendChunks(10);
  Pass(Ms(10));
  Ack(0, {{2000, 3000}, {1000, 5000}});
  EXPECT_EQ(sender_.scoreboard().sacked_bytes(), 4000u);
  EXPECT_EQ(sender_.counters().bad_sacks, 0u);
  EXPECT_EQ(sender_.scoreboard().rack.multiple, 2);
}

}  // namespace
}  // namespace urnic::tcp
