#include "verbs/cli/image_view.h"

#include <gmock/gmock.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cm_sink.h"
#include "tests/support/endpoint.h"
#include "tests/support/unreliable_end.h"
#include "transport/cm/image.h"
#include "transport/iwarp/qp/endpoint_fixture.h"
#include "transport/iwarp/rdmap/image.h"

namespace urnic {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ImageViewTest : public ::testing::Test {
 protected:
  ImageViewTest() {
    config_.dest_qpn = 0x22;
    config_.qkey = 0x1234;
    config_.mtu = 256;
    config_.sq_psn = Psn(0x100);
    config_.rq_psn = Psn(0x200);
    config_.timeout = Duration::Milliseconds(67);
    config_.max_rd_atomic = 1;
  }
  static std::string Refusal(std::span<const uint8_t> image) {
    return std::string(ViewImage(image).status().message());
  }

  QpConfig config_;
  const Time now_ = Time::FromNs(9'000'000'000);
};

TEST_F(ImageViewTest, ARcQueuePairThatWaitsForItsPeer) {
  testing::FakeHost host(4096);
  testing::Endpoint end(host, {.qpn = 0x11});
  end.Connect(config_);
  const uint32_t key = host.Register(1, 0, 4096, mem::kLocalWrite);
  ASSERT_TRUE(end.PostSend({.sges = {{host.address(0), 600, key}}}));
  ASSERT_EQ(end.Transmit(now_, 2).size(), 2);
  const auto view = ViewImage(end.Image(now_ + Duration::Milliseconds(7)));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->qpn, 0x11u);
  EXPECT_EQ(view->line,
            "QP 0x000011 RC  RTS   peer 0x000022  out: PSN 0x000102, 1 "
            "requests and 2 packets unacknowledged  in: PSN 0x000200, MSN 0  "
            "timer in 60.000 ms");
  EXPECT_THAT(view->members, HasSubstr("send.next_offset 512\n"));
  EXPECT_THAT(view->members, HasSubstr("record.length 600\n"));
  EXPECT_THAT(view->members, StartsWith("qp.state RTS\n"));
  // A time that has not been set.
  EXPECT_THAT(view->members, HasSubstr("cc.last_cut none\n"));
}

TEST_F(ImageViewTest, DatagramsAndUnreliableConnections) {
  testing::UnreliableEnd<ud::Qp> ud(0x33, config_);
  const auto datagrams = ViewImage(ud.Image());
  ASSERT_TRUE(datagrams.ok()) << datagrams.status();
  EXPECT_EQ(datagrams->line,
            "QP 0x000033 UD  RTS   Q_Key 0x00001234  out: PSN 0x000100");
  testing::UnreliableEnd<uc::Qp> uc(0x44, config_);
  const auto connection = ViewImage(uc.Image());
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ(connection->line,
            "QP 0x000044 UC  RTS   peer 0x000022  out: PSN 0x000100  in: PSN "
            "0x000200");
  EXPECT_THAT(connection->members, HasSubstr("receive.expected 0x000200\n"));
  EXPECT_THAT(connection->members, HasSubstr("qp.recv_status WR_FLUSH_ERR\n"));
}

TEST_F(ImageViewTest, AConnectionThatWaitsForItsPeer) {
  cm::Config ca;
  ca.first_communication_id = 0x1234;
  cm::ConnectionManager manager(ca);
  testing::CmSink sink;
  cm::ConnectParams params;
  params.service_id = 0x1061c06;
  params.mad_path.remote = wire::Gid::FromIpv4(0x0a000002);
  params.qpn = Qpn{0x11};
  params.max_cm_retries = 3;
  cm::Handle handle;
  ASSERT_EQ(manager.Connect(params, 0, now_, sink, handle), 0);
  const auto image = [&](Time now) {
    std::vector<uint8_t> bytes(cm::ExtractImage(manager, 0x1234, now, {}));
    (void)cm::ExtractImage(manager, 0x1234, now, bytes);
    return bytes;
  };
  const auto view = ViewImage(image(now_ + Duration::Milliseconds(31)));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->qpn, 0x11u);
  EXPECT_EQ(
      view->line,
      "CM 0x00001234 REQ_SENT      peer 10.0.0.2 0x00000000  QP 0x000011  "
      "service 0x0000000001061c06  timer in 4800.838 ms, 3 retries "
      "left");
  EXPECT_THAT(view->members, HasSubstr("connection.retries_left 3\n"));
  EXPECT_THAT(view->members, HasSubstr("moved.answered no\n"));
  EXPECT_THAT(view->members, HasSubstr("connection.service RC\n"));
  EXPECT_THAT(view->members,
              HasSubstr("connection.local_comm_id 0x00001234\n"));
  ASSERT_EQ(manager.SetUser(handle, 9), 0);
  EXPECT_THAT(ViewImage(image(now_))->members,
              HasSubstr("connection.user 9\n"));
}

// --- iWARP -------------------------------------------------------------------

