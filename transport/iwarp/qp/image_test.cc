#include "transport/iwarp/qp/image.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "tests/support/golden.h"
#include "tests/support/image_map.h"
#include "transport/iwarp/qp/endpoint_fixture.h"
#include "transport/iwarp/qp/image_fields.h"
#include "transport/wire/ipv4.h"

namespace urnic::iwarp {
namespace {

using ::testing::HasSubstr;
using urnic::testing::ImageMap;

constexpr Duration kAhead = Duration::Seconds(3000);

class ImageTest : public ::testing::Test {
 protected:
  TestEnd& a() { return link_->a; }
  TestEnd& b() { return link_->b; }

  bool Post(TestEnd& end, uint8_t opcode, uint32_t bytes, uint64_t wr_id = 0) {
    TestEnd& peer = &end == &a() ? b() : a();
    // What a read brings must not change what is sent.
    const size_t local = opcode == URNIC_WR_RDMA_READ ? 32 * 1024 : 1024;
    return end.Post({.opcode = opcode,
                     .wr_id = wr_id,
                     .sges = {end.program.Sge(local, bytes)},
                     .remote_addr = peer.program.at(64 * 1024),
                     .rkey = peer.program.key()});
  }
  // `a` waits for the answer of a read, of which `b` keeps a copy. Of a send,
  // the first segment was lost. The others were placed early, and the requests
  // of three more reads are in custody.
  void Begin() {
    ASSERT_TRUE(link_->Connect());
    link_->tamper_to_a = [](Packet& packet) { return packet.payload.empty(); };
    ASSERT_TRUE(Post(a(), URNIC_WR_RDMA_READ, 1000, 1));
    ASSERT_TRUE(link_->RunUntil([this] { return b().fpdus.kept() != 0; }));
    bool lost = false;
    link_->tamper_to_b = [lost](Packet& packet) mutable {
      return packet.payload.empty() || std::exchange(lost, true);
    };
    ASSERT_TRUE(b().program.Recv(7, {b().program.Sge(200 * 1024, 9000)}));
    ASSERT_TRUE(Post(a(), URNIC_WR_SEND, 6000, 2));
    for (uint64_t id = 3; id < 6; ++id) {
      ASSERT_TRUE(Post(a(), URNIC_WR_RDMA_READ, 1000, id));
    }
    ASSERT_TRUE(link_->RunUntil([this] { return b().frames.kept() >= 3; }));
    ASSERT_LT(b().early.free_count(), TestEnd::kEarly);
    link_->tamper_to_a = [](Packet&) { return true; };
  }
  void Move(TestEnd& end, Duration ahead = kAhead) {
    const Bytes image = end.Image(link_->now);
    const ImageRefusal refusal = end.Become(image, link_->now, ahead);
    ASSERT_TRUE(refusal.ok()) << refusal.Text();
    EXPECT_EQ(end.Image(link_->now), image);
  }
  void MoveAlways() {
    link_->between = [this](TestEnd& end) {
      if (end.begun()) Move(end, kAhead);
    };
  }

