#pragma once

// The items of a log of inputs (ras/inputs) for an RC queue pair, in addition
// to those of all transports (transport/work/inputs.h): the calls of its core,
// in order, and its path.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/cc/shared_path.h"
#include "transport/rc/qp.h"
#include "transport/work/inputs.h"
#include "transport/work/types.h"

namespace urnic::rc {

// The kinds of items, and their bodies. After the name: `small`, `medium`,
// `large`.
enum class Input : uint8_t {
  // --- What a call reads ---
  kPath = static_cast<uint8_t>(WorkInput::kOfTransport),  // PathNow: at the
                                                          // beginning
  kPathWords,  // WordNow, for each word of PathNow that others have changed
  kPacket,     // small: wire::Framing; large: bytes, BTH to payload, of which
               // the body has the first
  // --- Calls: CallNow ---
  kBurst,   // small: 1: packets from TakeDue()
  kMarked,  // the last packet
  kCnp,
  kTimer,
  kOutage,
  kTransmit,           // large: room
  kTransmitResponses,  // large: room
  kGatherFault,        // small: from_responder; large: origin
  kSettle,
  kGrant,        // large: packets
  kModify,       // small: the state; CallNow and QpConfig
  kReconfigure,  // CallNow and QpConfig
  kJoin,         // small: 1: a path
  kReplaySlots,  // large: how many
  // --- What came of it ---
  kSent,  // TxSlot's sizes, and its headers
};

// How many bytes of a packet with a payload are logged, because no code looks
// at the payload. (The bitmap of an acknowledgement is not a payload.)
inline constexpr uint32_t kPacketBytesKept = 64;

struct ConfigNow {
  CallNow call;
  QpConfig config;
};

// The path as words, so that a log only needs the changed ones. Without the
// counts for people, and without pointers.
struct PathNow {
  static constexpr size_t kPathWords = sizeof(cc::SharedPath) / 8;
  static constexpr size_t kRoomWords = sizeof(cc::PortRoom) / 8;
  static_assert(sizeof(cc::SharedPath) % 8 == 0 &&
                sizeof(cc::PortRoom) % 8 == 0);

  PathNow() = default;
  explicit PathNow(const cc::SharedPath& path) {
    std::memcpy(words, &path, sizeof(path));
    Clear(offsetof(cc::SharedPath, round_trips), sizeof(path.round_trips));
    Clear(offsetof(cc::SharedPath, port), sizeof(path.port));
    if (path.port == nullptr) return;
    std::memcpy(&words[kPathWords], path.port, sizeof(*path.port));
    words[kPathWords + kRoomWords] = 1;
  }
  // The counts of `path` stay as they are.
  void Restore(cc::SharedPath& path, cc::PortRoom& room) const {
    const cc::RoundTripCounts counts = path.round_trips;
    std::memcpy(static_cast<void*>(&path), words, sizeof(path));
    std::memcpy(static_cast<void*>(&room), &words[kPathWords], sizeof(room));
    path.round_trips = counts;
    path.port = words[kPathWords + kRoomWords] != 0 ? &room : nullptr;
  }

  uint64_t words[kPathWords + kRoomWords + 1] = {};  // the last: has a port

 private:
  void Clear(size_t offset, size_t bytes) {
    std::memset(reinterpret_cast<uint8_t*>(words) + offset, 0, bytes);
  }
};

struct WordNow {
  uint64_t index = 0;
  uint64_t value = 0;
};

struct SentNow {
  SentNow() = default;
  explicit SentNow(const TxSlot& slot)
      : payload_bytes(slot.payload_bytes),
        header_bytes(slot.header_bytes),
        pad_bytes(slot.pad_bytes),
        from_responder(slot.from_responder) {
    std::memcpy(headers, slot.headers, slot.header_bytes);
  }

  uint32_t payload_bytes = 0;
  uint16_t header_bytes = 0;
  uint8_t pad_bytes = 0;
  bool from_responder = false;
  uint8_t headers[kMaxHeaderBytes] = {};
};

inline constexpr uint32_t kInputLayout =
    InputLayout(2, {sizeof(cc::SharedPath), sizeof(cc::PortRoom),
                    sizeof(QpConfig), static_cast<size_t>(Input::kSent)});

}  // namespace urnic::rc
