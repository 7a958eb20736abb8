#pragma once

// What each BTH opcode is and which headers follow it.

#include <array>
#include <cstdint>

namespace urnic::wire {

// The RC opcodes (top three bits 000). UC is 001, RD 010, UD 011, XRC 101.
enum class Opcode : uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImm = 0x09,
  kRcWriteOnly = 0x0a,
  kRcWriteOnlyImm = 0x0b,
  kRcReadRequest = 0x0c,
  kRcReadResponseFirst = 0x0d,
  kRcReadResponseMiddle = 0x0e,
  kRcReadResponseLast = 0x0f,
  kRcReadResponseOnly = 0x10,
  kRcAcknowledge = 0x11,
  kRcAtomicAcknowledge = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastInvalidate = 0x16,
  kRcSendOnlyInvalidate = 0x17,
  kRcFlush = 0x1c,
  kRcAtomicWrite = 0x1d,
  kUcSendFirst = 0x20,
  kUcSendMiddle = 0x21,
  kUcSendLast = 0x22,
  kUcSendLastImm = 0x23,
  kUcSendOnly = 0x24,
  kUcSendOnlyImm = 0x25,
  kUcWriteFirst = 0x26,
  kUcWriteMiddle = 0x27,
  kUcWriteLast = 0x28,
  kUcWriteLastImm = 0x29,
  kUcWriteOnly = 0x2a,
  kUcWriteOnlyImm = 0x2b,
  kXrcBase = 0xa0,  // + the opcode of RC
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
  kCnp = 0x81,
};

enum class Service : uint8_t { kNone, kRc, kUc, kRd, kUd, kXrc, kCnp };

// The role of a packet for its QP.
enum class PacketKind : uint8_t {
  kNone,  // not an opcode
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAck,
  kAtomicAck,
  kAtomic,
  kAtomicWrite,
  kFlush,
  kCnp,
};

// One row; 32 bytes, so that the hot path touches one cache line of it.
struct alignas(32) OpcodeInfo {
  // As the specification and tshark write it, without the service:
  // "RDMA WRITE Only". Null in a reserved row.
  const char* name = nullptr;
  // As packet scripts and transport/wire/pretty.h write it: "WRITE_ONLY".
  const char* token = nullptr;
  Service service = Service::kNone;
  PacketKind kind = PacketKind::kNone;
  bool first = false;  // starts a message (First, Only and single packets)
  bool last = false;   // ends a message
  bool has_deth = false;
  bool has_feth = false;
  bool has_reth = false;
  bool has_aeth = false;
  bool has_atomic_eth = false;
  bool has_atomic_ack_eth = false;
  bool has_imm = false;
  bool has_ieth = false;
  bool has_payload = false;
  bool has_xrceth = false;
  uint8_t header_bytes = 0;  // BTH and extended headers
  // Where the headers that depend on the operation begin: after the BTH, or
  // after the XRCETH.
  uint8_t extended_offset = 0;

  // False for reserved opcodes and for those of RD, which uRNIC does not
  // support: these have a name, for messages, and nothing else.
  constexpr bool valid() const { return kind != PacketKind::kNone; }
  // Sent to the responder, as opposed to the requester.
  constexpr bool request() const {
    return kind == PacketKind::kSend || kind == PacketKind::kWrite ||
           kind == PacketKind::kReadRequest || kind == PacketKind::kAtomic ||
           kind == PacketKind::kAtomicWrite || kind == PacketKind::kFlush;
  }
};

static_assert(sizeof(OpcodeInfo) == 32);

extern const std::array<OpcodeInfo, 256> kOpcodeTable;

inline const OpcodeInfo& InfoOf(uint8_t opcode) { return kOpcodeTable[opcode]; }

// "RC", "UC", ..; "reserved" for kNone.
const char* ServiceName(Service service);

}  // namespace urnic::wire
