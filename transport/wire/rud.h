#pragma once

// Packets of RUD, our transport over unreliable datagrams: headers, parsing,
// CRC. docs/design/0014-rud.md has the tables, and says why each field is
// there (document C, and where we differ). A packet is the payload of a UDP
// datagram to kRudUdpPort.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/wire/address.h"
#include "transport/wire/be.h"
#include "transport/wire/mpa.h"
#include "transport/wire/udp.h"

namespace urnic::wire {

inline constexpr uint8_t kRudVersion = 1;
inline constexpr uint32_t kRudCrcBytes = 4;
// Of one transfer: a context has a bit for each.
inline constexpr uint32_t kRudMaxPackets = 64;
inline constexpr uint32_t kRudMaxCompletions = 32;  // in one packet
inline constexpr uint32_t kRudMaxWrites = 64;       // in one packet

enum class RudType : uint8_t {
  kData = 1,
  kReadRequest = 2,
  kThirdReadRequest = 3,
  kThirdData = 4,
  kFifo = 5,
  kCompletion = 6,
  kNotice = 7,
  kStateRequest = 8,
};
inline constexpr uint8_t kRudTypes = 9;

// Flags.
inline constexpr uint8_t kRudToFifo = 1;  // the payload, at the target
inline constexpr uint8_t kRudAnswersRead = 2;
inline constexpr uint8_t kRudMarked = 4;  // what this answers, by ECN
inline constexpr uint8_t kRudList = 8;    // data: the payload is several writes
inline constexpr uint8_t kRudFlags = 15;

// Who wants to know that the transfer is complete.
inline constexpr uint8_t kRudNotifySource = 1;
inline constexpr uint8_t kRudNotifyTarget = 2;
inline constexpr uint8_t kRudNotifyThird = 4;
inline constexpr uint8_t kRudNotifications = 7;

// A window is the lower 24 bits of its field; the others are reserved.
inline constexpr uint32_t kRudWindowMask = 0xffffff;

struct RudBase {
  uint8_t version_type = 0;
  uint8_t flags = 0;
  uint8_t path = 0;
  uint8_t notify = 0;
  Be<uint32_t> job;
  Be<uint32_t> key;
  Be<uint32_t> window;
  Be<uint32_t> source_window;
  Be<uint16_t> payload_bytes;
  Be<uint16_t> reserved;

  uint8_t version() const { return version_type >> 4; }
  uint8_t type() const { return version_type & 0x0f; }
  uint32_t target_window() const { return window.value() & kRudWindowMask; }
  uint32_t sender_window() const {
    return source_window.value() & kRudWindowMask;
  }
  void SetType(RudType type) {
    version_type =
        static_cast<uint8_t>(kRudVersion << 4 | static_cast<uint8_t>(type));
  }
};
static_assert(sizeof(RudBase) == 24 && alignof(RudBase) == 1);
static_assert(offsetof(RudBase, job) == 4);
static_assert(offsetof(RudBase, payload_bytes) == 20);

// The number of a context (rCxt) and its key.
struct RudContext {
  Be<uint32_t> number;
  Be<uint32_t> key;
};
static_assert(sizeof(RudContext) == 8 && alignof(RudContext) == 1);

struct RudTransfer {
  RudContext context;  // at the receiver of this packet
  Be<uint64_t> tid;
};
static_assert(sizeof(RudTransfer) == 16);

struct RudData {
  Be<uint64_t> pvo;     // of the first byte of this packet
  Be<uint32_t> total;   // bytes of the transfer
  Be<uint32_t> offset;  // of this packet in the transfer
  Be<uint16_t> stride;  // bytes of a full packet
  uint8_t number = 0;   // of this packet, from 0
  uint8_t reserved = 0;
  RudContext source;
};
static_assert(sizeof(RudData) == 28 && alignof(RudData) == 1);
static_assert(offsetof(RudData, stride) == 16);
static_assert(offsetof(RudData, source) == 20);

struct RudRead {
  Be<uint64_t> source_pvo;  // at the receiver of the request
  Be<uint64_t> target_pvo;
  Be<uint32_t> total;
  Be<uint16_t> stride;
  Be<uint16_t> reserved;
  RudContext target;
  Be<uint64_t> packets;  // those wanted: a bit for each
};
static_assert(sizeof(RudRead) == 40 && alignof(RudRead) == 1);
static_assert(offsetof(RudRead, target) == 24);

struct RudThird {
  Gid address;
  Be<uint32_t> window;
  Be<uint32_t> reserved;
  RudContext context;  // of the third party

