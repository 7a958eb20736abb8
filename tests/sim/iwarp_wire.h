#pragma once

// Segments of TCP as bytes on a simulated wire, and the rules of a stream that
// need only its segments:
//
//   - a byte at a sequence number never changes, and nothing follows the FIN;
//   - an acknowledgement covers only what has arrived, also a selective one;
//   - nothing is sent beyond the window, and the window's edge never moves
//   back;
//   - every FPDU of the stream is well formed: its length, markers and CRC.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "tests/sim/link.h"
#include "tests/sim/world.h"
#include "transport/wire/mpa.h"
#include "transport/wire/tcp.h"

namespace urnic::sim {

// On the wire: kWireHead bytes, the header and the payload of TCP, and two
// check sequences, as Ethernet has one: of all before the payload, and of the
// payload. So the simulator knows which part a faulty link has damaged.
namespace iwarp_wire {

inline constexpr size_t kWireHead = 2;  // ECT, and the length of TCP's header
inline constexpr size_t kWireTail = 2 * wire::kFpduCrcBytes;

inline wire::Gid AddressOf(int end) {
  return wire::Gid::FromIpv4(0x0a000001u + static_cast<uint32_t>(end));
}

// A segment of end `from`.
inline Link::Packet Encode(int from, const wire::TcpFields& fields,
                           std::span<const uint8_t> payload, bool ect) {
  const uint32_t header_bytes = wire::TcpHeaderBytes(fields.options);
  const size_t data_at = kWireHead + header_bytes;
  Link::Packet packet(data_at + payload.size() + kWireTail);
  packet[0] = ect ? 1 : 0;
  packet[1] = static_cast<uint8_t>(header_bytes);
  wire::WriteTcpHeader(fields, &packet[kWireHead]);
  const std::span header(&packet[kWireHead], header_bytes);
  const wire::Be<uint16_t> sum(
      wire::TcpChecksum(AddressOf(from), AddressOf(1 - from), header, payload));
  std::memcpy(&packet[kWireHead + offsetof(wire::Tcp, checksum)], &sum,
              sizeof(sum));
  std::ranges::copy(payload, packet.begin() + static_cast<long>(data_at));
  wire::Crc32c()
      .Add(std::span(packet).first(data_at))
      .Store(&packet[packet.size() - kWireTail]);
  wire::Crc32c().Add(payload).Store(
      &packet[packet.size() - wire::kFpduCrcBytes]);
  return packet;
}

enum class Damage : uint8_t { kNone, kPayload, kHead };

inline Damage DamageOf(std::span<const uint8_t> packet) {
  const size_t data_at = kWireHead + packet[1];
  if (data_at + kWireTail > packet.size()) return Damage::kHead;
  const uint8_t* tail = packet.data() + packet.size() - kWireTail;
  if (!wire::Crc32c().Add(packet.first(data_at)).Matches(tail)) {
    return Damage::kHead;
  }
  const auto payload =
      packet.subspan(data_at, packet.size() - data_at - kWireTail);
  return wire::Crc32c().Add(payload).Matches(tail + wire::kFpduCrcBytes)
             ? Damage::kNone
             : Damage::kPayload;
}

// REQUIRES: its head is not damaged. A damaged payload comes with the right
// checksum, as if a switch had damaged it in its memory. `marked`: congestion
// experienced, if the segment allows it.
inline wire::TcpSegment Decode(int from, std::span<const uint8_t> packet,
                               Damage damage, bool marked) {
  wire::FrameView view;
  view.src = AddressOf(from);
  view.dst = AddressOf(1 - from);
  view.payload = packet.data() + kWireHead;
  view.payload_bytes =
      static_cast<uint32_t>(packet.size() - kWireHead - kWireTail);
  wire::TcpSegment segment;
  const RxVerdict verdict =
      wire::ParseTcp(view, damage == Damage::kPayload, segment);
  Require(verdict == RxVerdict::kAccept, "a good segment is not understood");
  segment.congestion_experienced = marked && packet[0] != 0;
  return segment;
}

// All FPDUs of a stream, MPA frame included. `whole`: it ends behind an FPDU.
// A marker is due every 512 bytes. Between two FPDUs it says zero, elsewhere
// the distance from the length field.
inline void CheckFpdus(std::span<const uint8_t> stream, bool crc, bool markers,
                       bool whole) {
  constexpr size_t kFrameBytes = 20;
  if (stream.size() < kFrameBytes) return;
  const size_t private_bytes = size_t{stream[18]} << 8 | stream[19];
  stream = stream.subspan(std::min(stream.size(), kFrameBytes + private_bytes));
  size_t at = 0;
  const auto skip_marker = [&](std::optional<size_t> length_at) {
    if (!markers || at % wire::kMarkerSpacing != 0) return;
    if (at + 4 > stream.size()) return;
    const size_t says = size_t{stream[at + 2]} << 8 | stream[at + 3];
    Require(says == (length_at ? at - *length_at : 0), "a marker is wrong");
    at += 4;
  };
  while (at < stream.size()) {
    const size_t begin = at;
    skip_marker({});
    const size_t length_at = at;
    size_t left = 2;
    for (size_t i = 0; i < left && at < stream.size(); ++i, ++at) {
      if (i != 0) skip_marker(length_at);
      if (at >= stream.size()) break;
      if (i == 1) {
        const size_t ulpdu = size_t{stream[at - 1]} << 8 | stream[at];
        left = (2 + ulpdu + 3) / 4 * 4;
      }
    }
    skip_marker(length_at);
    if (at + wire::kFpduCrcBytes > stream.size()) {
      Require(!whole, "the stream ends within an FPDU");
      return;
    }
    const auto covered = stream.subspan(begin, at - begin);
    const uint8_t* field = stream.data() + at;
    constexpr uint8_t kNoCrc[wire::kFpduCrcBytes] = {};
    Require(crc ? wire::Crc32c().Add(covered).Matches(field)
                : std::equal(kNoCrc, std::end(kNoCrc), field),
            "the CRC of an FPDU is wrong");
    at += wire::kFpduCrcBytes;
  }
}

}  // namespace iwarp_wire

// One direction of one connection.
class StreamRule {
 public:
  // A listener has agreed: of its SYN-ACKs, this one counts.
  void Start(SeqNum iss) { first_ = iss + 1; }
  // The sender of the stream sends a segment.
  void OnSent(const wire::TcpFields& fields, std::span<const uint8_t> payload) {
    if (fields.Has(wire::kTcpRst)) return;
    if (fields.Has(wire::kTcpSyn)) {
      first_ = fields.seq + 1;
      sender_shift_ = fields.options.window_shift;
      return;
    }
    const bool fin = fields.Has(wire::kTcpFin);
    if (payload.empty() && !fin) return;
    const uint32_t at = Position(fields.seq);
    const auto end = static_cast<uint32_t>(at + payload.size());
    Require(at <= bytes_.size(), "the stream has a gap");
    Require(end + fin <= edge_, "more is sent than the window allows");
    Require(!fin_at_ || (fin ? end == *fin_at_ : end <= *fin_at_),
            "the end of the stream moves");
    const auto old =
        static_cast<long>(std::min<size_t>(payload.size(), bytes_.size() - at));
    Require(
        std::equal(payload.begin(), payload.begin() + old, bytes_.begin() + at),
        "a byte of the stream has changed");
    bytes_.insert(bytes_.end(), payload.begin() + old, payload.end());
    if (fin) fin_at_ = end;
  }
  // The receiver of the stream gets the segment.
  void OnArrived(const wire::TcpSegment& segment) {
    if (segment.Has(wire::kTcpRst | wire::kTcpSyn)) return;
    const uint32_t at = Position(segment.seq);
    const auto bytes = static_cast<uint32_t>(segment.payload.size());
    if (bytes != 0) AddArrived(at, at + bytes);
    if (segment.Has(wire::kTcpFin)) fin_arrived_ = true;
  }
  // The receiver of the stream sends a segment.
  void OnAckSent(const wire::TcpFields& fields) {
    if (fields.Has(wire::kTcpRst)) return;
    const bool syn = fields.Has(wire::kTcpSyn);
    if (syn) receiver_shift_ = fields.options.window_shift;
    if (!fields.Has(wire::kTcpAck)) return;
    const uint32_t ack = Position(fields.ack);
    const uint32_t there = Contiguous();
    const bool with_fin = fin_arrived_ && fin_at_ == there;
    Require(ack <= there + with_fin, "what has not arrived is acknowledged");
    for (const wire::SackBlock& block : fields.options.sacks()) {
      Require(HasArrived(Position(block.begin), Position(block.end)),
              "what has not arrived is acknowledged selectively");
    }
    const uint32_t edge = Edge(ack, fields, syn);
    Require(edge >= offered_, "the edge of the window moves back");
    offered_ = edge;
  }
  // The sender of the stream gets the segment.
  void OnAckArrived(const wire::TcpSegment& segment) {
    if (segment.Has(wire::kTcpRst)) return;
    const bool syn = segment.Has(wire::kTcpSyn);
    const uint32_t ack = segment.Has(wire::kTcpAck) ? Position(segment.ack) : 0;
    edge_ = std::max(edge_, Edge(ack, segment, syn));
  }

  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  uint32_t Position(SeqNum seq) const {
    return static_cast<uint32_t>(seq - first_);
  }
  uint32_t Edge(uint32_t ack, const wire::TcpFields& fields, bool syn) const {
    const bool scaled = !syn && sender_shift_ && receiver_shift_;
    return ack + (uint32_t{fields.window} << (scaled ? *receiver_shift_ : 0));
  }
  // How much has arrived from the beginning on.
  uint32_t Contiguous() const {
    const auto first = arrived_.begin();
    return first == arrived_.end() || first->first != 0 ? 0 : first->second;
  }
  bool HasArrived(uint32_t begin, uint32_t end) const {
    auto at = arrived_.upper_bound(begin);
    return at != arrived_.begin() && (--at)->second >= end;
  }
  void AddArrived(uint32_t begin, uint32_t end) {
    auto at = arrived_.lower_bound(begin);
    if (at != arrived_.begin() && std::prev(at)->second >= begin) --at;
    while (at != arrived_.end() && at->first <= end) {
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
      at = arrived_.erase(at);
    }
    arrived_[begin] = end;
  }

  SeqNum first_;  // behind the SYN
  std::vector<uint8_t> bytes_;
  std::optional<uint32_t> fin_at_;
  std::optional<uint8_t> sender_shift_;
  std::optional<uint8_t> receiver_shift_;
  uint32_t edge_ = 0;                     // that the sender knows
  uint32_t offered_ = 0;                  // that the receiver has offered
  std::map<uint32_t, uint32_t> arrived_;  // begin to end
  bool fin_arrived_ = false;
};

}  // namespace urnic::sim
