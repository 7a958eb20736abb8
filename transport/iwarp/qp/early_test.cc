// FPDUs that arrive behind a hole of the stream.

#include <gmock/gmock.h>

#include <memory>

#include "transport/iwarp/mpa/reference_stream.h"
#include "transport/iwarp/qp/endpoint_fixture.h"
#include "transport/iwarp/rdmap/raw_ulpdu.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/tcp.h"

namespace urnic::iwarp {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using V = RxVerdict;

class EarlyTest : public ::testing::Test {
 protected:
  EarlyTest() {
    link.tamper_to_b = [this](Packet& packet) { return Pass(packet); };
    a.program.Fill(0, 16384, 1);
  }
  // From now on the next data segment of a is lost, as often as it is sent.
  void OpenHole() { state_ = State::kNext; }
  void CloseHole() {
    state_ = State::kClosed;
    link.Run();
  }
  // Lets everything else arrive.
  void RunBehindHole() { link.Run(Duration::Milliseconds(5)); }

  // Writes of `bytes` bytes from a's memory to the same place of b's.
  SendWr WriteWr(size_t at, uint32_t bytes) {
    return {.opcode = URNIC_WR_RDMA_WRITE,
            .sges = {a.program.Sge(at, bytes)},
            .remote_addr = b.program.at(at),
            .rkey = b.program.key()};
  }
  bool Arrived(size_t at, size_t bytes) {
    return b.program.Read(at, bytes) == a.program.Read(at, bytes);
  }
  uint64_t Count(V verdict) { return link.verdicts[verdict]; }

  Link link;
  TestEnd& a = link.a;
  TestEnd& b = link.b;

 private:
  enum class State : uint8_t { kClosed, kNext, kOpen };

  bool Pass(const Packet& packet) {
    if (packet.payload.empty() || state_ == State::kClosed) return true;
    if (state_ == State::kNext) {
      state_ = State::kOpen;
      hole_ = packet.fields.seq;
    }
    return packet.fields.seq != hole_;
  }

