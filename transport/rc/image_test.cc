#include "transport/rc/image.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/endpoint.h"
#include "tests/support/golden.h"
#include "tests/support/image_map.h"
#include "tests/support/random.h"
#include "transport/rc/image_fields.h"
#include "transport/work/timers.h"

namespace urnic::rc {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using urnic::testing::Endpoint;
using urnic::testing::FakeHost;
using urnic::testing::ImageMap;
using urnic::testing::Packet;
using urnic::testing::Random;

constexpr uint32_t kAll = mem::kLocalWrite | mem::kRemoteWrite |
                          mem::kRemoteRead | mem::kRemoteAtomic;
constexpr Duration kAhead = Duration::Seconds(1000);

// Two endpoints with much under way: requests sent and not acknowledged, a long
// one partly sent, a read half answered, an atomic that may be requested again,
// a receive half filled.
class ImageTest : public ::testing::Test {
 protected:
  ImageTest() {
    key_a_ = host_a_.Register(1, 0, host_a_.size(), kAll);
    key_b_ = host_b_.Register(1, 0, host_b_.size(), kAll);
    config_ = {.dest_qpn = 0x22,
               .mtu = 256,
               .rq_psn = Psn(0x123456),
               .sq_psn = Psn(0xfffffe),
               .access = kAll,
               .timeout = AckTimeout(14),
               .max_rd_atomic = 4,
               .max_dest_rd_atomic = 4,
               .window_packets = 16};
    a_.Connect(config_);
    QpConfig other = config_;
    std::swap(other.rq_psn, other.sq_psn);
    other.dest_qpn = 0x11;
    b_.Connect(other);
  }

  void Post(uint8_t opcode, uint32_t bytes) {
    ASSERT_TRUE(a_.PostSend({.opcode = opcode,
                             .wr_id = ++posted_,
                             .sges = {{host_a_.address(0), bytes, key_a_}},
                             .remote_addr = host_b_.address(8),
                             .rkey = key_b_}));
  }
  void Begin() {
    ASSERT_TRUE(b_.PostRecv(
        {.wr_id = 900, .sges = {{host_b_.address(1024), 4096, key_b_}}}));
    Post(URNIC_WR_ATOMIC_FETCH_AND_ADD, 8);
    Post(URNIC_WR_RDMA_READ, 1024);
    Post(URNIC_WR_RDMA_WRITE, 8);
    Post(URNIC_WR_SEND, 2000);
    for (Packet& p : a_.Transmit(now_, 5)) (void)b_.Deliver(p, now_);
    (void)b_.Transmit(now_, 2);  // they are lost
  }

