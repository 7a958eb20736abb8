// An engine with iWARP whose peer is the test itself: it sends TCP segments
// from the port at the other end of the ring.

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/tcp_framer.h"
#include "datapath/guest/eal.h"
#include "tests/support/engine_node.h"
#include "tests/support/host_wire.h"
#include "tests/support/iwarp_node.h"
#include "transport/iwarp/mpa/setup_frame.h"
#include "transport/wire/frame.h"
#include "transport/wire/neighbor.h"

namespace urnic {
namespace {

using testing::IwarpNode;

constexpr uint16_t kPort = 7000;
constexpr uint16_t kPeerPort = 3000;
constexpr SeqNum kIss{5000};

// The port of the test, which sends TCP frames to a node and receives its
// frames.
class Stranger {
 public:
  Stranger(const std::string& dev, testing::NicNode& node)
      : node_(node), port_(testing::OpenTestPort(dev)) {
    MoveTo(wire::Gid::FromIpv4(0x0a010002));
    while (node.port().info().state != PortState::kUp) {
      std::this_thread::yield();
    }
  }
  // From now on the stranger has this address.
  void MoveTo(const wire::Gid& address) {
    wire::PathHeaders headers;
    headers.src_mac = port_->mac();
    headers.dst_mac = node_.port().mac();
    headers.src = address;
    headers.dst = node_.gid();
    path_.headers = wire::HeaderTemplate(headers);
    path_.remote = node_.gid();
  }

  // A segment from kPeerPort to kPort.
  static wire::TcpFields Segment(uint8_t flags, SeqNum seq, SeqNum ack = {}) {
    wire::TcpFields fields;
    fields.src_port = kPeerPort;
    fields.dst_port = kPort;
    fields.flags = flags;
    fields.seq = seq;
    fields.ack = ack;
    fields.window = 60000;
    return fields;
  }
  struct Answer : wire::TcpFields {
    size_t bytes = 0;  // of the payload
  };
  // Sends a segment, and returns what the node answers. `damage` is added to
  // the last byte.
  std::vector<Answer> Exchange(const wire::TcpFields& fields,
                               std::span<const uint8_t> payload = {},
                               uint8_t damage = 0) {
    std::vector<uint8_t> frame(2048);
    tcp::TcpSlot slot = {.fields = fields};
    slot.bytes = static_cast<uint32_t>(payload.size());
    frame.resize(TcpFramer::Write(path_, slot, frame.data(), false,
                                  [&](std::span<uint8_t> to) {
                                    std::ranges::copy(payload, to.begin());
                                    return true;
                                  }));
    frame.back() = static_cast<uint8_t>(frame.back() + damage);
    return Exchange(frame);
  }
  std::vector<Answer> Exchange(std::span<const uint8_t> bytes) {
    TakeLcore(port_->lcore());
    rte_mbuf* frame = rte_pktmbuf_alloc(port_->pool());
    URNIC_CHECK(frame != nullptr);
    std::ranges::copy(
        bytes, rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes.size())));
    EXPECT_EQ(port_->Transmit(&frame, 1), 1);
    ReleaseLcore();
    return Received();
  }
  // The frames that the node has sent by itself.
  std::vector<Answer> Received() {
    for (int i = 0; i < 5; ++i) node_.engine().Progress();
    std::vector<Answer> list;
    rte_mbuf* frames[kBurstMax];
    TakeLcore(port_->lcore());
    while (const uint16_t n = port_->Receive(frames, kBurstMax)) {
      for (uint16_t i = 0; i < n; ++i) {
        wire::FrameView view;
        wire::TcpSegment segment;
        if (wire::ParseFrame(rte_pktmbuf_mtod(frames[i], const uint8_t*),
                             frames[i]->data_len, view) == RxVerdict::kTcp) {
          EXPECT_EQ(wire::ParseTcp(view, false, segment), RxVerdict::kAccept);
          list.push_back({segment, segment.payload.size()});
        }
      }
      rte_pktmbuf_free_bulk(frames, n);
    }
    ReleaseLcore();
    return list;
  }
  const wire::MacAddress& mac() const { return port_->mac(); }

