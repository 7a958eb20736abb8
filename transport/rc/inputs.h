#pragma once

// What a log of inputs (ras/inputs) has of an RC queue pair: the calls of its
// core, in order. Before a call stand its arguments and what it will read
// elsewhere (requests, keys, the path); behind it, what came of it. The engine
// writes it (datapath/engine/rc_input_tap.h), and the simulator runs it again
// (tests/sim/replay.h).

#include <cstdint>

#include "transport/cc/shared_path.h"
#include "transport/mem/mr_table.h"
#include "transport/rc/qp.h"
#include "transport/work/types.h"

namespace urnic::rc {

// The kinds of items, and their bodies. After the name: `small`, `medium`,
// `large`.
enum class Input : uint8_t {
  // --- What a call reads ---
  kImage = 1,   // Image, rc/image.h: the beginning of a segment
  kPath,        // PathNow: others have changed it, too
  kKey,         // mem::MemoryRegion
  kKeyGone,     // large: the key
  kRequest,     // large: its index; the entry of the send ring
  kNoReceives,  // the following are all
  kReceive,     // the next entry of the receive ring
  kPacket,      // small: wire::Framing; large: bytes, BTH to payload, of which
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
  kVerdict,      // small: RxVerdict
  kFault,        // small: from_responder, medium: packet; the target
  kOriginal,     // the value that an atomic found
  kSent,         // TxSlot's sizes, and its headers
  kSendDone,     // SendCompletion
  kReceiveDone,  // RecvCompletion
  kResult,       // ResultNow: the end of the call
};

// The first bytes of a packet with a payload are enough: nothing looks at what
// it carries. (The bitmap of an acknowledgement is none.)
inline constexpr uint32_t kPacketBytesKept = 64;

struct CallNow {
  int64_t ns = 0;  // calls without a time: the last one
};

struct ConfigNow {
  CallNow call;
  QpConfig config;
};

struct PathNow {
  cc::SharedPath path;  // its pointer is not valid: the port is this one
  cc::PortRoom port;
  bool has_port = false;
};

struct SentNow {
  uint32_t payload_bytes = 0;
  uint16_t header_bytes = 0;
  uint8_t pad_bytes = 0;
  bool from_responder = false;
  uint8_t headers[kMaxHeaderBytes] = {};
};

struct ResultNow {
  int64_t deadline_ns = 0;   // of calls that return a FlowResult
  uint32_t sq_producer = 0;  // what the call saw of the send ring
  QpState state = QpState::kReset;
  QpEvent event = QpEvent::kNone;
};

// Of this build: what is written by another is not replayed.
inline constexpr uint32_t kInputLayout = sizeof(cc::SharedPath) |
                                         sizeof(QpConfig) << 10 |
                                         sizeof(mem::MemoryRegion) << 20;

}  // namespace urnic::rc