  State state_ = State::kClosed;
  SeqNum hole_;
};

//= RFC 5041 5.3
TEST_F(EarlyTest, WritesArePlacedAtOnceAndOnlyTheirHeadersAreStored) {
  ASSERT_TRUE(link.Connect());
  OpenHole();
  a.Post(WriteWr(0, 1000));
  a.Post(WriteWr(4096, 4000));
  RunBehindHole();
  EXPECT_TRUE(Arrived(4096, 4000));
  EXPECT_FALSE(Arrived(0, 1000));
  EXPECT_EQ(Count(V::kTcpEarly), 3u);
  EXPECT_EQ(b.frames.kept(), 0u);
  EXPECT_EQ(b.early.free_count(), TestEnd::kEarly - 3);
  EXPECT_THAT(a.program.sent, IsEmpty());
  CloseHole();
  EXPECT_TRUE(Arrived(0, 1000));
  EXPECT_THAT(a.program.sent, SizeIs(2));
  EXPECT_EQ(b.program.copied, 5000u);
  EXPECT_EQ(b.early.free_count(), TestEnd::kEarly);
}

TEST_F(EarlyTest, CompletionsKeepTheOrderOfTheStream) {
  ASSERT_TRUE(link.Connect());
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(b.program.Recv(i, {b.program.Sge(4096 + 1000 * i, 1000)}));
  }
  OpenHole();
  a.Post(WriteWr(0, 1000));
  for (size_t i = 0; i < 2; ++i) {
    a.Post({.sges = {a.program.Sge(4096 + 1000 * i, 1000)}});
  }
  RunBehindHole();
  EXPECT_EQ(Count(V::kTcpEarly), 2u);
  EXPECT_TRUE(Arrived(4096, 2000));
  EXPECT_THAT(b.program.received, IsEmpty());
  CloseHole();
  EXPECT_EQ(b.program.order, (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(b.program.copied, 3000u);
}

TEST_F(EarlyTest, ReadResponsesArePlacedToo) {
  ASSERT_TRUE(link.Connect());
  a.Post(WriteWr(0, 0));  // b may send from now on
  link.Run();
  OpenHole();
  b.Post({.opcode = URNIC_WR_RDMA_READ,
          .sges = {b.program.Sge(4096, 5000)},
          .remote_addr = a.program.at(4096),
          .rkey = a.program.key()});
  RunBehindHole();
  EXPECT_EQ(Count(V::kTcpEarly), 3u);
  EXPECT_TRUE(Arrived(8192, 900));
  EXPECT_THAT(b.program.sent, IsEmpty());
  CloseHole();
  ASSERT_THAT(b.program.sent, SizeIs(1));
  EXPECT_TRUE(Arrived(4096, 5000));
  EXPECT_EQ(b.program.copied, 5000u);
}

TEST_F(EarlyTest, WhatHasOtherEffectsWaitsInCustody) {
  ASSERT_TRUE(link.Connect());
  OpenHole();
  a.Post(WriteWr(0, 1000));
  a.Post({.opcode = URNIC_WR_RDMA_READ,
          .sges = {a.program.Sge(32768, 10)},
          .remote_addr = b.program.at(0),
          .rkey = b.program.key()});
  a.Post({.opcode = URNIC_WR_ATOMIC_FETCH_AND_ADD,
          .sges = {a.program.Sge(40960, 8)},
          .remote_addr = b.program.at(8),
          .rkey = b.program.key(),
          .compare_add = 5});
  RunBehindHole();
  EXPECT_EQ(Count(V::kTcpEarly), 0u);
  EXPECT_EQ(b.frames.kept(), 2u);
  EXPECT_EQ(b.program.Word(8), 0u);
  CloseHole();
  EXPECT_THAT(a.program.sent, SizeIs(3));
  EXPECT_EQ(a.program.Word(40960), a.program.Word(8)) << "after the write";
  EXPECT_EQ(b.frames.kept(), 0u);
}

TEST_F(EarlyTest, EachByteIsCopiedOnceHoweverMuchIsReordered) {
  for (const uint32_t percent : {5u, 20u, 50u}) {
    for (const bool early : {true, false}) {
      SCOPED_TRACE(percent);
      const auto owner = std::make_unique<Link>(percent);
      Link& other = *owner;
      other.b.place_early = early;
      other.b.Renew();
      other.faults.reorder_percent = percent;
      ASSERT_TRUE(other.Connect());
      constexpr uint32_t kBytes = 9000;
      constexpr uint64_t kRounds = 30;
      for (uint64_t i = 0; i < kRounds; ++i) {
        ASSERT_TRUE(other.b.program.Recv(i, {other.b.program.Sge(0, kBytes)}));
        other.a.Post({.sges = {other.a.program.Sge(0, kBytes)}});
        other.b.Post({.opcode = URNIC_WR_RDMA_READ,
                      .sges = {other.b.program.Sge(16384, kBytes)},
                      .remote_addr = other.a.program.at(0),
                      .rkey = other.a.program.key()});
        other.Run();
      }
      EXPECT_THAT(other.b.program.received, SizeIs(kRounds));
      EXPECT_THAT(other.b.program.sent, SizeIs(kRounds));
      EXPECT_EQ(other.b.program.copied, 2 * kRounds * kBytes);
      EXPECT_EQ(other.verdicts[V::kTcpEarly] != 0, early);
      EXPECT_EQ(other.b.frames.kept(), 0u);
    }
  }
}

// --- Who may place early -----------------------------------------------------

TEST_F(EarlyTest, OnlyUrnicsMakeThePromise) {
  for (const bool urnic : {true, false}) {
    const auto owner = std::make_unique<Link>();
    Link& other = *owner;
    other.a.private_data = FromText("hello");
    other.b.private_data = FromText("welcome");
    other.a.tcp_config.offer.urnic = urnic;
    ASSERT_TRUE(other.Connect());
    for (TestEnd* end : {&other.a, &other.b}) {
      EXPECT_EQ(end->endpoint->set_up().agreement().peer_aligned, urnic);
    }
    EXPECT_EQ(other.a.peer_private_data, FromText("welcome"));
    EXPECT_EQ(other.b.peer_private_data, FromText("hello"));
  }
}

TEST_F(EarlyTest, WithoutRoomForThePromiseThereIsNone) {
  a.private_data = Bytes(508, 'x');
  b.private_data = FromText("welcome");
  ASSERT_TRUE(link.Connect());
  EXPECT_EQ(b.peer_private_data, a.private_data);
  EXPECT_EQ(a.peer_private_data, b.private_data);
  EXPECT_FALSE(a.endpoint->set_up().agreement().peer_aligned);
  EXPECT_FALSE(b.endpoint->set_up().agreement().peer_aligned);
}

TEST_F(EarlyTest, MarkersAreEnoughForOtherPeers) {
  a.tcp_config.offer.urnic = false;
  b.setup.markers = true;
  ASSERT_TRUE(link.Connect());
  OpenHole();
  a.Post(WriteWr(0, 1000));
  a.Post(WriteWr(4096, 4000));
  RunBehindHole();
  EXPECT_EQ(Count(V::kTcpEarly), 3u);
  EXPECT_TRUE(Arrived(4096, 4000));
  CloseHole();
  EXPECT_EQ(b.program.copied, 5000u);
}

TEST_F(EarlyTest, OtherwiseNothingIsPlacedEarly) {
  a.tcp_config.offer.urnic = false;
  ASSERT_TRUE(link.Connect());
  OpenHole();
  a.Post(WriteWr(0, 1000));
  a.Post(WriteWr(4096, 4000));
  RunBehindHole();
  EXPECT_EQ(Count(V::kTcpEarly), 0u);
  EXPECT_EQ(Count(V::kTcpKept), 3u);
  EXPECT_EQ(b.program.copied, 0u);
  CloseHole();
  EXPECT_TRUE(Arrived(0, 1000) && Arrived(4096, 4000));
  EXPECT_EQ(b.program.copied, 5000u);
}

// --- A payload that imitates FPDUs -------------------------------------------

class ImitationTest : public EarlyTest {
 protected:
  static constexpr size_t kTarget = 65536;  // of the forged writes
  static constexpr size_t kForged = 84;     // bytes of a forged FPDU
  static constexpr size_t kFirst = 68;      // of the first one in the payload
  static constexpr uint32_t kBytes = 1400;  // of the payload
  // A part of it that looks like FPDUs, for all of which there are records. No
  // path makes TCP send smaller ones.
  static constexpr size_t kPart = 6 * kForged;
  static_assert(kPart / kForged <= TestEnd::kEarly && kPart % 4 == 0);

  // Fills the memory of a with FPDUs that write to b's. In the FPDU of the
  // write they begin at multiples of their length.
  void Forge() {
    const auto ulpdu = rdmap::testing::Raw(
        rdmap::testing::RawTagged{.stag = b.program.key(),
                                  .offset = b.program.at(kTarget),
                                  .payload = 64});
    mpa::testing::ReferenceStream forged(/*crc=*/true, /*markers=*/false);
    forged.AddFpdu(ulpdu);
    ASSERT_EQ(forged.bytes().size(), kForged);
    const auto memory = a.program.host().bytes(0, kBytes);
    for (size_t at = kFirst; at + kForged <= kBytes; at += kForged) {
      std::ranges::copy(forged.bytes(), memory.begin() + static_cast<long>(at));
    }
  }
  void ExpectNothingForged() {
    EXPECT_EQ(b.program.Read(kTarget, 8), Bytes(8));
  }
  // The path divides the segments of a, in which forged FPDUs begin.
  void Divide() {
    link.tamper_to_b = [this](Packet& packet) {
      if (packet.payload.size() < kBytes || divided_) return true;
      divided_ = true;
      const auto begin = packet.payload.begin() + kPart;
      packet.payload = Bytes(begin, begin + kPart);
      packet.fields.seq = packet.fields.seq + kPart;
      return true;
    };
  }

 private:
  bool divided_ = false;
};

TEST_F(ImitationTest, NeitherWithoutThePromise) {
  a.tcp_config.offer.urnic = false;
  ASSERT_TRUE(link.Connect());
  Forge();
  Divide();
  a.Post(WriteWr(0, kBytes));
  link.Run();
  EXPECT_EQ(Count(V::kTcpKept), 1u);
  EXPECT_TRUE(Arrived(0, kBytes));
  ExpectNothingForged();
  EXPECT_EQ(b.program.copied, kBytes);
}

// A segment that the sender itself divides because the path has become narrow.
TEST_F(ImitationTest, NorWithItWhenTheMssShrinks) {
  ASSERT_TRUE(link.Connect());
  Forge();
  link.faults.loss_percent = 100;
  a.Post(WriteWr(0, kBytes));
  (void)link.Step(link.now);
  link.faults.loss_percent = 0;
  OpenHole();
  constexpr uint32_t kTimestamps = 12;
  constexpr uint32_t kHeaders = sizeof(wire::Ipv4) + sizeof(wire::Tcp);
  a.endpoint->OnTooBig(kHeaders + kTimestamps + kPart,
                       a.endpoint->connection().sender().una(), link.now);
  RunBehindHole();
  EXPECT_EQ(Count(V::kTcpEarly), 0u);
  EXPECT_GE(Count(V::kTcpKept), 1u);
  CloseHole();
  EXPECT_TRUE(Arrived(0, kBytes));
  ExpectNothingForged();
}

// The promise is that of the sender. A path that carries the options of the
// SYNs but divides segments breaks it, and the stream ends.
TEST_F(ImitationTest, APathThatDividesSegmentsEndsTheStream) {
  ASSERT_TRUE(link.Connect());
  Forge();
  Divide();
  a.Post(WriteWr(0, kBytes));
  link.Run();
  EXPECT_EQ(Count(V::kTcpEarly), 1u);
  EXPECT_EQ(Count(V::kMpaBadMarker), 1u);
  EXPECT_EQ(b.events.back(), Event::kDisconnected);
  EXPECT_TRUE(a.clean());
  EXPECT_TRUE(b.clean());
}

// --- Errors and limits -------------------------------------------------------

TEST_F(EarlyTest, AnErrorWaitsUntilTheHoleCloses) {
  ASSERT_TRUE(link.Connect());
  OpenHole();
  a.Post(WriteWr(0, 1000));
  SendWr wrong = WriteWr(4096, 100);
  wrong.rkey ^= 0x100;
  a.Post(wrong);
  a.Post(WriteWr(8192, 100));
  RunBehindHole();
  EXPECT_EQ(Count(V::kTcpEarly), 1u);
  EXPECT_EQ(b.program.qp().state(), QpState::kRts);
  CloseHole();
  EXPECT_TRUE(Arrived(0, 1000));
  EXPECT_EQ(Count(V::kDdpRefused), 1u);
  EXPECT_EQ(b.events.back(), Event::kDisconnected);
  EXPECT_TRUE(a.clean());
  EXPECT_TRUE(b.clean());
}

// It is an error of our program, and says nothing about the stream.
TEST_F(EarlyTest, MemoryThatIsNotMappedEndsTheStreamAtOnce) {
  ASSERT_TRUE(link.Connect());
  b.program.host().Break(4096, 100,
                         urnic::testing::FakeHost::Damage::kUnmapped);
  OpenHole();
  a.Post(WriteWr(0, 1000));
  a.Post(WriteWr(4096, 100));
  RunBehindHole();
  EXPECT_EQ(b.program.qp().state(), QpState::kErr);
  CloseHole();
  EXPECT_TRUE(a.clean());
  EXPECT_TRUE(b.clean());
}

TEST_F(EarlyTest, WithoutRecordsFramesAreKeptAndWithoutCustodyNothingIsAcked) {
  ASSERT_TRUE(link.Connect());
  b.frames.limit = 2;
  OpenHole();
  constexpr size_t kWrites = TestEnd::kEarly + 5;
  for (size_t i = 0; i < kWrites; ++i) a.Post(WriteWr(1000 * i, 1000));
  RunBehindHole();
  EXPECT_EQ(b.early.free_count(), 0u);
  EXPECT_EQ(Count(V::kTcpEarly), TestEnd::kEarly);
  EXPECT_EQ(b.frames.kept(), 2u);
  EXPECT_GT(Count(V::kTcpNoRoom), 0u);
  EXPECT_EQ(b.program.copied, 1000 * TestEnd::kEarly);
  CloseHole();
  EXPECT_THAT(a.program.sent, SizeIs(kWrites));
  EXPECT_TRUE(Arrived(0, 1000 * kWrites));
  EXPECT_EQ(b.program.copied, 1000 * kWrites);
}

TEST_F(EarlyTest, ADestroyedEndpointReturnsItsRecords) {
  ASSERT_TRUE(link.Connect());
  OpenHole();
  a.Post(WriteWr(0, 1000));
  a.Post(WriteWr(4096, 1000));
  RunBehindHole();
  EXPECT_EQ(b.early.free_count(), TestEnd::kEarly - 1);
  b.endpoint.reset();
  EXPECT_EQ(b.early.free_count(), TestEnd::kEarly);
}

TEST_F(EarlyTest, BytesThatArriveTwiceArePlacedOnce) {
  ASSERT_TRUE(link.Connect());
  link.faults.duplicate_percent = 100;
  OpenHole();
  a.Post(WriteWr(0, 1000));
  a.Post(WriteWr(4096, 4000));
  RunBehindHole();
  EXPECT_GE(Count(V::kTcpDuplicate), 3u);
  CloseHole();
  EXPECT_TRUE(Arrived(0, 1000) && Arrived(4096, 4000));
  EXPECT_EQ(b.program.copied, 5000u);
}

}  // namespace
}  // namespace urnic::iwarp
