#include "datapath/engine/rud_sender.h"

#include "datapath/engine/traced_sink.h"

namespace urnic {
namespace {

// Payloads from this size on are hashed while they are copied.
constexpr uint32_t kHashOnTheWay = 512;

// The source port is the path: a network with several hashes it.
void WritePorts(uint8_t* udp, uint8_t path) {
  constexpr uint16_t kFirst = 0xc000;
  auto& ports = *reinterpret_cast<wire::Udp*>(udp);
  const auto source = static_cast<uint16_t>(
      kFirst | ((ports.src_port.value() + path) & 0x3fff));
  ports.src_port = wire::Be<uint16_t>(source);
  ports.dst_port = wire::Be<uint16_t>(wire::kRudUdpPort);
}

// A word is stored, since a word will be read.
void SetKey(uint8_t* base, uint32_t key) {
  constexpr size_t kAt = offsetof(wire::RudBase, key);
  static_assert(offsetof(wire::RudBase, window) == kAt + sizeof(key));
  uint64_t key_window;
  std::memcpy(&key_window, base + kAt, sizeof(key_window));
  key_window = key_window >> 32 << 32 | __builtin_bswap32(key);
  std::memcpy(base + kAt, &key_window, sizeof(key_window));
}

}  // namespace

template <typename Sink>
bool RudSender::SendOne(RudWindow& window, const rud::TxPacket& packet,
                        Sink& sink) {
  RudPeer* const peer = window.FindPeer(packet.peer);
  const uint32_t bytes =
      packet.header_bytes + packet.payload_bytes + wire::kRudCrcBytes;
  const RudPeer* const third = window.FindPeer(packet.third_peer);
  if (peer == nullptr || peer->path.source_gone ||
      (third == nullptr && packet.third_peer != 0)) {
    ++counters_->tx_source_gone;
    return false;
  }
  if (!peer->path.IsCurrent()) peer->path.Restamp();
  if (third != nullptr) rud::ThirdAtEnd(packet).address = third->path.remote;
  rte_mbuf* const frame = tx_->PeekEmpty(0);
  if (!Build(*peer, packet, static_cast<uint16_t>(bytes), frame)) {
    window.OnGatherFault(packet);
    ++counters_->placement_faults;
    return false;
  }
  if constexpr (Sink::kTraces) sink.OnRudSent(window, *frame);
  (void)tx_->TakeEmpty();
  if (peer->path.loopback) {
    tx_->PushToOurselves(frame);
    return true;
  }
  // Members of the group may be here, too.
  if (__builtin_expect(peer->path.multicast, 0) &&
      !network_->rud_groups().MembersOf(peer->path.remote).empty() &&
      !tx_->PushCopyToOurselves(frame)) {
    ++counters_->tx_copies_lost;
  }
  tx_->Push(frame);
  return true;
}

bool RudSender::Build(const RudPeer& peer, const rud::TxPacket& packet,
                      uint16_t bytes, rte_mbuf* frame) {
  uint8_t* const start = rte_pktmbuf_mtod(frame, uint8_t*);
  const wire::HeaderTemplate& headers = peer.path.headers;
  headers.Write(start, bytes);
  uint8_t* at = start + headers.size();
  WritePorts(at - sizeof(wire::Udp), packet.path);
  SetKey(packet.headers, peer.key);
  wire::Crc32c crc = peer.sent;
  crc.AddCopied(at, {packet.headers, packet.header_bytes});
  at += packet.header_bytes;
  const auto* const payload = reinterpret_cast<const void*>(packet.payload);
  if (packet.payload_bytes >= kHashOnTheWay) {
    if (!memory_->CopyHashed(at, payload, packet.payload_bytes,
                             wire::kFoldingCrc32c, crc.running())) {
      return false;
    }
  } else if (packet.payload_bytes != 0) {
    if (!memory_->Copy(at, payload, packet.payload_bytes)) return false;
    crc.Add({at, packet.payload_bytes});
  }
  crc.Store(at + packet.payload_bytes);
  frame->data_len = static_cast<uint16_t>(headers.size() + bytes);
  frame->pkt_len = frame->data_len;
  return true;
}

template <typename Sink>
uint32_t RudSender::Send(RudWindow& window, uint32_t room, Sink& sink) {
  const rud::Task::Use use(window.task());
  room = std::min({room, tx_->loop_room(), rud::kBurstMax});
  const uint32_t count = window.Transmit(std::span(slots_).first(room));
  uint32_t sent = 0;
  for (const rud::TxPacket& packet : std::span(slots_).first(count))
    sent += SendOne(window, packet, sink) ? 1 : 0;
  return sent;
}

template uint32_t RudSender::Send(RudWindow&, uint32_t, FlowSink&);
template uint32_t RudSender::Send(RudWindow&, uint32_t, TracedSink&);

}  // namespace urnic