 private:
  testing::NicNode& node_;
  const std::unique_ptr<Port> port_;
  net::Path path_;
};

class IwarpWireTest : public ::testing::Test {
 protected:
  std::vector<Stranger::Answer> Exchange(
      uint8_t flags, SeqNum seq, SeqNum ack = {},
      std::span<const uint8_t> payload = {}) {
    return stranger_.Exchange(Stranger::Segment(flags, seq, ack), payload);
  }
  // The answers with data; acknowledgements may have been delayed.
  static std::vector<Stranger::Answer> WithData(
      std::vector<Stranger::Answer> answers) {
    std::erase_if(answers, [](const auto& a) { return a.bytes == 0; });
    return answers;
  }
  // A handshake; returns our number behind the SYN.
  SeqNum Establish() {
    node_.Listen(kPort);
    wire::TcpFields syn = Stranger::Segment(wire::kTcpSyn, kIss);
    syn.options.mss = 1460;
    const auto answers = stranger_.Exchange(syn);
    EXPECT_EQ(answers.size(), 1u);
    if (answers.empty()) return {};
    EXPECT_EQ(answers[0].flags, wire::kTcpSyn | wire::kTcpAck);
    EXPECT_EQ(answers[0].ack, kIss + 1);
    const SeqNum next = answers[0].seq + 1;
    EXPECT_EQ(node_.connections().half_open(), 1u);
    Exchange(wire::kTcpAck, kIss + 1, next);
    EXPECT_EQ(node_.connections().half_open(), 0u);
    EXPECT_EQ(node_.connections().size(), 1u);
    return next;
  }

  IwarpNode node_{"ring:iww:a", 1};
  Stranger stranger_{"ring:iww:b", node_};
};

//= RFC 9293 3.10.7.1
TEST_F(IwarpWireTest, ASegmentForNoListenerIsAnsweredByARst) {
  auto answers = Exchange(wire::kTcpSyn, kIss);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].flags, wire::kTcpRst | wire::kTcpAck);
  EXPECT_EQ(answers[0].ack, kIss + 1);
  EXPECT_EQ(answers[0].src_port, kPort);
  EXPECT_EQ(answers[0].dst_port, kPeerPort);
  answers = Exchange(wire::kTcpAck, kIss, SeqNum(77));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].flags, wire::kTcpRst);
  EXPECT_EQ(answers[0].seq, SeqNum(77));
  EXPECT_TRUE(Exchange(wire::kTcpRst, kIss).empty());
  EXPECT_EQ(node_.count(RxVerdict::kTcp), 3u);
}

TEST_F(IwarpWireTest, ASegmentWithAWrongChecksumIsNotAnswered) {
  EXPECT_TRUE(stranger_.Exchange(Stranger::Segment(wire::kTcpSyn, kIss), {}, 1)
                  .empty());
  EXPECT_EQ(node_.count(RxVerdict::kBadTcpChecksum), 1u);
}

//= RFC 9293 3.10.7.2
TEST_F(IwarpWireTest, AListenerAnswersOnlyHandshakes) {
  node_.Listen(kPort);
  EXPECT_TRUE(Exchange(wire::kTcpRst, kIss).empty());
  auto answers = Exchange(wire::kTcpAck, kIss, SeqNum(77));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].flags, wire::kTcpRst);
  answers = Exchange(wire::kTcpSyn | wire::kTcpAck, kIss, SeqNum(77));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].flags, wire::kTcpRst);
  EXPECT_EQ(node_.connections().half_open(), 0u);
  EXPECT_EQ(node_.connections().size(), 0u);
}