TEST_F(ImageViewTest, AnIwarpConnectionInTheMiddleOfATransfer) {
  const auto link = std::make_unique<iwarp::Link>();
  ASSERT_TRUE(link->Connect());
  link->tamper_to_a = [](iwarp::Packet&) { return false; };
  ASSERT_TRUE(link->a.Post({.opcode = URNIC_WR_RDMA_WRITE,
                            .sges = {link->a.program.Sge(0, 3000)},
                            .remote_addr = link->b.program.at(0),
                            .rkey = link->b.program.key()}));
  (void)link->Step(link->now);
  const auto view = ViewImage(link->a.Image(link->now));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->qpn, 0x11u);
  EXPECT_THAT(view->line,
              StartsWith("QP 0x000011 iWARP RTS   TCP ESTABLISHED port 1 peer "
                         "10.0.0.2:2  MPA 2, CRC  out: 1 requests and "));
  EXPECT_THAT(view->line, HasSubstr(" bytes unacknowledged, cwnd 10, MSS "));
  EXPECT_THAT(view->line, HasSubstr("  in: MSN 1, 0 reads, window "));
  EXPECT_THAT(view->line, HasSubstr("  timer in "));
  EXPECT_THAT(view->members, HasSubstr("record.bytes 3000\n"));
  EXPECT_THAT(view->members, HasSubstr("segment.bytes "));
  EXPECT_THAT(view->members, HasSubstr("agreed.mss "));
}

// Of a send, the first segment is lost.
TEST_F(ImageViewTest, AnIwarpConnectionWithFramesInCustody) {
  const auto link = std::make_unique<iwarp::Link>();
  link->b.place_early = false;
  link->b.Renew();
  ASSERT_TRUE(link->Connect());
  bool lost = false;
  link->tamper_to_b = [&lost](iwarp::Packet& packet) {
    return packet.payload.empty() || std::exchange(lost, true);
  };
  auto& program = link->b.program;
  ASSERT_TRUE(program.Recv(7, {program.Sge(0, 9000)}));
  ASSERT_TRUE(link->a.Post(
      {.opcode = URNIC_WR_SEND, .sges = {link->a.program.Sge(0, 6000)}}));
  ASSERT_TRUE(link->RunUntil([&] { return link->b.frames.kept() == 4; }));
  const auto view = ViewImage(link->b.Image(link->now));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_THAT(view->line, HasSubstr(", 4 frames held"));
  EXPECT_THAT(view->members, HasSubstr("range.bytes 14"));
}

TEST_F(ImageViewTest, IwarpConnectionsWithoutAQueuePair) {
  const auto link = std::make_unique<iwarp::Link>();
  link->b.accepts = false;
  link->a.Connect(link->now);
  const auto asks = ViewImage(link->a.Image(link->now));
  ASSERT_TRUE(asks.ok()) << asks.status();
  EXPECT_THAT(asks->line,
              StartsWith("QP 0x000011 iWARP INIT  TCP SYN-SENT    port 1 peer "
                         "10.0.0.2:2  waits for the MPA reply  timer in "));
  ASSERT_TRUE(
      link->RunUntil([&] { return link->b.has(iwarp::Event::kRequest); }));
  const auto asked = ViewImage(link->b.Image(link->now));
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->qpn, std::nullopt);
  EXPECT_THAT(asked->line,
              StartsWith("TCP ESTABLISHED port 2 peer 10.0.0.1:1  waits for "
                         "the program's answer  out: 0 bytes unacknowledged"));
  link->b.endpoint->Abort(link->b.Local(link->now));
  link->b.Finish(link->now);
  EXPECT_THAT(ViewImage(link->b.Image(link->now))->line,
              HasSubstr("  end: aborted"));
}

TEST_F(ImageViewTest, WhatElseIwarpHas) {
  rdmap::testing::RdmapEnd end({.started = false});
  std::vector<uint8_t> image(rdmap::ExtractImage(end.qp(), now_, {}));
  (void)rdmap::ExtractImage(end.qp(), now_, image);
  const auto alone = ViewImage(image);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->qpn, 0x11u);
  EXPECT_EQ(alone->line, "QP 0x000011 iWARP INIT  no connection");
  EXPECT_THAT(alone->members, HasSubstr("qp.state INIT\n"));
  const iwarp::ConnectionCounts counts = {.listeners = 2, .time_wait = 5};
  image.resize(iwarp::ExtractImage(counts, {}));
  (void)iwarp::ExtractImage(counts, image);
  EXPECT_EQ(ViewImage(image)->line,
            "TCP 2 listeners, 0 connections, 0 half open, 5 in TIME-WAIT");
}

TEST_F(ImageViewTest, AnInvalidImageIsRefusedWithItsReason) {
  testing::UnreliableEnd<ud::Qp> ud(0x33, config_);
  std::vector<uint8_t> image = ud.Image();
  image[40] ^= 1;
  EXPECT_THAT(Refusal(image), StartsWith("crc is "));
  image.resize(20);
  EXPECT_THAT(Refusal(image), StartsWith("length is "));
}

}  // namespace
}  // namespace urnic
