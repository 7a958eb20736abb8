#pragma once

// An engine whose peer is the test itself: the test controls the port at the
// other end of the ring. It sends frames that our RNIC would not send, and
// inspects the answers.

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "datapath/guest/eal.h"
#include "tests/support/engine_node.h"
#include "transport/wire/frame.h"
#include "transport/wire/header_template.h"
#include "transport/wire/icrc.h"
#include "transport/wire/neighbor.h"
#include "transport/wire/packet.h"

namespace urnic {

using testing::EngineNode;
using Bytes = std::vector<uint8_t>;

inline constexpr uint32_t kOurIp = 0x0a010001;
inline constexpr uint32_t kPeerIp = 0x0a010002;
inline constexpr uint32_t kStrangerIp = 0x0a010003;
inline constexpr uint32_t kSecondIp = 0x0a010009;  // ours in some tests
inline constexpr uint32_t kPeerQpn = 0x1234;
inline constexpr size_t kTarget = 4096;  // what the test's packets write to
inline constexpr uint32_t kBytes = 8;

class EngineWireTest : public ::testing::Test {
 protected:
  EngineWireTest()
      : node_("ring:wire:a", kOurIp),
        peer_(testing::OpenTestPort("ring:wire:b")) {
    while (node_.port().info().state != PortState::kUp) {
      std::this_thread::yield();
    }
  }

  // --- The stranger's port ---------------------------------------------------

  void Transmit(const Bytes& frame) {
    TakeLcore(peer_->lcore());
    rte_mbuf* m = rte_pktmbuf_alloc(peer_->pool());
    ASSERT_NE(m, nullptr);
    std::memcpy(rte_pktmbuf_append(m, static_cast<uint16_t>(frame.size())),
                frame.data(), frame.size());
    EXPECT_EQ(peer_->Transmit(&m, 1), 1);
    ReleaseLcore();
  }

  std::vector<Bytes> Received() {
    std::vector<Bytes> list;
    rte_mbuf* frames[kBurstMax];
    TakeLcore(peer_->lcore());
    while (const uint16_t n = peer_->Receive(frames, kBurstMax)) {
      for (uint16_t i = 0; i < n; ++i) {
        const auto* data = rte_pktmbuf_mtod(frames[i], const uint8_t*);
        list.emplace_back(data, data + frames[i]->data_len);
      }
      rte_pktmbuf_free_bulk(frames, n);
    }
    ReleaseLcore();
    return list;
  }

  // --- Its packets -----------------------------------------------------------

  wire::NeighborSelf Peer(uint32_t ip = kPeerIp) const {
    wire::NeighborSelf self;
    self.mac = peer_->mac();
    self.gid = wire::Gid::FromIpv4(ip);
    return self;
  }
  wire::PathHeaders Headers() const {
    wire::PathHeaders headers;
    headers.src_mac = peer_->mac();
    headers.dst_mac = const_cast<EngineNode&>(node_).port().mac();
    headers.src = wire::Gid::FromIpv4(kPeerIp);
    headers.dst = node_.gid();
    headers.udp_src_port = 50000;
    return headers;
  }
  // A correct write to kTarget.
  wire::PacketFields Write(uint32_t psn) {
    wire::PacketFields fields;
    fields.opcode = static_cast<uint8_t>(wire::Opcode::kRcWriteOnly);
    fields.dest_qp = Qpn{node_.qp().qpn()};
    fields.psn = Psn(psn);
    fields.ack_requested = true;
    fields.virtual_address = node_.address(kTarget);
    fields.rkey = node_.key();
    fields.dma_length = kBytes;
    fields.payload = kPayload;
    return fields;
  }
  wire::PacketFields Notification() {
    wire::PacketFields fields;
    fields.opcode = static_cast<uint8_t>(wire::Opcode::kCnp);
    fields.becn = true;
    fields.mig_req = false;
    fields.dest_qp = Qpn{node_.qp().qpn()};
    return fields;
  }
  static Bytes Frame(const wire::PathHeaders& headers,
                     const wire::PacketFields& fields) {
    Bytes frame(512);
    frame.resize(wire::EmitFrame(wire::HeaderTemplate(headers), fields, frame));
    EXPECT_FALSE(frame.empty());
    return frame;
  }
  static uint8_t* Bth(Bytes& frame) { return frame.data() + 14 + 28; }
  // Recomputes the ICRC after a change to the bytes that it covers.
  static void Seal(Bytes& frame) {
    const size_t end = frame.size() - wire::kIcrcBytes;
    const uint32_t icrc = wire::IcrcReference({frame.data() + 14, end - 14},
                                              wire::Framing::kIpv4);
    std::memcpy(frame.data() + end, &icrc, sizeof(icrc));
  }

