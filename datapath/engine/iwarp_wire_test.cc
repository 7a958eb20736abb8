// An engine with iWARP that faces a stranger: at the other end of its ring is a
// port from which the test sends segments of TCP.

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "datapath/engine/tcp_framer.h"
#include "datapath/guest/eal.h"
#include "tests/support/engine_node.h"
#include "tests/support/iwarp_node.h"
#include "transport/wire/frame.h"

namespace urnic {
namespace {

using testing::IwarpNode;

constexpr uint16_t kPort = 7000;
constexpr uint16_t kPeerPort = 3000;
constexpr SeqNum kIss{5000};

// A port, and the frames of TCP that it sends to a node and gets from it.
class Stranger {
 public:
  Stranger(const std::string& dev, testing::NicNode& node)
      : node_(node), port_(testing::OpenTestPort(dev)) {
    while (node.port().info().state != PortState::kUp) {
      std::this_thread::yield();
    }
    wire::PathHeaders headers;
    headers.src_mac = port_->mac();
    headers.dst_mac = node.port().mac();
    headers.src = wire::Gid::FromIpv4(0x0a010002);
    headers.dst = node.gid();
    path_.headers = wire::HeaderTemplate(headers);
    path_.remote = node.gid();
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
  // Sends it, and returns what the node answers. `damage` is added to the last
  // byte.
  std::vector<wire::TcpFields> Exchange(const wire::TcpFields& fields,
                                        uint8_t damage = 0) {
    TakeLcore(port_->lcore());
    rte_mbuf* frame = rte_pktmbuf_alloc(port_->pool());
    URNIC_CHECK(frame != nullptr);
    auto* const data = rte_pktmbuf_mtod(frame, uint8_t*);
    const uint32_t bytes =
        TcpFramer::Write(path_, {.fields = fields}, data,
                         [](std::span<uint8_t>) { return true; });
    data[bytes - 1] = static_cast<uint8_t>(data[bytes - 1] + damage);
    frame->data_len = static_cast<uint16_t>(bytes);
    frame->pkt_len = bytes;
    EXPECT_EQ(port_->Transmit(&frame, 1), 1);
    ReleaseLcore();
    for (int i = 0; i < 5; ++i) node_.engine().Progress();
    return Received();
  }

 private:
  std::vector<wire::TcpFields> Received() {
    std::vector<wire::TcpFields> list;
    rte_mbuf* frames[kBurstMax];
    TakeLcore(port_->lcore());
    while (const uint16_t n = port_->Receive(frames, kBurstMax)) {
      for (uint16_t i = 0; i < n; ++i) {
        wire::FrameView view;
        wire::TcpSegment segment;
        if (wire::ParseFrame(rte_pktmbuf_mtod(frames[i], const uint8_t*),
                             frames[i]->data_len, view) == RxVerdict::kTcp) {
          EXPECT_EQ(wire::ParseTcp(view, false, segment), RxVerdict::kAccept);
          list.push_back(segment);
        }
      }
      rte_pktmbuf_free_bulk(frames, n);
    }
    ReleaseLcore();
    return list;
  }

  testing::NicNode& node_;
  const std::unique_ptr<Port> port_;
  net::Path path_;
};

class IwarpWireTest : public ::testing::Test {
 protected:
  std::vector<wire::TcpFields> Exchange(uint8_t flags, SeqNum seq,
                                        SeqNum ack = {}) {
    return stranger_.Exchange(Stranger::Segment(flags, seq, ack));
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
  EXPECT_TRUE(
      stranger_.Exchange(Stranger::Segment(wire::kTcpSyn, kIss), 1).empty());
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

// Without seeing the connection, nobody can end it.
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
  // No program has known of it.
  EXPECT_TRUE(node_.told.empty());
}

TEST_F(IwarpWireTest, BytesThatAreNoMpaRequestAreAnsweredByARst) {
  const SeqNum next = Establish();
  auto fin = Exchange(wire::kTcpFin | wire::kTcpAck, kIss + 1, next);
  EXPECT_FALSE(fin.empty());
  EXPECT_EQ(node_.connections().size(), 0u);
}

// Segments of TCP to the address may be for somebody else then.
TEST(NoIwarpTest, WithoutIwarpSegmentsAreNotAnswered) {
  testing::EngineNode node("ring:noiw:a", 0x0a010001);
  Stranger stranger("ring:noiw:b", node);
  EXPECT_TRUE(
      stranger.Exchange(Stranger::Segment(wire::kTcpSyn, kIss)).empty());
  EXPECT_EQ(node.count(RxVerdict::kTcp), 1u);
}

}  // namespace
}  // namespace urnic
