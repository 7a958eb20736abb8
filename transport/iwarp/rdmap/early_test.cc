// Segments that arrive behind a hole of the stream: what is placed at once,
// what waits, and what has happened when their turn has come.

#include <gmock/gmock.h>

#include <algorithm>
#include <deque>

#include "transport/iwarp/rdmap/raw_ulpdu.h"
#include "transport/iwarp/rdmap/rdmap_end.h"

namespace urnic::rdmap::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::RdmapOpcode;
using V = RxVerdict;

constexpr Config kOneReceiveEach{.access = kAllRights, .ird = 8, .ord = 8};

class EarlyTest : public ::testing::Test {
 protected:
  // Arrives behind a hole. False: it waits.
  bool Early(RdmapEnd& end, const Bytes& ulpdu) {
    const std::span<const uint8_t> piece(ulpdu);
    if (!end.qp().MayPlaceEarly({&piece, 1})) return false;
    const auto segment = end.qp().PlaceEarly({&piece, 1}, 0, end);
    placed_.push_back(
        {Bytes(ulpdu.begin(), ulpdu.begin() + segment.header_bytes),
         segment.payload_bytes});
    end.Finish(end.qp());
    return true;
  }
  bool Early(const Bytes& ulpdu) { return Early(end_, ulpdu); }
  // The hole closes: the turn of the oldest.
  V Turn(RdmapEnd& end) {
    const Placed placed = placed_.front();
    placed_.pop_front();
    const uint64_t copied = end.copied;
    const V verdict =
        end.qp().OnPlacedEarlier(placed.header, placed.bytes, 0, end);
    end.Finish(end.qp());
    EXPECT_EQ(end.copied, copied) << "it was placed before";
    return verdict;
  }
  V Turn() { return Turn(end_); }
  Bytes Write(size_t at, size_t bytes, bool last = true) {
    return Raw(RawTagged{.last = last,
                         .stag = end_.key(),
                         .offset = end_.at(at),
                         .payload = bytes});
  }
  static Bytes Send(uint32_t msn, uint32_t offset, size_t bytes,
                    bool last = true, uint32_t stag = 0) {
    return Raw(RawUntagged{.last = last,
                           .msn = msn,
                           .offset = offset,
                           .stag = stag,
                           .payload = bytes});
  }
  // Receives of 100 bytes, at 1000 times their number.
  void PostReceives(RdmapEnd& end, uint64_t count) {
    for (uint64_t i = 1; i <= count; ++i) {
      ASSERT_TRUE(end.Recv(i, {end.Sge(1000 * i, 100)}));
    }
  }
  static bool Has(RdmapEnd& end, size_t at, size_t bytes) {
    return end.Read(at, bytes) == Bytes(bytes, 0xab);
  }
  bool Has(size_t at, size_t bytes) { return Has(end_, at, bytes); }

  struct Placed {
    Bytes header;
    uint32_t bytes;
  };
  RdmapEnd end_;
  std::deque<Placed> placed_;
};

//= RFC 5041 5.3
TEST_F(EarlyTest, AWriteIsPlacedBeforeItsTurnAndDeliveredInIt) {
  PostReceives(end_, 1);
  EXPECT_TRUE(Early(Write(4096, 5000)));
  EXPECT_TRUE(Has(4096, 5000));
  EXPECT_FALSE(Has(4095, 1) || Has(9096, 1));
  EXPECT_THAT(end_.received, IsEmpty());
  EXPECT_EQ(Turn(), V::kAccept);
  // The length of a write counts from its turn on.
  end_.Receive(
      Raw(RawUntagged{.opcode = RdmapOpcode::kImmediate, .payload = 8}));
  ASSERT_THAT(end_.received, SizeIs(1));
  EXPECT_EQ(end_.received[0].byte_len, 5000u);
}

