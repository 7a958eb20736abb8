#pragma once

// Turns packets of RUD windows into frames, for the port or for ourselves. The
// counterpart of RudReceiver. Token holder only; inline, for the loop that
// includes it.

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>

#include "datapath/engine/rud_window.h"
#include "datapath/engine/transmit_queue.h"
#include "datapath/memory/address_space.h"
#include "transport/wire/rud.h"

namespace urnic {

class RudSender {
 public:
  // All outlive the sender.
  RudSender(TransmitQueue* tx, AddressSpace* memory, EngineCounters* counters)
      : tx_(tx), memory_(memory), counters_(counters) {
    for (uint32_t i = 0; i < rud::kBurstMax; ++i)
      slots_[i].headers = headers_[i];
  }
  RudSender(const RudSender&) = delete;
  RudSender& operator=(const RudSender&) = delete;

  // Any packet may go to ourselves.
  bool IsBlocked() const { return tx_->loop_room() == 0; }

  // Sends up to `room` packets; returns how many frames were made. The caller
  // settles the window. `sink`: that of the burst. REQUIRES: room <=
  // tx->empty_frames(), and the port accepts as many.
  template <typename Sink>
  uint32_t Send(RudWindow& window, uint32_t room, Sink& sink) {
    room = std::min({room, tx_->loop_room(), rud::kBurstMax});
    const uint32_t count = window.Transmit(std::span(slots_).first(room));
    uint32_t sent = 0;
    for (const rud::TxPacket& packet : std::span(slots_).first(count))
      sent += SendOne(window, packet, sink) ? 1 : 0;
    return sent;
  }

 private:
  // Payloads from this size on are hashed while they are copied.
  static constexpr uint32_t kHashOnTheWay = 512;

  template <typename Sink>
  bool SendOne(RudWindow& window, const rud::TxPacket& packet, Sink& sink) {
    RudPeer* const peer = window.FindPeer(packet.peer);
    const uint32_t bytes =
        packet.header_bytes + packet.payload_bytes + wire::kRudCrcBytes;
    if (peer == nullptr || peer->path.source_gone) {
      ++counters_->tx_source_gone;
      return false;
    }
    if (!peer->path.IsCurrent()) peer->path.Restamp();
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
    } else {
      tx_->Push(frame);
    }
    return true;
  }

  // False: the payload's memory is not mapped.
  bool Build(const RudPeer& peer, const rud::TxPacket& packet, uint16_t bytes,
             rte_mbuf* frame) {
    uint8_t* const start = rte_pktmbuf_mtod(frame, uint8_t*);
    const wire::HeaderTemplate& headers = peer.path.headers;
    headers.Write(start, bytes);
    uint8_t* at = start + headers.size();
    WritePorts(at - sizeof(wire::Udp), packet.path);
    std::memcpy(at, packet.headers, packet.header_bytes);
    wire::Crc32c crc = peer.sent;
    crc.Add({at, packet.header_bytes});
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

  // The source port is the path: a network with several hashes it.
  static void WritePorts(uint8_t* udp, uint8_t path) {
    constexpr uint16_t kFirst = 0xc000;
    auto& ports = *reinterpret_cast<wire::Udp*>(udp);
    const auto source = static_cast<uint16_t>(
        kFirst | ((ports.src_port.value() + path) & 0x3fff));
    ports.src_port = wire::Be<uint16_t>(source);
    ports.dst_port = wire::Be<uint16_t>(wire::kRudUdpPort);
  }

  TransmitQueue* const tx_;
  AddressSpace* const memory_;
  EngineCounters* const counters_;
  rud::TxPacket slots_[rud::kBurstMax];
  uint8_t headers_[rud::kBurstMax][rud::kMaxHeaderBytes];
};

}  // namespace urnic
