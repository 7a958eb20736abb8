#include "datapath/engine/rud_sender.h"

#include "datapath/engine/network.h"
#include "datapath/engine/traced_sink.h"
#include "transport/wire/fragment_writer.h"

namespace urnic {
namespace {

// Payloads from this size on are hashed while they are copied.
constexpr uint32_t kHashOnTheWay = 512;

// The source port selects the path: a network with several paths hashes it.
void WritePorts(uint8_t* udp, uint8_t path) {
  constexpr uint16_t kFirst = 0xc000;
  auto& ports = *reinterpret_cast<wire::Udp*>(udp);
  const auto source = static_cast<uint16_t>(
      kFirst | ((ports.src_port.value() + path) & 0x3fff));
  ports.src_port = wire::Be<uint16_t>(source);
  ports.dst_port = wire::Be<uint16_t>(wire::kRudUdpPort);
}

// Stores a whole word, because a word is read next.
void SetKey(uint8_t* base, uint32_t key) {
  constexpr size_t kAt = offsetof(wire::RudBase, key);
  static_assert(offsetof(wire::RudBase, window) == kAt + sizeof(key));
  uint64_t key_window;
  std::memcpy(&key_window, base + kAt, sizeof(key_window));
  key_window = key_window >> 32 << 32 | __builtin_bswap32(key);
  std::memcpy(base + kAt, &key_window, sizeof(key_window));
}

}  // namespace

[[gnu::always_inline]] inline void RudSender::Push(const RudPeer& peer,
                                                   rte_mbuf* frame) {
  if (peer.path.loopback) return tx_->PushToOurselves(frame);
  // Members of the group may also be on this device.
  if (__builtin_expect(peer.path.multicast, 0) &&
      !network_->rud_groups().MembersOf(peer.path.remote).empty() &&
      !tx_->PushCopyToOurselves(frame)) {
    ++counters_->tx_copies_lost;
  }
  tx_->Push(frame);
}

template <typename Sink>
uint32_t RudSender::SendOne(RudWindow& window, const rud::TxPacket& packet,
                            Sink& sink) {
  RudPeer* const peer = window.FindPeer(packet.peer);
  const uint32_t bytes =
      packet.header_bytes + packet.payload_bytes + wire::kRudCrcBytes;
  const RudPeer* const third = window.FindPeer(packet.third_peer);
  if (peer == nullptr || peer->path.source_gone ||
      (third == nullptr && packet.third_peer != 0)) {
    ++counters_->tx_source_gone;
    return 0;
  }
  if (!peer->path.IsCurrent()) peer->path.Restamp();
  if (third != nullptr) rud::ThirdAtEnd(packet).address = third->path.remote;
  if (__builtin_expect(packet.payload_bytes > window.max_payload(), 0)) {
    return SendFragments(window, *peer, packet, static_cast<uint16_t>(bytes),
                         sink);
  }
  rte_mbuf* const frame = tx_->PeekEmpty(0);
  if (!Build(*peer, packet, static_cast<uint16_t>(bytes),
             rte_pktmbuf_mtod(frame, uint8_t*))) {
    window.OnGatherFault(packet);
    ++counters_->placement_faults;
    return 0;
  }
  frame->data_len = static_cast<uint16_t>(peer->path.headers.size() + bytes);
  frame->pkt_len = frame->data_len;
  if constexpr (Sink::kTraces) sink.OnRudSent(window, *frame);
  (void)tx_->TakeEmpty();
  Push(*peer, frame);
  return 1;
}

bool RudSender::HasRoom() {
  if (tx_->room() == 0) tx_->Flush();
  return tx_->room() != 0 && tx_->loop_room() != 0 && tx_->HasEmptyFrame();
}

// Document C: packets of FIFO mode that are longer than those of the network
// are fragmented by the rules of IP, and put together by the receiver's IP
// layer.
template <typename Sink>
uint32_t RudSender::SendFragments(RudWindow& window, const RudPeer& peer,
                                  const rud::TxPacket& packet, uint16_t bytes,
                                  Sink& sink) {
  if (!Build(peer, packet, bytes, whole_.get())) {
    window.OnGatherFault(packet);
    ++counters_->placement_faults;
    return 0;
  }
  const wire::HeaderTemplate& headers = peer.path.headers;
  wire::FragmentWriter writer(headers, {whole_.get(), headers.size() + bytes},
                              network_->DrawIdentification(),
                              std::min(peer.path.mtu, tx_->link_mtu()));
  uint32_t count = 0;
  for (; !writer.done(); ++count) {
    if (!HasRoom()) {
      ++counters_->tx_fragments_lost;
      break;
    }
    rte_mbuf* const frame = tx_->TakeEmpty();
    const size_t size = writer.WriteNext(rte_pktmbuf_mtod(frame, uint8_t*));
    frame->data_len = static_cast<uint16_t>(size);
    frame->pkt_len = frame->data_len;
    if constexpr (Sink::kTraces) sink.OnRudSent(window, *frame);
    Push(peer, frame);
  }
  return count;
}

bool RudSender::Build(const RudPeer& peer, const rud::TxPacket& packet,
                      uint16_t bytes, uint8_t* start) {
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
  return true;
}

template <typename Sink>
uint32_t RudSender::Send(RudWindow& window, uint32_t room, Sink& sink) {
  const rud::Task::Use use(window.task());
  room = std::min({room, tx_->loop_room(), rud::kBurstMax});
  const uint32_t count = window.Transmit(std::span(slots_).first(room));
  uint32_t sent = 0;
  bool fragmented = false;
  for (const rud::TxPacket& packet : std::span(slots_).first(count)) {
    // Fragments may have taken the room of this packet.
    if (__builtin_expect(fragmented, 0) && !HasRoom()) {
      ++counters_->tx_fragments_lost;
      continue;
    }
    fragmented |= packet.payload_bytes > window.max_payload();
    sent += SendOne(window, packet, sink);
  }
  // The caller gives the rest of the room to others.
  return fragmented ? room : sent;
}

template uint32_t RudSender::Send(RudWindow&, uint32_t, FlowSink&);
template uint32_t RudSender::Send(RudWindow&, uint32_t, TracedSink&);

}  // namespace urnic
