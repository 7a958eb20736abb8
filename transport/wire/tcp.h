#pragma once

// TCP segments: the header, the options that we know, and a view of a received
// segment.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/seq_num.h"
#include "transport/wire/address.h"
#include "transport/wire/be.h"
#include "transport/wire/frame.h"

namespace urnic::wire {

//= RFC 9293 3.1: the format of the TCP header
//
//   0              15 16             31
//  |  source port    | destination port |
//  |          sequence number           |
//  |       acknowledgement number       |
//  |offs| rsv |flags |     window       |  offset in 32-bit words
//  |    checksum     | urgent pointer   |
struct Tcp {
  Be<uint16_t> src_port;
  Be<uint16_t> dst_port;
  Be<uint32_t> seq;
  Be<uint32_t> ack;
  uint8_t offset_reserved = 0x50;
  uint8_t flags = 0;
  Be<uint16_t> window;
  Be<uint16_t> checksum;
  Be<uint16_t> urgent;

  uint32_t header_bytes() const { return (offset_reserved >> 4) * 4u; }
};
static_assert(sizeof(Tcp) == 20 && alignof(Tcp) == 1);
static_assert(offsetof(Tcp, ack) == 8 && offsetof(Tcp, checksum) == 16);

inline constexpr uint8_t kTcpFin = 0x01;
inline constexpr uint8_t kTcpSyn = 0x02;
inline constexpr uint8_t kTcpRst = 0x04;
inline constexpr uint8_t kTcpPsh = 0x08;
inline constexpr uint8_t kTcpAck = 0x10;
inline constexpr uint8_t kTcpUrg = 0x20;
//= RFC 3168 6.1: TCP has the flags ECE (ECN-Echo) and CWR (Congestion Window
//= Reduced)
inline constexpr uint8_t kTcpEce = 0x40;
inline constexpr uint8_t kTcpCwr = 0x80;

inline constexpr uint32_t kTcpMaxOptionBytes = 40;
inline constexpr uint32_t kTcpMaxHeaderBytes = sizeof(Tcp) + kTcpMaxOptionBytes;
//= RFC 9293 3.7.1: if a peer does not state its MSS, it is 536 over IPv4 and
//= 1220 over IPv6
inline constexpr uint16_t kTcpDefaultMssIpv4 = 536;
inline constexpr uint16_t kTcpDefaultMssIpv6 = 1220;
//= RFC 7323 2.3: a shift count is at most 14
inline constexpr uint8_t kTcpMaxWindowShift = 14;

// Half-open: [begin, end).
struct SackBlock {
  SeqNum begin;
  SeqNum end;
  friend bool operator==(const SackBlock&, const SackBlock&) = default;
};
//= RFC 2018 3: 40 bytes of options have room for four SACK blocks
inline constexpr size_t kMaxSackBlocks = 4;

struct TcpTimestamps {
  uint32_t value = 0;
  uint32_t echo = 0;
  friend bool operator==(const TcpTimestamps&, const TcpTimestamps&) = default;
};

// The options of a segment. Those that only SYNs may have (MSS, window scale,
// SACK-permitted) are ignored in other segments by the receiver, not here. Of
// an option that is repeated, the last one counts.
struct TcpOptions {
  std::optional<uint16_t> mss;          // as stated; may be 0
  std::optional<uint8_t> window_shift;  // as stated; may exceed the maximum
  bool sack_permitted = false;
  std::optional<TcpTimestamps> timestamps;
  // The experimental option whose identifier is kUrnicExId: the sender is a
  // uRNIC and knows the promise of aligned segments.
  bool urnic = false;
  uint8_t sack_count = 0;
  std::array<SackBlock, kMaxSackBlocks> sack = {};

  std::span<const SackBlock> sacks() const { return {sack.data(), sack_count}; }
};

//= RFC 6994 3: experimental options share kinds 253 and 254, and each adds an
//= identifier
// Not registered: both ends that use it are ours.
inline constexpr uint16_t kUrnicExId = 0x7572;  // "ur"

// The fields of a segment, for both directions. Host byte order.
struct TcpFields {
  uint16_t src_port = 0;
  uint16_t dst_port = 0;
  SeqNum seq;
  SeqNum ack;  // meaningful with kTcpAck
  uint8_t flags = 0;
  uint16_t window = 0;  // not shifted
  uint16_t urgent = 0;
  TcpOptions options;

  bool Has(uint8_t flag) const { return (flags & flag) != 0; }
};

// A received segment.
struct TcpSegment : TcpFields {
  std::span<const uint8_t> payload;  // in the frame
  bool congestion_experienced = false;

  //= RFC 9293 3.4: SYN and FIN each occupy one sequence number
  uint32_t seq_bytes() const {
    return static_cast<uint32_t>(payload.size()) + Has(kTcpSyn) + Has(kTcpFin);
  }
  SeqNum end() const { return seq + seq_bytes(); }
};

// Parses a segment that ParseFrame() called kTcp. `checksum_verified`: the port
// has checked the TCP checksum and found it right.
//
// kAccept: `out` is set. kTruncated: no full header. kBadTcpHeader: the data
// offset is below 5 or beyond the segment. kBadTcpChecksum. kTcpUnfinished: it
// is wrong because a kernel has left it to an offload that did not run.
//= RFC 9293 3.2: options of unknown kind are skipped; an option with an
//= impossible length ends the list
// Such a list is not a reason to drop a segment: Linux does not either.
[[nodiscard]] RxVerdict ParseTcp(const FrameView& view, bool checksum_verified,
                                 TcpSegment& out);

// Bytes that WriteTcpHeader() writes for these options; a multiple of 4, at
// most kTcpMaxHeaderBytes. SACK blocks that do not fit behind the other options
// are not counted.
[[nodiscard]] uint32_t TcpHeaderBytes(const TcpOptions& options);

// Writes the header and its options, with a checksum of zero. `out` has
// TcpHeaderBytes(fields.options) bytes, which are returned.
uint32_t WriteTcpHeader(const TcpFields& fields, uint8_t* out);

// The checksum of a segment, pseudo header included: zero when `segment` holds
// a correct one. `segment` may be in two pieces; the first has an even number
// of bytes.
[[nodiscard]] uint16_t TcpChecksum(const Gid& src, const Gid& dst,
                                   std::span<const uint8_t> header,
                                   std::span<const uint8_t> payload);
// What a port that finishes checksums expects in the field: the sum of the
// pseudo header.
[[nodiscard]] uint16_t TcpPseudoSum(const Gid& src, const Gid& dst,
                                    size_t segment_bytes);

}  // namespace urnic::wire