  FakeHost host_a_{8192};
  FakeHost host_b_{8192};
  uint32_t key_a_ = 0;
  uint32_t key_b_ = 0;
  QpConfig config_;
  Endpoint a_{host_a_, {.qpn = 0x11}};
  Endpoint b_{host_b_, {.qpn = 0x22}};
  uint64_t posted_ = 0;
  Time now_ = Time::FromNs(5'000'000'000);
};

TEST_F(ImageTest, AnInsertedQueuePairHasTheSameImage) {
  Begin();
  for (Endpoint* end : {&a_, &b_}) {
    const std::vector<uint8_t> image = end->Image(now_);
    ASSERT_TRUE(end->Become(image, now_, kAhead).ok());
    end->qp().CheckInvariants();
    EXPECT_EQ(end->Image(now_), image);
  }
}

TEST_F(ImageTest, EverythingThatWasUnderWayArrives) {
  Begin();
  for (int round = 0; round < 40; ++round) {
    for (Endpoint* end : {&a_, &b_}) {
      ASSERT_TRUE(end->Become(end->Image(now_), now_, kAhead * round).ok());
    }
    for (Packet& p : a_.Transmit(now_)) (void)b_.Deliver(p, now_);
    for (Packet& p : b_.Transmit(now_)) (void)a_.Deliver(p, now_);
    now_ = now_ + config_.timeout;
    a_.AdvanceTo(now_);
  }
  ASSERT_EQ(a_.completions().size(), 4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(a_.completions()[i].status, URNIC_WC_SUCCESS);
    EXPECT_EQ(a_.completions()[i].wr_id, i + 1);
  }
  ASSERT_EQ(b_.completions().size(), 1);
  EXPECT_EQ(b_.completions()[0].byte_len, 2000);
}

// Moves at moments inside a burst: between its runs, between its placements and
// its completions, and around each transmission.
TEST_F(ImageTest, NothingIsLostOrDuplicatedAtAnyMoment) {
  Random random(5);
  a_.MoveNowAndThen(1, 2);
  b_.MoveNowAndThen(2, 2);
  const auto fill = [&](std::span<uint8_t> bytes) {
    for (uint8_t& byte : bytes) byte = random.Byte();
  };
  const auto same = [](std::span<uint8_t> one, std::span<uint8_t> other) {
    return std::ranges::equal(one, other);
  };
  const auto carry = [&](Endpoint& from, Endpoint& to) {
    std::vector<Packet> packets =
        from.Transmit(now_, static_cast<uint32_t>(1 + random.Below(8)));
    std::erase_if(packets, [&](const Packet&) { return random.OneIn(8); });
    (void)to.Deliver(packets, now_);
  };
  constexpr uint32_t kBytes = 700;
  for (uint64_t round = 0; round < 30; ++round) {
    fill(host_a_.bytes(2048, kBytes));
    fill(host_b_.bytes(4096, kBytes));
    ASSERT_TRUE(b_.PostRecv(
        {.wr_id = round, .sges = {{host_b_.address(1024), 2048, key_b_}}}));
    const auto post = [&](uint8_t opcode, size_t here, size_t there,
                          uint32_t bytes) {
      ASSERT_TRUE(a_.PostSend({.opcode = opcode,
                               .sges = {{host_a_.address(here), bytes, key_a_}},
                               .remote_addr = host_b_.address(there),
                               .rkey = key_b_,
                               .compare_add = 1}));
    };
    post(URNIC_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 8);
    post(URNIC_WR_SEND, 2048, 0, kBytes);
    post(URNIC_WR_RDMA_READ, 5000, 4096, kBytes);
    post(URNIC_WR_RDMA_WRITE, 2048, 6000, kBytes);
    while (a_.completions().size() < 4) {
      carry(a_, b_);
      carry(b_, a_);
      now_ = now_ + Duration::Microseconds(50);
      a_.AdvanceTo(now_);
      b_.AdvanceTo(now_);
    }
    const auto sent = a_.TakeCompletions();
    ASSERT_EQ(sent.size(), 4u);
    for (const auto& done : sent) ASSERT_EQ(done.status, URNIC_WC_SUCCESS);
    const auto received = b_.TakeCompletions();
    ASSERT_EQ(received.size(), 1u);
    ASSERT_EQ(received[0].wr_id, round);
    uint64_t before = 0;
    std::memcpy(&before, host_a_.bytes(0, 8).data(), 8);
    ASSERT_EQ(before, round);
    const auto source = host_a_.bytes(2048, kBytes);
    ASSERT_TRUE(same(source, host_b_.bytes(1024, kBytes)));
    ASSERT_TRUE(same(source, host_b_.bytes(6000, kBytes)));
    ASSERT_TRUE(same(host_a_.bytes(5000, kBytes), host_b_.bytes(4096, kBytes)));
  }
  EXPECT_GT(a_.moves() + b_.moves(), 300u);
}

TEST_F(ImageTest, AnotherClockChangesNoTimer) {
  Begin();
  const Time due = a_.NextDeadline();
  ASSERT_FALSE(due.IsInfinite());
  const Time later = now_ + Duration::Milliseconds(1);
  ASSERT_TRUE(a_.Become(a_.Image(later), later, kAhead).ok());
  EXPECT_EQ(a_.NextDeadline(), due);
  EXPECT_EQ(a_.qp().NextDeadline(), due + kAhead);
}

TEST_F(ImageTest, ShowsEachMember) {
  Begin();
  std::string text;
  ShowState(a_.qp(), now_, text);
  EXPECT_THAT(text, HasSubstr("send.retry_at 67108864 ns\n"));
  EXPECT_THAT(text, HasSubstr("qp.state RTS\n"));
  EXPECT_THAT(text, HasSubstr("qp.event none\n"));
  EXPECT_THAT(text, HasSubstr("config.dest_qpn 0x000022\n"));
  EXPECT_THAT(text, HasSubstr("config.pkey 0xffff\n"));
  EXPECT_THAT(text, HasSubstr("config.qkey 0x00000000\n"));
  EXPECT_THAT(text, HasSubstr("cc.last_cut none\n"));
  EXPECT_THAT(text, HasSubstr("send.sent_since 0 ns\n"));
  EXPECT_THAT(text, HasSubstr("send.una_psn 0xfffffe\n"));
  EXPECT_THAT(text, HasSubstr("record.length 2000\n"));
}

// The layout belongs to a version: a changed list needs a higher kImageVersion.
TEST_F(ImageTest, LayoutOfThisVersion) {
  Begin();
  urnic::testing::ExpectGolden("transport/rc/goldens/image_layout.txt",
                               "version " + std::to_string(kImageVersion) +
                                   "\n" +
                                   ImageMap(b_.qp(), QpService::kRc).Layout());
}

TEST_F(ImageTest, ATruncatedImageIsRefused) {
  Begin();
  const std::vector<uint8_t> image = b_.Image(now_);
  for (size_t bytes = 0; bytes < image.size(); ++bytes) {
    const auto part = std::span(image).first(bytes);
    EXPECT_FALSE(b_.Become(part, now_, Duration()).ok()) << bytes;
  }
}

TEST_F(ImageTest, TheCrcCoversEveryByte) {
  Begin();
  std::vector<uint8_t> image = b_.Image(now_);
  for (uint8_t& byte : image) {
    byte ^= 0x10;
    EXPECT_FALSE(b_.Become(image, now_, Duration()).ok());
    byte ^= 0x10;
  }
}

// A member, a value that it cannot have, and the text of the refusal.
struct Bad {
  const char* field;
  uint64_t value;
  const char* text;
};

TEST_F(ImageTest, ARefusalNamesTheMember) {
  Begin();
  static constexpr Bad kBad[] = {
      {"limits.qpn", 5, "qpn is 5: belongs to another queue pair"},
      {"limits.xrc", 2, "limits.xrc is 2: is out of range"},
      {"state", 7, "state is 7"},
      {"state", 2, "running is 1"},
      {"config.mtu", 300, "config.mtu is 300: is not a path MTU"},
      {"send.una_psn", 0x1000000, "send.una_psn is 16777216"},
      {"send.head", 0xffffff00, "send.assigned is "},
      {"send.una", 3, "una_psn is "},
      {"send.next_psn", 5, "next_psn is 5"},
      {"send.tx_psn", 0x777777, "sent_psn is "},
      {"send.reads_in_flight", 1, "reads_in_flight is 1"},
      {"send.rnr_waiting", 3, "send.rnr_waiting is 3"},
      {"send.failed_status", 77, "failed_status is 77"},
      {"send.retry_at", uint64_t{1} << 61, "send.retry_at is "},
      {"pacer.next_send", UINT64_MAX, "next_send is "},
      {"cc.cwnd", 8384513, "cwnd is 8384513"},
      {"cc.before_cut", 8384513, "before_cut is 8384513"},
      {"record.opcode", 31, "opcode is 31"},
      {"record.packets", 9, "packets is 9"},
      {"receive.msn", 0x1000000, "receive.msn is 16777216"},
      {"notifier.quiet_until", UINT64_MAX, "quiet_until is "},
      {"receive.event", 9, "event is 9"},
  };
  const std::vector<uint8_t> good = a_.Image(now_);
  const ImageMap map(a_.qp(), QpService::kRc);
  for (const Bad& bad : kBad) {
    std::vector<uint8_t> image = good;
    map.Set(image, bad.field, bad.value);
    const ImageRefusal refusal = a_.Become(image, now_, Duration());
    EXPECT_THAT(refusal.Text(), HasSubstr(bad.text)) << bad.field;
  }
}

TEST_F(ImageTest, ARefusalNamesTheMemberOfTheResponder) {
  Begin();
  static constexpr Bad kBad[] = {
      {"replay.kind", 0, "kind is 0"},
      {"replay.length", 77, "length is 77"},
      {"replay.pd", 9, "pd is 9"},
      {"receive_queue.taken", 0, "length is "},
      {"receive_queue.num_sge", 5, "num_sge is 5"},
      {"receive.nak_due", 1, "nak_due is 1"},
      {"receive_ring.head", 0x100, "receive_ring is 0: is not where"},
      {"replay.limit", 200, "limit is 200"},
  };
  const std::vector<uint8_t> good = b_.Image(now_);
  const ImageMap map(b_.qp(), QpService::kRc);
  for (const Bad& bad : kBad) {
    std::vector<uint8_t> image = good;
    map.Set(image, bad.field, bad.value);
    const ImageRefusal refusal = b_.Become(image, now_, Duration());
    EXPECT_THAT(refusal.Text(), HasSubstr(bad.text)) << bad.field;
  }
}

TEST_F(ImageTest, OtherVersionsAndServicesAreRefused) {
  std::vector<uint8_t> image = a_.Image(now_);
  image[8] = kImageVersion + 1;
  ImageMap::Seal(image);
  EXPECT_THAT(a_.Become(image, now_, Duration()).Text(),
              StartsWith("version is " + std::to_string(kImageVersion + 1)));
  image = a_.Image(now_);
  image[10] = static_cast<uint8_t>(QpService::kUd);
  ImageMap::Seal(image);
  EXPECT_THAT(a_.Become(image, now_, Duration()).Text(),
              HasSubstr("service is 2"));
}

// An image's reader builds a queue pair of this shape.
TEST_F(ImageTest, AnImageTellsTheShapeOfItsQueuePair) {
  ImageShape shape;
  ASSERT_TRUE(ReadImageShape(b_.Image(now_), shape).ok());
  EXPECT_EQ(shape.service, QpService::kRc);
  EXPECT_EQ(shape.limits.qpn, 0x22u);
  EXPECT_EQ(shape.sq_entries, b_.options().sq_entries);
  EXPECT_EQ(shape.replay_slots, kReplaySlots);
}

}  // namespace
}  // namespace urnic::rc