  std::unique_ptr<Link> link_ = std::make_unique<Link>();
};

TEST_F(ImageTest, EverythingThatWasUnderWayArrives) {
  a().program.Fill(1024, 6000, 5);
  Begin();
  const uint32_t records = b().early.free_count();
  Move(a());
  Move(b(), kAhead * 2);
  EXPECT_EQ(b().early.free_count(), records);
  ASSERT_TRUE(link_->RunUntil([this] { return a().program.sent.size() == 5; }));
  for (const SendCompletion& done : a().program.sent) {
    EXPECT_EQ(done.status, URNIC_WC_SUCCESS);
  }
  ASSERT_EQ(b().program.received.size(), 1u);
  EXPECT_EQ(b().program.received[0].byte_len, 6000u);
  EXPECT_EQ(b().program.copied, 6000u) << "each byte is copied once";
  EXPECT_EQ(b().frames.kept(), 0u);
  EXPECT_EQ(b().early.free_count(), TestEnd::kEarly);
}

TEST_F(ImageTest, AMovedConnectionKnowsItsPath) {
  a().tcp_config.offer.mss = b().tcp_config.offer.mss = 8960;
  uint32_t path = 1500;
  uint32_t refused = 0;
  link_->tamper_to_b = [&](Packet& packet) {
    const auto bytes = static_cast<uint32_t>(
        sizeof(wire::Ipv4) + wire::TcpHeaderBytes(packet.fields.options) +
        packet.payload.size());
    if (bytes <= path) return true;
    ++refused;
    a().endpoint->OnTooBig(path, packet.fields.seq, a().Local(link_->now));
    return false;
  };
  MoveAlways();
  const auto write = [&] {
    const size_t before = a().program.sent.size();
    ASSERT_TRUE(Post(a(), URNIC_WR_RDMA_WRITE, 60000));
    ASSERT_TRUE(
        link_->RunUntil([&] { return a().program.sent.size() == before + 1; }));
  };
  ASSERT_TRUE(link_->Connect());
  write();
  EXPECT_GT(std::exchange(refused, 0), 0u);
  EXPECT_EQ(a().endpoint->path_mtu(), 1500u);
  write();
  EXPECT_EQ(refused, 0u);
  path = 9000;
  link_->now = link_->now + tcp::PathMtu::kRaiseInterval;
  write();
  EXPECT_GT(a().endpoint->path_mtu(), 1500u);
}

// The end of an FPDU is in a segment of its own.
TEST_F(ImageTest, AnFpduWhoseEndIsMissingGoesOn) {
  ASSERT_TRUE(link_->Connect());
  a().program.Fill(1024, 1000, 9);
  bool cut = false;
  link_->tamper_to_b = [&cut](Packet& packet) {
    if (packet.payload.size() < 1000) return true;
    if (!std::exchange(cut, true)) packet.payload.resize(501);
    return true;
  };
  ASSERT_TRUE(Post(a(), URNIC_WR_RDMA_WRITE, 1000));
  ASSERT_TRUE(link_->RunUntil([this] { return b().frames.kept() == 1; }));
  Move(b());
  EXPECT_EQ(b().frames.kept(), 1u);
  ASSERT_TRUE(link_->RunUntil([this] { return !a().program.sent.empty(); }));
  EXPECT_EQ(b().program.Read(64 * 1024, 1000), a().program.Read(1024, 1000));
}

// The window of the peer is smaller than an FPDU, so parts of it are sent when
// the timer says so.
TEST_F(ImageTest, AConnectionMovesWhileItWaitsForAWindow) {
  b().tcp_config.window_bytes = 300;
  MoveAlways();
  ASSERT_TRUE(link_->Connect());
  a().program.Fill(1024, 3000, 5);
  ASSERT_TRUE(Post(a(), URNIC_WR_RDMA_WRITE, 3000));
  ASSERT_TRUE(link_->RunUntil([this] { return !a().program.sent.empty(); }));
  EXPECT_EQ(b().program.Read(64 * 1024, 3000), a().program.Read(1024, 3000));
}

// The same, of small messages that share a chunk, which has not been made.
TEST_F(ImageTest, SmallMessagesMoveWhileTheyWaitForAWindow) {
  constexpr uint32_t kCount = 12;
  constexpr uint32_t kBytes = 20;
  b().tcp_config.window_bytes = 300;
  MoveAlways();
  ASSERT_TRUE(link_->Connect());
  a().program.Fill(1024, kCount * kBytes, 5);
  for (uint32_t at = 0; at < kCount * kBytes; at += kBytes) {
    ASSERT_TRUE(a().Post({.opcode = URNIC_WR_RDMA_WRITE,
                          .sges = {a().program.Sge(1024 + at, kBytes)},
                          .remote_addr = b().program.at(64 * 1024 + at),
                          .rkey = b().program.key()}));
  }
  ASSERT_TRUE(
      link_->RunUntil([this] { return a().program.sent.size() == kCount; }));
  link_->Run();
  EXPECT_EQ(b().program.Read(64 * 1024, kCount * kBytes),
            a().program.Read(1024, kCount * kBytes));
}

TEST_F(ImageTest, ATerminateArrivesFromWhereverItsSenderIs) {
  MoveAlways();
  ASSERT_TRUE(link_->Connect());
  ASSERT_TRUE(a().Post({.opcode = URNIC_WR_RDMA_READ,
                        .sges = {a().program.Sge(0, 100)},
                        .remote_addr = 8,
                        .rkey = 0x55}));
  link_->Run();
  ASSERT_EQ(a().program.sent.size(), 1u);
  EXPECT_EQ(a().program.sent[0].status, URNIC_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(a().clean() && b().clean());
}

TEST_F(ImageTest, TimestampsGoOnByAnyClock) {
  uint32_t last = a().tcp_config.timestamp_offset;
  link_->tamper_to_b = [&last](Packet& packet) {
    const uint32_t value = packet.fields.options.timestamps->value;
    EXPECT_LE(static_cast<int32_t>(last - value), 0);
    last = value;
    return true;
  };
  last += static_cast<uint32_t>(link_->now.ns() / 1'000'000);
  Random random(3);
  link_->between = [&](TestEnd& end) {
    if (!end.begun()) return;
    Move(end, Duration::Nanoseconds(
                  static_cast<int64_t>(random.Below(uint64_t{1} << 45))));
  };
  ASSERT_TRUE(link_->Connect());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Post(a(), URNIC_WR_RDMA_WRITE, 5000));
    ASSERT_TRUE(link_->RunUntil(
        [&] { return a().program.sent.size() == static_cast<size_t>(i + 1); }));
  }
}

TEST_F(ImageTest, AnImageTellsWhetherItHasAQueuePair) {
  std::optional<ImageShape> shape;
  b().accepts = false;
  link_->a.Connect(link_->now);
  ASSERT_TRUE(link_->RunUntil([this] { return b().has(Event::kRequest); }));
  ASSERT_TRUE(ReadImageShape(b().Image(link_->now), shape).ok());
  EXPECT_FALSE(shape.has_value());
  ASSERT_TRUE(ReadImageShape(a().Image(link_->now), shape).ok());
  ASSERT_TRUE(shape.has_value());
  EXPECT_EQ(shape->limits.qpn, 0x11u);
  EXPECT_EQ(shape->sq_entries, 32u);
}

TEST_F(ImageTest, WithoutCustodyAnImageIsRefusedAndNothingIsLeft) {
  Begin();
  const Bytes image = b().Image(link_->now);
  b().frames.limit = 2;
  EXPECT_THAT(b().Become(image, link_->now, kAhead).Text(),
              HasSubstr("find no custody here"));
  b().Renew();
  EXPECT_EQ(b().frames.kept(), 0u);
  EXPECT_EQ(b().fpdus.kept(), 0u);
  EXPECT_EQ(b().early.free_count(), TestEnd::kEarly);
  b().frames.limit = 1000;
  b().fpdus.SetFree(0);
  EXPECT_THAT(b().Become(image, link_->now, kAhead).Text(),
              HasSubstr("kept is "));
  b().Renew();
  EXPECT_EQ(b().frames.kept(), 0u);
  b().fpdus.SetFree(64);
  b().place_early = false;
  EXPECT_THAT(b().Become(image, link_->now, kAhead).Text(),
              HasSubstr("fpdus is 1: is more than there is room for"));
}

TEST_F(ImageTest, ATruncatedImageIsRefused) {
  Begin();
  const Bytes image = b().Image(link_->now);
  for (size_t bytes = 0; bytes < image.size(); bytes += 3) {
    const Bytes part(image.begin(), image.begin() + static_cast<long>(bytes));
    EXPECT_FALSE(b().Become(part, link_->now, kAhead).ok()) << bytes;
  }
}

TEST_F(ImageTest, AnotherVersionOrKindIsRefused) {
  Begin();
  Bytes image = a().Image(link_->now);
  image[8] = kImageVersion + 1;
  ImageMap::Seal(image);
  EXPECT_THAT(a().Become(image, link_->now, kAhead).Text(),
              HasSubstr("version is "));
  image[8] = kImageVersion;
  image[10] = static_cast<uint8_t>(ImageKind::kRc);
  ImageMap::Seal(image);
  EXPECT_THAT(a().Become(image, link_->now, kAhead).Text(),
              HasSubstr("kind is 0: is not an iWARP connection's"));
}

TEST_F(ImageTest, AnotherConnectionDoesNotTakeTheImage) {
  Begin();
  const Bytes image = a().Image(link_->now);
  const tcp::FourTuple own = a().tuple();
  const auto refusal = [&](const tcp::FourTuple& tuple) {
    a().Renew();
    a().program.Renew();
    const Destination destination = {
        .tuple = tuple, .frames = &a().frames, .qp = &a().program.qp()};
    return InsertImage(image, link_->now, destination, *a().endpoint).Text();
  };
  for (wire::Gid tcp::FourTuple::*member :
       {&tcp::FourTuple::local, &tcp::FourTuple::remote}) {
    tcp::FourTuple other = own;
    other.*member = wire::Gid::FromIpv4(0x0a000009);
    EXPECT_THAT(refusal(other), HasSubstr("belongs to another connection"));
  }
  EXPECT_EQ(refusal(own), "");
}

TEST_F(ImageTest, CountsAreAnImageToo) {
  const ConnectionCounts counts = {.listeners = 1, .half_open = 3};
  Bytes image(ExtractImage(counts, {}));
  EXPECT_EQ(ExtractImage(counts, image), image.size());
  ConnectionCounts read;
  EXPECT_TRUE(ReadImage(image, read).ok());
  std::string text;
  ShowState(read, text);
  EXPECT_EQ(text,
            "iwarp.listeners 1\niwarp.connections 0\niwarp.half_open 3\n"
            "iwarp.time_wait 0\n");
  Begin();
  EXPECT_FALSE(ReadImage(a().Image(link_->now), read).ok());
}

// A member, a value that it cannot have, and the text of the refusal.
struct Bad {
  const char* field;
  uint64_t value;
  const char* text;
};

class RefusalTest : public ImageTest {
 protected:
  void ExpectRefusals(TestEnd& end, std::span<const Bad> bads) {
    const ImageMap map(*end.endpoint);
    const Bytes good = end.Image(link_->now);
    for (const Bad& bad : bads) {
      Bytes image = good;
      map.Set(image, bad.field, bad.value);
      const ImageRefusal refusal = end.Become(image, link_->now, kAhead);
      EXPECT_THAT(refusal.Text(), HasSubstr(bad.text)) << bad.field;
      end.Renew();
    }
    EXPECT_TRUE(end.Become(good, link_->now, kAhead).ok());
  }
};

TEST_F(RefusalTest, ARefusalNamesTheMemberOfTheSender) {
  Begin();
  static constexpr Bad kBad[] = {
      {"phase", 9, "phase is 9: is out of range"},
      {"phase", 1, "is more than the state needs"},
      {"cut", 5, "cut is 5: is not the end of the last chunk"},
      {"events", 1, "events is 1: are unknown"},
      {"limits.qpn", 5, "qpn is 5: belongs to another queue pair"},
      {"qp.state", 1, "does not fit the queue pair"},
      {"qp.terminate_bytes", 99, "terminate_bytes is 99"},
      {"requester.una", 0xff, "una is 255: is not in head..next"},
      {"requester.next", 0xffff, "is farther from head"},
      {"requester.reads_in_flight", 5, "is not the sum over the requests"},
      {"requester.answer", 77, "answer is 77: is not in head..next"},
      {"record.opcode", 31, "opcode is 31: is not a request of iWARP"},
      {"record.bytes", 0xffffffff, "is more than a message can have"},
      {"tcp.state", 5, "finishing is 0: does not fit the state"},
      {"config.local_port", 5, "local_port is 5: belongs to another"},
      {"config.keepalive_interval", uint64_t{1} << 59, "is too long"},
      {"offer.mss", 3, "mss is 3: is too small"},
      {"agreed.window_shift", 15, "window_shift is 15"},
      {"sender_config.mss", 100, "mss is 1448: differs from the sender's"},
      {"sender_config.max_order", 11, "max_order is 11"},
      {"sender.nxt", 5, "nxt is 5: is not the end of the segments"},
      {"sender.fin_sent", 1, "fin_sent is 1"},
      {"segments.count", 4096, "segment"},
      {"segment.seq", 5, "seq is 5: does not follow what is before"},
      {"segment.bytes", 0, "bytes is 0"},
      {"segment.source", uint64_t{1} << 62, "is an answer that is not kept"},
      {"segment.source", uint64_t{77} << 46, "length of its chunk"},
      {"scoreboard.in_flight", 999, "in_flight is "},
      {"sender.mtu_probe", 1, "is not under way"},
      {"sender.mtu_probe_bytes", 9, "is not a probe of the path"},
      {"sender.mtu_probe_fate", 1, "has been reported"},
      {"path.mtu", 100, "mtu is 100: is not a size for this path"},
      {"path.high", 9000, "high is 9000: is not a size above mtu"},
      {"path.probe_bytes", 1500, "is not in mtu..high"},
      {"path.probing", 1, "sent_bytes is 0: is not in mtu..probe_bytes"},
      {"path.lost_bytes", 1500, "is not in mtu..probe_bytes"},
      {"path.probe_losses", 3, "is more than are needed"},
      {"path.timeouts", 3, "is a full stop"},
      {"round_trip.back_off", 11, "back_off is 11"},
      {"reduction.flight", 0, "flight is 0"},
      {"forward.new_left", 3, "new_left is 3"},
      {"peer.bytes", 0xffffffff, "bytes is 4294967295"},
      {"set_up.role", 0, "role is 0"},
      {"set_up.cut_bytes", 600, "cut_bytes is 600"},
      {"setup.revision", 3, "revision is 3: is not supported"},
      {"negotiation.state", 1, "deadline is 1: does not fit the state"},
      {"reply.have", 600, "have is 600"},
      {"delimiter.phase", 512, "phase is 512"},
      {"delimiter.error", 1, "error is 1: is not an error of an FPDU"},
  };
  ExpectRefusals(a(), kBad);
}

TEST_F(RefusalTest, ARefusalNamesTheMemberOfTheReceiver) {
  Begin();
  static constexpr Bad kBad[] = {
      {"responder.cut", 99, "cut is 99: is not in first..end"},
      {"responder.end", 0xffff, "is farther from first"},
      {"receive_ring.head", 0x100, "receive_ring is 0: is not where"},
      {"receiver.next", 1 << 30, "edge is "},
      {"receiver.last_acked", 1 << 30, "last_acked is "},
      {"receiver.fin_delivered", 1, "fin_at is 0"},
      {"window.shift", 15, "shift is 15"},
      {"held.ranges", 2000, "is "},
      {"range.begin", 1 << 30, "begin is "},
      {"range.bytes", 0, "bytes is 0"},
      {"range.bytes", 1, "bytes is 1: have FPDUs without headers"},
      {"early_fpdu.end", 5, "end is 5: is not the end of its FPDU"},
      {"early_fpdu.payload_bytes", 1 << 16, "is more than an FPDU has"},
      {"early_fpdu.payload_bytes", 5, "is not the end of its FPDU"},
      {"early_fpdu.header_bytes", 19, "is more than a header has"},
      {"early_fpdu.header_bytes", 17, "are not of a segment that can wait"},
      {"early_fpdu.header", 0x4142, "are not of a segment that can wait"},
      {"sacks.count", 5, "count is 5"},
      {"kept", 17, "is "},
      {"kept_fpdu.begin", 5, "source is "},
      {"kept_fpdu.source", 5, "source is "},
      {"kept_fpdu.written", 0, "is "},
  };
  ExpectRefusals(b(), kBad);
}

// The promise can be withdrawn until the request is sent, so it must be there.
TEST_F(RefusalTest, APromiseThatIsNotInTheRequest) {
  a().private_data.resize(mpa::MaxPrivateData(2, /*promise=*/false));
  a().Connect(link_->now);
  static constexpr Bad kBad[] = {
      {"setup.promise", 1, "are not a request, with the promise"},
      {"set_up.frame", 1, "are not a request"},
  };
  ExpectRefusals(a(), kBad);
}

TEST_F(RefusalTest, APromiseToAPeerThatIsNotAUrnic) {
  b().accepts = false;
  a().Connect(link_->now);
  ASSERT_TRUE(link_->RunUntil([this] { return b().has(Event::kRequest); }));
  static constexpr Bad kSent[] = {
      {"agreed.urnic", 0, "is made to a peer that is not a uRNIC"},
  };
  ExpectRefusals(a(), kSent);
  ExpectRefusals(b(), kSent);
}

TEST_F(ImageTest, ShowsEachMember) {
  Begin();
  std::string text;
  ShowState(*b().endpoint, b().tuple(), link_->now, text);
  EXPECT_THAT(text, HasSubstr("addresses.remote 0x0000ffff0a000001\n"));
  EXPECT_THAT(text, HasSubstr("tcp.state ESTABLISHED\n"));
  EXPECT_THAT(text, HasSubstr("endpoint.phase running\n"));
  EXPECT_THAT(text, HasSubstr("qp.state RTS\n"));
  EXPECT_THAT(text, HasSubstr("range.early yes\n"));
  EXPECT_THAT(text, HasSubstr("range.early no\n"));
  EXPECT_THAT(text, HasSubstr("early_fpdu.header_bytes 18\n"));
  EXPECT_THAT(text, HasSubstr("kept_fpdu.written yes\n"));
  // The bytes themselves are not shown.
  EXPECT_LT(text.size(), 20'000u);
}

TEST_F(ImageTest, TheLayoutIsThatOfTheVersion) {
  Begin();
  urnic::testing::ExpectGolden("transport/iwarp/qp/goldens/image_layout.txt",
                               "version " + std::to_string(kImageVersion) +
                                   "\n" + ImageMap(*a().endpoint).Layout() +
                                   "\n" + ImageMap(*b().endpoint).Layout());
}

}  // namespace
}  // namespace urnic::iwarp