// An attacker who does not see the connection cannot end it.
TEST_F(IwarpWireTest, OnlyTheRightRstEndsAConnection) {
  const SeqNum next = Establish();
  auto answers = Exchange(wire::kTcpRst, kIss + 100);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].flags, wire::kTcpAck);
  EXPECT_EQ(node_.count(RxVerdict::kTcpChallenged), 1u);
  EXPECT_TRUE(Exchange(wire::kTcpRst, kIss + (0u - 1000000u)).empty());
  EXPECT_EQ(node_.connections().size(), 1u);
  EXPECT_TRUE(Exchange(wire::kTcpRst, kIss + 1, next).empty());
  EXPECT_EQ(node_.connections().size(), 0u);
  // No program has got an event of it.
  EXPECT_TRUE(node_.told.empty());
}

TEST_F(IwarpWireTest, BytesThatAreNoMpaRequestAreAnsweredByARst) {
  const SeqNum next = Establish();
  auto fin = Exchange(wire::kTcpFin | wire::kTcpAck, kIss + 1, next);
  EXPECT_FALSE(fin.empty());
  EXPECT_EQ(node_.connections().size(), 0u);
}

// Otherwise a few peers that never send a request would keep all others out.
TEST_F(IwarpWireTest, WhoeverSaysNothingMakesRoomForOthers) {
  node_.Listen(kPort, /*backlog=*/2);
  SeqNum first_next;
  for (uint16_t i = 0; i < 3; ++i) {
    wire::TcpFields syn = Stranger::Segment(wire::kTcpSyn, kIss);
    syn.src_port = static_cast<uint16_t>(kPeerPort + i);
    const auto answers = stranger_.Exchange(syn);
    ASSERT_EQ(answers.size(), 1u) << i;
    const SeqNum next = answers[0].seq + 1;
    if (i == 0) first_next = next;
    wire::TcpFields ack = Stranger::Segment(wire::kTcpAck, kIss + 1, next);
    ack.src_port = syn.src_port;
    const auto resets = stranger_.Exchange(ack);
    if (i < 2) {
      EXPECT_TRUE(resets.empty()) << i;
      continue;
    }
    ASSERT_EQ(resets.size(), 1u);
    EXPECT_EQ(resets[0].flags, wire::kTcpRst | wire::kTcpAck);
    EXPECT_EQ(resets[0].dst_port, kPeerPort) << "the oldest";
    EXPECT_EQ(resets[0].seq, first_next);
  }
  EXPECT_EQ(node_.connections().size(), 2u);
  EXPECT_EQ(node_.engine().counters().iwarp.silent_evicted, 1u);
}

// The first segments go back to the sender's MAC. Meanwhile the engine resolves
// the router, so that the connection follows when another router takes over.
TEST_F(IwarpWireTest, AConnectionFromAfarFollowsItsRouter) {
  const wire::Gid router = wire::Gid::FromIpv4(0x0a010003);
  const net::Route route = {.prefix = wire::Gid::FromIpv4(0x0a020000),
                            .prefix_bits = 96 + 16,
                            .gateway = router};
  node_.Control([&](ConnectionTable&) {
    node_.network().SetRoutes(std::span(&route, 1), node_.engine().Now());
  });
  stranger_.MoveTo(wire::Gid::FromIpv4(0x0a020007));
  const SeqNum ours = Establish();
  uint8_t request[mpa::kMaxSetupBytes];
  const mpa::SetupFrame frame = {.revision = 1};
  const uint32_t bytes = frame.Write(request);
  Exchange(wire::kTcpAck, kIss + 1, ours, {request, bytes});
  ASSERT_TRUE(node_.has_told(iwarp::Event::kRequest));
  const net::Path& path = node_.told[0].connection->path();
  EXPECT_EQ(path.headers.dst_mac(), stranger_.mac());
  for (const uint8_t mac : {0x33, 0x44}) {
    const auto self = testing::SelfOf({{0x02, 0, 0, 0, 0, mac}}, router);
    std::vector<uint8_t> question(wire::kNeighborFrameBytes);
    question.resize(wire::EmitSolicitation(self, node_.gid(), {}, question));
    stranger_.Exchange(question);
    const Time end = node_.engine().Now() + Duration::Milliseconds(200);
    while (!(path.adjacency != nullptr && path.adjacency->mac() == self.mac) &&
           node_.engine().Now() < end) {
      stranger_.Received();
    }
    ASSERT_NE(path.adjacency, nullptr);
    EXPECT_EQ(path.adjacency->mac(), self.mac);
  }
}