  // --- The engine ------------------------------------------------------------

  void Run() {
    for (int i = 0; i < 3; ++i) node_.engine().Progress();
  }
  uint64_t CountOf(RxVerdict verdict) { return node_.count(verdict); }
  absl::StatusOr<net::Path> Resolve(uint32_t ip, Duration timeout,
                                    bool roce_v1 = false) {
    return node_.nic().ResolvePath({.local = node_.gid(),
                                    .remote = wire::Gid::FromIpv4(ip),
                                    .udp_src_port = 50000,
                                    .roce_v1 = roce_v1},
                                   timeout);
  }
  void SetAddresses(const std::vector<wire::Gid>& gids) {
    std::vector<net::LocalAddress> addresses;
    for (const wire::Gid& gid : gids) addresses.push_back({gid, 96 + 24});
    Engine::ControlScope scope(node_.engine());
    node_.network().SetAddresses(std::move(addresses), node_.engine().Now());
  }
  // Makes the peer known to the engine, so that the engine need not resolve it.
  void Introduce(uint32_t ip = kPeerIp) {
    Bytes frame(wire::kNeighborFrameBytes);
    frame.resize(wire::EmitSolicitation(Peer(ip), node_.gid(), {}, frame));
    Transmit(frame);
    Run();
  }
  void Connect(bool roce_v1 = false,
               uint32_t window = QpConfig().window_packets) {
    Introduce();
    auto path = Resolve(kPeerIp, Duration::Milliseconds(1), roce_v1);
    ASSERT_TRUE(path.ok()) << path.status();
    QpConfig config;
    config.dest_qpn = kPeerQpn;
    config.access = testing::kNodeRights;
    config.window_packets = window;
    node_.Connect(*path, config);
    Received();
  }

  // Posts `writes` writes; returns how many are sent before an acknowledgement.
  size_t SentOf(uint32_t writes) {
    for (uint32_t i = 0; i < writes; ++i) {
      testing::SendWr wr;
      wr.opcode = URNIC_WR_RDMA_WRITE;
      wr.sges = {node_.Sge(0, kBytes)};
      node_.rings().WriteSend(i, wr);
    }
    node_.RingSend(writes);
    Run();
    return Received().size();
  }

  bool Written() {
    return std::memcmp(node_.memory() + kTarget, kPayload, kBytes) == 0;
  }
  // Expects that the frame is counted once as `verdict` and has no other
  // effect, and that the correct frame is still executed and acknowledged
  // afterwards.
  void ExpectRefused(const Bytes& frame, RxVerdict verdict) {
    const uint64_t before = CountOf(verdict);
    Transmit(frame);
    Run();
    EXPECT_EQ(CountOf(verdict), before + 1);
    EXPECT_FALSE(Written());
    EXPECT_TRUE(Received().empty());
    ExpectExecuted(Frame(Headers(), Write(0)));
  }
  void ExpectExecuted(const Bytes& frame) {
    Transmit(frame);
    Run();
    EXPECT_TRUE(Written());
    const std::vector<Bytes> answers = Received();
    ASSERT_EQ(answers.size(), 1u);
    wire::FrameView view;
    wire::RocePacket packet;
    ASSERT_EQ(wire::ParseFrame(answers[0].data(), answers[0].size(), view),
              RxVerdict::kAccept);
    wire::FrameView asked;
    ASSERT_EQ(wire::ParseFrame(frame.data(), frame.size(), asked),
              RxVerdict::kAccept);
    EXPECT_EQ(view.framing, asked.framing);
    EXPECT_TRUE(wire::VerifyIcrc(view.l3, view.framing, view.payload_bytes));
    ASSERT_EQ(wire::ParseRoce(view.payload, view.payload_bytes, packet),
              RxVerdict::kAccept);
    const wire::PacketFields ack = wire::FieldsOf(packet);
    EXPECT_EQ(ack.opcode, static_cast<uint8_t>(wire::Opcode::kRcAcknowledge));
    EXPECT_EQ(ack.dest_qp.value, kPeerQpn);
    EXPECT_EQ(ack.syndrome, wire::kAethCreditsInvalid);
  }

  static constexpr uint8_t kPayload[kBytes] = {1, 2, 3, 4, 5, 6, 7, 8};

  EngineNode node_;
  std::unique_ptr<Port> peer_;
};

}  // namespace urnic