TEST_F(EarlyTest, WhatHasOtherEffectsWaits) {
  PostReceives(end_, 2);
  const auto untagged = [](RdmapOpcode opcode, uint32_t queue, bool last) {
    return Raw(RawUntagged{
        .opcode = opcode, .last = last, .queue = queue, .payload = 8});
  };
  EXPECT_FALSE(Early(
      Raw(RawRead{.stag = end_.key(), .address = end_.at(0), .bytes = 10})));
  EXPECT_FALSE(
      Early(Raw(RawAtomic{.stag = end_.key(), .address = end_.at(0)})));
  EXPECT_FALSE(Early(untagged(RdmapOpcode::kTerminate, 2, true)));
  EXPECT_FALSE(Early(untagged(RdmapOpcode::kImmediate, 0, true)));
  EXPECT_FALSE(Early(untagged(RdmapOpcode::kAtomicResponse, 3, true)));
  for (const RdmapOpcode opcode :
       {RdmapOpcode::kSendInvalidate, RdmapOpcode::kSendSolicitedInvalidate}) {
    EXPECT_FALSE(Early(untagged(opcode, 0, true)));
    EXPECT_TRUE(Early(untagged(opcode, 0, false))) << "its last one does";
  }
  EXPECT_TRUE(Early(untagged(RdmapOpcode::kSendSolicited, 0, true)));
  EXPECT_EQ(end_.qp().state(), QpState::kRts);
}

// The hole may contain a Terminate, or a FIN.
TEST_F(EarlyTest, WhatIsWrongWaitsAndIsAnErrorInItsTurn) {
  PostReceives(end_, 1);
  const size_t size = end_.host().size();
  Bytes version = Write(0, 10);
  version[0] ^= 2;
  Bytes rdmap_version = Write(0, 10);
  rdmap_version[1] ^= 0x80;
  const Bytes wrong[] = {
      Raw(RawTagged{.stag = 0x1234500, .offset = end_.at(0), .payload = 1}),
      Write(size - 9, 10),
      version,
      rdmap_version,
      Bytes{0x41},
      Bytes{},
      Raw(RawTagged{.opcode = RdmapOpcode::kSend, .payload = 1}),
      Raw(RawTagged{.opcode = RdmapOpcode::kReadResponse, .payload = 1}),
      Raw(RawUntagged{.queue = 4, .payload = 1}),
      Send(1, 95, 10),
      Send(0, 0, 10),
  };
  for (const Bytes& ulpdu : wrong) EXPECT_FALSE(Early(ulpdu));
  EXPECT_EQ(end_.copied, 0u);
  EXPECT_EQ(end_.qp().state(), QpState::kRts);
  end_.Receive(wrong[1]);
  EXPECT_EQ(end_.verdicts.back(), V::kDdpRefused);
  EXPECT_FALSE(Early(Write(0, 10))) << "the stream has ended";
}

TEST_F(EarlyTest, AWriteWithoutTheRightWaits) {
  RdmapEnd end({.config = {.access = mem::kRemoteRead}});
  EXPECT_FALSE(Early(
      end,
      Raw(RawTagged{.stag = end.key(), .offset = end.at(0), .payload = 1})));
}

// A program may poll the last byte of a Write.
TEST_F(EarlyTest, AWriteIntoAnOrderedRegionWaits) {
  const uint32_t ordered = end_.host().RegisterAt(
      kPd, 0, 8192, kAllRights & ~mem::kRelaxedOrdering, end_.at(0));
  const Bytes write =
      Raw(RawTagged{.stag = ordered, .offset = end_.at(4096), .payload = 100});
  EXPECT_FALSE(Early(write));
  EXPECT_FALSE(Has(4096, 1));
  end_.Receive(write);
  EXPECT_TRUE(Has(4096, 100));
  // The receive of a Send may be ordered: its completion tells of it.
  ASSERT_TRUE(end_.Recv(1, {{end_.at(1000), 100, ordered}}));
  EXPECT_TRUE(Early(Send(1, 50, 50)));
  EXPECT_TRUE(Has(1050, 50));
}

TEST_F(EarlyTest, WhatTheStreamDoesNotReachIsForgotten) {
  EXPECT_TRUE(Early(Write(0, 10)));
  end_.Receive(Raw(RawUntagged{
      .opcode = RdmapOpcode::kTerminate, .queue = 2, .payload = 2}));
  EXPECT_EQ(Turn(), V::kQpNotReady);
}

// The key is valid until the send that invalidates it is delivered. Data that
// are placed before are not an error when their turn comes; those that arrive
// later are.
//= RFC 5040 5.5
TEST_F(EarlyTest, AKeyThatTheHoleInvalidatesIsValidUntilThen) {
  PostReceives(end_, 1);
  const uint32_t stag = end_.host().mrs().Register(
      kPd, end_.at(0), end_.at(0), 4096,
      mem::kLocalWrite | mem::kRemoteWrite | mem::kRelaxedOrdering |
          mem::kRemoteInvalidate);
  const Bytes write =
      Raw(RawTagged{.stag = stag, .offset = end_.at(0), .payload = 100});
  EXPECT_TRUE(Early(write));
  EXPECT_TRUE(Has(0, 100));
  end_.Receive(
      Raw(RawUntagged{.opcode = RdmapOpcode::kSendInvalidate, .stag = stag}));
  ASSERT_THAT(end_.received, SizeIs(1));
  EXPECT_EQ(Turn(), V::kAccept);
  EXPECT_FALSE(Early(write));
  end_.Receive(write);
  EXPECT_EQ(end_.verdicts.back(), V::kDdpRefused);
}