//= RFC 5927 4.1
TEST_F(IwarpWireTest, ARoutersReportMakesTheSegmentsOfItsConnectionSmaller) {
  IwarpNode::Program& program = node_.Create();
  node_.acceptors = {&program};
  node_.setup.crc = false;
  SeqNum ours = Establish();
  SeqNum theirs = kIss + 1;
  uint8_t request[mpa::kMaxSetupBytes];
  const mpa::SetupFrame frame = {.revision = 1};
  const uint32_t bytes = frame.Write(request);
  const auto reply =
      WithData(Exchange(wire::kTcpAck, theirs, ours, {request, bytes}));
  ASSERT_EQ(reply.size(), 1u);
  theirs = theirs + bytes;
  ours = ours + static_cast<uint32_t>(reply[0].bytes);
  // An FPDU without a ULPDU: now the node may send.
  const uint8_t first_fpdu[8] = {};
  Exchange(wire::kTcpAck, theirs, ours, first_fpdu);
  ASSERT_EQ(program.qp->core_state(), QpState::kRts);
  ASSERT_TRUE(node_.PostSend(
      program, {.opcode = URNIC_WR_RDMA_WRITE, .sges = {node_.Sge(0, 1300)}}));
  const auto sent = WithData(stranger_.Received());
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_GT(sent[0].bytes, 1300u);
  const wire::Gid peer = wire::Gid::FromIpv4(0x0a010002);
  testing::TooBigFields report = {
      .router_mac = stranger_.mac(),
      .mac = node_.port().mac(),
      .router = wire::Gid::FromIpv4(0x0a010003),
      .to = node_.gid(),
      .quoted_src = node_.gid(),
      .quoted_dst = peer,
      .mtu = 1000,
      .packet_bytes = static_cast<uint16_t>(40 + sent[0].bytes)};
  const auto segment = [](SeqNum seq) {
    return testing::TooBigFields::Segment{wire::Be<uint16_t>(kPort),
                                          wire::Be<uint16_t>(kPeerPort),
                                          wire::Be<uint32_t>(seq.value())};
  };
  // A forger does not know which segments are in flight.
  report.segment = segment(ours + 100000);
  EXPECT_TRUE(
      WithData(stranger_.Exchange(testing::TooBigFrame(report))).empty());
  report.segment = segment(ours);
  size_t resent = 0;
  for (const auto& part :
       WithData(stranger_.Exchange(testing::TooBigFrame(report)))) {
    EXPECT_LE(part.bytes, 960u);
    resent += part.bytes;
  }
  EXPECT_EQ(resent, sent[0].bytes);
  // New paths to the peer have this MTU, too.
  net::Path path;
  node_.Control([&](ConnectionTable&) {
    EXPECT_EQ(node_.network().FindPath({.local = node_.gid(), .remote = peer},
                                       node_.engine().Now(), path),
              net::PathStatus::kFound);
  });
  EXPECT_EQ(path.mtu, 1000u);
}

// Then TCP segments to this address may be for another owner of it.
TEST(NoIwarpTest, WithoutIwarpSegmentsAreNotAnswered) {
  testing::EngineNode node("ring:noiw:a", 0x0a010001);
  Stranger stranger("ring:noiw:b", node);
  EXPECT_TRUE(
      stranger.Exchange(Stranger::Segment(wire::kTcpSyn, kIss)).empty());
  EXPECT_EQ(node.count(RxVerdict::kTcp), 1u);
}

}  // namespace
}  // namespace urnic
