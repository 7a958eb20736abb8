#pragma once

// Headers of DDP segments and of the RDMAP messages that they carry. A ULPDU of
// MPA is one DDP segment; the second byte of its header belongs to RDMAP.

#include <cstddef>
#include <cstdint>

#include "transport/wire/be.h"

namespace urnic::wire {

//= RFC 5041 4.1: the control byte of DDP has the bits T (tagged) and L (last),
//= and version 1
inline constexpr uint8_t kDdpTagged = 0x80;
inline constexpr uint8_t kDdpLast = 0x40;
inline constexpr uint8_t kDdpVersionMask = 0x03;
inline constexpr uint8_t kDdpVersion = 0x01;

//= RFC 5040 4.1: the control byte of RDMAP has version 1 in the top two bits
//= and the opcode in the low four
inline constexpr uint8_t kRdmapVersionMask = 0xc0;
inline constexpr uint8_t kRdmapVersion = 0x40;
inline constexpr uint8_t kRdmapOpcodeMask = 0x0f;

//= RFC 5040 4.1, RFC 7306 4.1: each RDMAP message has an opcode
enum class RdmapOpcode : uint8_t {
  kWrite = 0,
  kReadRequest = 1,
  kReadResponse = 2,
  kSend = 3,
  kSendInvalidate = 4,
  kSendSolicited = 5,
  kSendSolicitedInvalidate = 6,
  kTerminate = 7,
  kImmediate = 8,
  kImmediateSolicited = 9,
  kAtomicRequest = 10,
  kAtomicResponse = 11,
};
inline constexpr uint8_t kRdmapOpcodes = 12;

// The part that both kinds of segments have.
struct DdpControl {
  uint8_t ddp = kDdpVersion;
  uint8_t rdmap = kRdmapVersion;

  bool tagged() const { return (ddp & kDdpTagged) != 0; }
  bool last() const { return (ddp & kDdpLast) != 0; }
  uint8_t opcode() const { return rdmap & kRdmapOpcodeMask; }
  static DdpControl Make(bool tagged, bool last, RdmapOpcode opcode) {
    DdpControl control;
    control.ddp = static_cast<uint8_t>(kDdpVersion | (tagged ? kDdpTagged : 0) |
                                       (last ? kDdpLast : 0));
    control.rdmap =
        static_cast<uint8_t>(kRdmapVersion | static_cast<uint8_t>(opcode));
    return control;
  }
};
static_assert(sizeof(DdpControl) == 2);

//= RFC 5041 4.2: the format of the header of a tagged segment
struct DdpTagged {
  DdpControl control;
  Be<uint32_t> stag;
  Be<uint64_t> offset;  // the tagged offset: an address for verbs
};
static_assert(sizeof(DdpTagged) == 14 && alignof(DdpTagged) == 1);
static_assert(offsetof(DdpTagged, stag) == 2);

//= RFC 5041 4.3: the format of the header of an untagged segment
struct DdpUntagged {
  DdpControl control;
  //= RFC 5040 4.1: the field that DDP reserves for its user has the STag that a
  //= Send invalidates
  Be<uint32_t> invalidate_stag;
  Be<uint32_t> queue;
  Be<uint32_t> msn;  // message sequence number; the first is 1
  Be<uint32_t> offset;
};
static_assert(sizeof(DdpUntagged) == 18 && alignof(DdpUntagged) == 1);
static_assert(offsetof(DdpUntagged, queue) == 6);

//= RFC 5040 4.1, RFC 7306 10.2: untagged queues 0 to 3 carry sends, read
//= requests, Terminates and atomic responses
inline constexpr uint32_t kSendQueue = 0;         // and immediate data
inline constexpr uint32_t kReadRequestQueue = 1;  // and atomic requests
inline constexpr uint32_t kTerminateQueue = 2;
inline constexpr uint32_t kAtomicResponseQueue = 3;
inline constexpr uint32_t kUntaggedQueues = 4;

//= RFC 5040 4.4: the format of the payload of a read request
struct RdmapReadRequest {
  Be<uint32_t> sink_stag;
  Be<uint64_t> sink_offset;
  Be<uint32_t> bytes;
  Be<uint32_t> source_stag;
  Be<uint64_t> source_offset;
};
static_assert(sizeof(RdmapReadRequest) == 28);

//= RFC 7306 5.2.1: the format of the payload of an atomic request
struct RdmapAtomicRequest {
  Be<uint32_t> operation;  // the low 4 bits
  Be<uint32_t> request_id;
  Be<uint32_t> stag;
  Be<uint64_t> offset;
  Be<uint64_t> swap_or_add;
  Be<uint64_t> swap_or_add_mask;
  Be<uint64_t> compare;
  Be<uint64_t> compare_mask;
};
static_assert(sizeof(RdmapAtomicRequest) == 52);
//= RFC 7306 10.1: the codes of the atomic operations
inline constexpr uint32_t kAtomicOperationMask = 0x0f;
inline constexpr uint32_t kAtomicFetchAdd = 0;
inline constexpr uint32_t kAtomicSwap = 1;
inline constexpr uint32_t kAtomicCompareSwap = 2;

//= RFC 7306 5.2.2: the format of the payload of an atomic response
struct RdmapAtomicResponse {
  Be<uint32_t> request_id;
  Be<uint64_t> original;
};
static_assert(sizeof(RdmapAtomicResponse) == 12);

//= RFC 7306 6.2: the format of the payload of an immediate-data message
struct RdmapImmediate {
  uint8_t data[8] = {};
};
static_assert(sizeof(RdmapImmediate) == 8);

//= RFC 5040 4.8: the format of the first four bytes of a Terminate message's
//= payload
//
//  | layer (4) | etype (4) | error code (8) | M D R | reserved (13) |
struct RdmapTerminate {
  uint8_t layer_type = 0;
  uint8_t code = 0;
  uint8_t present = 0;
  uint8_t reserved = 0;

  static RdmapTerminate Make(uint8_t layer, uint8_t type, uint8_t code,
                             uint8_t present) {
    return {static_cast<uint8_t>(layer << 4 | type), code, present, 0};
  }
  uint8_t layer() const { return layer_type >> 4; }
  uint8_t type() const { return layer_type & 0x0f; }
};
static_assert(sizeof(RdmapTerminate) == 4);
//= RFC 5040 4.8: the bits M, D and R of a Terminate tell that the length of the
//= failed DDP segment, its DDP header and its RDMAP header follow
// They follow without gaps: 16 bits, 14 or 18 bytes, and 28 bytes.
inline constexpr uint8_t kTerminateHasLength = 0x80;
inline constexpr uint8_t kTerminateHasDdpHeader = 0x40;
inline constexpr uint8_t kTerminateHasRdmapHeader = 0x20;

}  // namespace urnic::wire