// --- Sends -------------------------------------------------------------------

TEST_F(EarlyTest, ASendFindsItsReceiveByItsNumber) {
  RdmapEnd end({.config = kOneReceiveEach});
  PostReceives(end, 3);
  EXPECT_TRUE(Early(end, Send(2, 0, 100)));
  EXPECT_TRUE(Early(end, Send(3, 40, 60)));
  EXPECT_TRUE(Has(end, 2000, 100) && Has(end, 3040, 60));
  EXPECT_FALSE(Has(end, 3000, 1));
  EXPECT_FALSE(Early(end, Send(4, 0, 10))) << "no receive";
  EXPECT_FALSE(Early(end, Send(3, 0, 101))) << "too long";
  end.Receive(Send(1, 0, 50, false));
  EXPECT_TRUE(Early(end, Send(1, 90, 10)));
  EXPECT_TRUE(Has(end, 1090, 10));
  EXPECT_THAT(end.received, IsEmpty());
  end.Receive(Send(1, 50, 40, false));
  std::rotate(placed_.begin(), placed_.end() - 1, placed_.end());
  EXPECT_EQ(Turn(end), V::kAccept);
  EXPECT_EQ(Turn(end), V::kAccept);
  end.Receive(Send(3, 0, 40, false));
  EXPECT_EQ(Turn(end), V::kAccept);
  ASSERT_THAT(end.received, SizeIs(3));
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(end.received[i].wr_id, i + 1);
    EXPECT_EQ(end.received[i].byte_len, 100u);
  }
}

// Between uRNICs, a send may share its receive with the message after it.
TEST_F(EarlyTest, ASendBehindAnUnknownOneWaits) {
  PostReceives(end_, 4);
  EXPECT_FALSE(Early(Send(2, 0, 10))) << "the first is not known";
  EXPECT_TRUE(Early(Send(1, 50, 10))) << "it is the next one";
  EXPECT_TRUE(Early(Send(2, 0, 10))) << "the first takes one receive";
  EXPECT_TRUE(Has(2000, 10));
  EXPECT_TRUE(Early(Send(3, 20, 10, true, kImmediateFollows)));
  EXPECT_TRUE(Has(3020, 10));
  EXPECT_FALSE(Early(Send(4, 0, 10)));
  EXPECT_FALSE(Early(Send(5, 0, 10))) << "it may be for the fourth";
}

TEST_F(EarlyTest, WhatIsDeliveredIsKnown) {
  PostReceives(end_, 3);
  end_.Receive(Send(1, 0, 10, false));
  EXPECT_TRUE(Early(Send(2, 0, 10)));
  end_.Receive(Send(1, 10, 10));
  EXPECT_EQ(Turn(), V::kAccept);
  end_.Receive(Send(3, 0, 10, true, kImmediateFollows));
  EXPECT_FALSE(Early(Send(5, 0, 10))) << "immediate data come first";
  EXPECT_THAT(end_.received, SizeIs(2));
}

TEST_F(EarlyTest, ASharedQueueGivesOnlyTheReceiveThatIsTaken) {
  RdmapEnd ring_owner;
  RecvRing ring(ring_owner.rings().rq().view(), RdmapEnd::kMaxSge, kPd);
  RdmapEnd end({.config = kOneReceiveEach, .shared = &ring});
  ring_owner.Recv(70, {end.Sge(0, 100)});
  ring_owner.Recv(71, {end.Sge(200, 100)});
  EXPECT_FALSE(Early(end, Send(1, 50, 10)));
  end.Receive(Send(1, 0, 10, false));
  EXPECT_TRUE(Early(end, Send(1, 50, 10)));
  EXPECT_TRUE(Has(end, 50, 10));
  EXPECT_FALSE(Early(end, Send(2, 0, 10)));
}

// --- Read responses ----------------------------------------------------------