  uint32_t number() const { return window.value() & kRudWindowMask; }
};
static_assert(sizeof(RudThird) == 32 && alignof(RudThird) == 1);

// For the upper layer, which alone knows what it means.
struct RudTag {
  uint8_t bytes[16] = {};
};
static_assert(sizeof(RudTag) == 16);

enum class RudStatus : uint8_t {
  kComplete = 0,
};

struct RudCompletion {
  RudContext source;
  Be<uint64_t> tid;
  uint8_t status = 0;
  uint8_t path = 0;
  Be<uint16_t> reserved;
};
static_assert(sizeof(RudCompletion) == 20 && alignof(RudCompletion) == 1);

enum class RudReason : uint8_t {
  kState = 0,   // asked for by a state request
  kAccess = 1,  // memory that may not be accessed: the transfer has ended
};
inline constexpr uint8_t kRudReasons = 2;

struct RudNotice {
  RudContext sender;
  uint8_t reason = 0;
  uint8_t reserved[7] = {};
  Be<uint64_t> arrived;  // a bit for each packet
  Be<uint64_t> pvo;
};
static_assert(sizeof(RudNotice) == 32 && alignof(RudNotice) == 1);
static_assert(offsetof(RudNotice, arrived) == 16);

// Each write of a list: its bytes are behind this, and the next write is behind
// them.
struct RudListEntry {
  Be<uint64_t> pvo;
  Be<uint16_t> bytes;

  const uint8_t* data() const {
    return reinterpret_cast<const uint8_t*>(this + 1);
  }
  const RudListEntry& next() const {
    return *reinterpret_cast<const RudListEntry*>(data() + bytes.value());
  }
};
static_assert(sizeof(RudListEntry) == 10 && alignof(RudListEntry) == 1);

// The bytes of all headers of a type; 0: no such type.
constexpr uint32_t RudHeaderBytes(uint8_t type) {
  constexpr uint32_t kTransfer = sizeof(RudBase) + sizeof(RudTransfer);
  constexpr uint8_t kBytes[kRudTypes] = {
      0,
      kTransfer + sizeof(RudData),
      kTransfer + sizeof(RudRead),
      kTransfer + sizeof(RudRead) + sizeof(RudThird),
      kTransfer + sizeof(RudData) + sizeof(RudThird),
      sizeof(RudBase) + sizeof(RudTag),
      sizeof(RudBase),
      kTransfer + sizeof(RudNotice),
      kTransfer + sizeof(RudContext),
  };
  return type < kRudTypes ? kBytes[type] : 0;
}
inline constexpr uint32_t kRudMaxHeaderBytes =
    RudHeaderBytes(static_cast<uint8_t>(RudType::kThirdReadRequest));

// How many packets a transfer has; a transfer without bytes has one.
// REQUIRES: stride != 0.
constexpr uint32_t RudPackets(uint32_t total, uint32_t stride) {
  return total <= stride ? 1 : (total - 1) / stride + 1;
}
// A bit for each packet. REQUIRES: 1 to kRudMaxPackets.
constexpr uint64_t RudAllPackets(uint32_t packets) {
  return ~uint64_t{0} >> (kRudMaxPackets - packets);
}
// Whether these are packets of the transfer, at least one.
constexpr bool RudPacketsFit(uint64_t packets, uint32_t total,
                             uint32_t stride) {
  if (stride == 0) return false;
  const uint32_t count = RudPackets(total, stride);
  return count <= kRudMaxPackets && packets != 0 &&
         (packets & ~RudAllPackets(count)) == 0;
}
// The payload of a packet. REQUIRES: it is one of the transfer.
constexpr uint32_t RudPayloadOf(uint32_t total, uint32_t stride,
                                uint32_t number) {
  return std::min(stride, total - number * stride);
}

// Pointers into the received frame, valid as long as the frame is. ParseRud()
// has checked all lengths.
struct RudPacket {
  const RudBase* base = nullptr;
  RudType type = {};
  const uint8_t* payload = nullptr;
  uint32_t payload_bytes = 0;