class EarlyReadTest : public EarlyTest {
 protected:
  // A read into `sges`.
  void Read(uint64_t wr_id, std::vector<urnic_sge> sges) {
    ASSERT_TRUE(end_.Send({.opcode = URNIC_WR_RDMA_READ,
                           .wr_id = wr_id,
                           .sges = std::move(sges)}));
    ASSERT_THAT(end_.Transmit(), SizeIs(1));
    end_.Ack();
  }
  Bytes Response(size_t sink, size_t offset, size_t bytes, bool last = true) {
    return Raw(RawTagged{.opcode = RdmapOpcode::kReadResponse,
                         .last = last,
                         .stag = end_.key(),
                         .offset = end_.at(sink + offset),
                         .payload = bytes});
  }
};

TEST_F(EarlyReadTest, AResponseIsPlacedByItsSinkAndCompletesInOrder) {
  Read(1, {end_.Sge(0, 30)});
  // The second half of the second read lies somewhere else.
  Read(2, {end_.Sge(1000, 50), end_.Sge(3000, 50)});
  EXPECT_TRUE(Early(Response(1000, 0, 40, false)));
  EXPECT_TRUE(Early(Response(1000, 70, 30)));
  EXPECT_TRUE(Has(1000, 40) && Has(3020, 30));
  EXPECT_FALSE(Has(1040, 1) || Has(3019, 1) || Has(3050, 1));
  EXPECT_TRUE(Early(Response(0, 0, 10, false)));
  EXPECT_TRUE(Has(0, 10));
  EXPECT_FALSE(Early(Response(1000, 90, 20))) << "longer than the read";
  EXPECT_FALSE(Early(Response(5000, 0, 10))) << "nobody asked";
  EXPECT_THAT(end_.sent, IsEmpty());
  std::rotate(placed_.begin(), placed_.end() - 1, placed_.end());
  EXPECT_EQ(Turn(), V::kAccept);
  end_.Receive(Response(0, 10, 20));
  EXPECT_THAT(end_.sent, SizeIs(1));
  EXPECT_EQ(Turn(), V::kAccept);
  end_.Receive(Response(1000, 40, 30, false));
  EXPECT_TRUE(Has(1000, 50) && Has(3000, 50));
  EXPECT_EQ(Turn(), V::kAccept);
  ASSERT_THAT(end_.sent, SizeIs(2));
  EXPECT_EQ(end_.sent[1].wr_id, 2u);
  EXPECT_EQ(end_.copied, 130u);
}

TEST_F(EarlyReadTest, AResponseIntoAnOrderedRegionWaits) {
  const uint32_t ordered = end_.host().RegisterAt(
      kPd, 0, 8192, kAllRights & ~mem::kRelaxedOrdering, end_.at(0));
  Read(1, {{end_.at(0), 30, ordered}});
  const auto response = [&](uint32_t at, uint32_t bytes) {
    return Raw(RawTagged{.opcode = RdmapOpcode::kReadResponse,
                         .last = at + bytes == 30,
                         .stag = ordered,
                         .offset = end_.at(at),
                         .payload = bytes});
  };
  EXPECT_FALSE(Early(response(10, 20)));
  EXPECT_FALSE(Has(10, 1));
  end_.Receive(response(0, 10));
  end_.Receive(response(10, 20));
  EXPECT_THAT(end_.sent, SizeIs(1));
}

TEST_F(EarlyReadTest, TwoReadsIntoTheSamePlaceWait) {
  Read(1, {end_.Sge(0, 100)});
  Read(2, {end_.Sge(0, 50)});
  EXPECT_FALSE(Early(Response(0, 0, 50)));
  EXPECT_TRUE(Early(Response(0, 40, 60))) << "only the first is so long";
}

TEST_F(EarlyReadTest, AReadFarBehindOtherRequestsWaits) {
  RdmapEnd end({.sq_entries = 128});
  ASSERT_TRUE(end.Send(
      {.opcode = URNIC_WR_ATOMIC_FETCH_AND_ADD, .sges = {end.Sge(0, 8)}}));
  for (int i = 0; i < 70; ++i) {
    ASSERT_TRUE(end.Send({.opcode = URNIC_WR_RDMA_WRITE}));
  }
  ASSERT_TRUE(
      end.Send({.opcode = URNIC_WR_RDMA_READ, .sges = {end.Sge(0, 100)}}));
  EXPECT_THAT(end.Transmit(), SizeIs(72));
  EXPECT_FALSE(Early(end, Raw(RawTagged{.opcode = RdmapOpcode::kReadResponse,
                                        .stag = end.key(),
                                        .offset = end.at(0),
                                        .payload = 100})));
}

}  // namespace
}  // namespace urnic::rdmap::testing