  // REQUIRES: a type that has it.
  const RudTransfer& transfer() const { return After<RudTransfer>(0); }
  const RudData& data() const { return After<RudData>(sizeof(RudTransfer)); }
  const RudRead& read() const { return After<RudRead>(sizeof(RudTransfer)); }
  const RudNotice& notice() const {
    return After<RudNotice>(sizeof(RudTransfer));
  }
  const RudContext& asker() const {
    return After<RudContext>(sizeof(RudTransfer));
  }
  const RudThird& third() const {
    return After<RudThird>(sizeof(RudTransfer) + (type == RudType::kThirdData
                                                      ? sizeof(RudData)
                                                      : sizeof(RudRead)));
  }
  const RudTag& tag() const { return After<RudTag>(0); }
  // REQUIRES: kData
  bool is_list() const { return (base->flags & kRudList) != 0; }
  const RudListEntry& first_write() const {
    return *reinterpret_cast<const RudListEntry*>(payload);
  }
  uint32_t completions() const {
    return payload_bytes / uint32_t{sizeof(RudCompletion)};
  }
  const RudCompletion& completion(uint32_t i) const {
    return reinterpret_cast<const RudCompletion*>(payload)[i];
  }

 private:
  template <typename H>
  const H& After(size_t offset) const {
    return *reinterpret_cast<const H*>(reinterpret_cast<const uint8_t*>(base) +
                                       sizeof(RudBase) + offset);
  }
};

// Whether the fields of a data packet fit together. Offset, number and stride
// say the same twice: a packet that contradicts itself must not be placed.
constexpr bool RudDataFits(uint32_t total, uint32_t offset, uint32_t stride,
                           uint32_t number, uint32_t payload_bytes) {
  if (stride == 0 || number >= kRudMaxPackets) return false;
  if (offset != number * stride || offset > total) return false;
  if (offset == total && number != 0) return false;
  if (RudPackets(total, stride) > kRudMaxPackets) return false;
  return payload_bytes == RudPayloadOf(total, stride, number);
}

// Whether the writes of a list end with it.
[[nodiscard]] bool RudListFits(std::span<const uint8_t> list);

// Parses `bytes` .. `bytes + length`, the payload of a UDP datagram with the
// CRC, which RudCrcHolds() verifies. Checks version, type, flags, lengths, and
// that the fields of a packet fit together. With a verdict other than kAccept,
// `out` is unspecified.
[[nodiscard]] RxVerdict ParseRud(const uint8_t* bytes, uint32_t length,
                                 RudPacket& out);

// The CRC of the addresses, which a path computes once.
Crc32c RudCrcOfAddresses(const Gid& source, const Gid& target);
// `packet`: from the base header to the CRC. REQUIRES: it has a CRC.
[[nodiscard]] inline bool RudCrcHolds(Crc32c addresses,
                                      std::span<const uint8_t> packet) {
  const size_t bytes = packet.size() - kRudCrcBytes;
  return addresses.Add(packet.first(bytes)).Matches(&packet[bytes]);
}

}  // namespace urnic::wire
