#pragma once

// GoogleMock matchers for packets (tests/support/endpoint.h) and completions.

#include <gmock/gmock.h>

#include <ostream>

#include "tests/support/endpoint.h"
#include "transport/wire/packet.h"

namespace urnic::testing {

// How GoogleTest shows a packet.
inline void PrintTo(const Packet& packet, std::ostream* out) {
  *out << Describe(packet);
}
inline void PrintTo(const Completion& c, std::ostream* out) {
  *out << (c.recv ? "recv" : "send") << " wr_id " << c.wr_id << " status "
       << static_cast<int>(c.status) << " bytes " << c.byte_len;
}

inline wire::PacketFields FieldsOfPacket(const Packet& packet) {
  wire::RocePacket parsed;
  if (wire::ParseRoce(packet.data(), static_cast<uint32_t>(packet.size()),
                      parsed) != RxVerdict::kAccept) {
    wire::PacketFields none;
    none.opcode = 0xff;
    return none;
  }
  return wire::FieldsOf(parsed);
}

MATCHER_P2(IsOpcode, opcode, psn, "") {
  const wire::PacketFields f = FieldsOfPacket(arg);
  *result_listener << Describe(arg);
  return f.opcode == static_cast<uint8_t>(opcode) && f.psn == psn;
}
// A positive acknowledgement with this PSN; credits are always 31.
MATCHER_P(IsAck, psn, "") {
  const wire::PacketFields f = FieldsOfPacket(arg);
  *result_listener << Describe(arg);
  return f.opcode == static_cast<uint8_t>(wire::Opcode::kRcAcknowledge) &&
         f.psn == psn && f.syndrome == wire::kAethCreditsInvalid;
}
MATCHER_P2(IsNak, psn, syndrome, "") {
  const wire::PacketFields f = FieldsOfPacket(arg);
  *result_listener << Describe(arg);
  return f.opcode == static_cast<uint8_t>(wire::Opcode::kRcAcknowledge) &&
         f.psn == psn && f.syndrome == syndrome;
}
MATCHER(AsksForAck, "") {
  *result_listener << Describe(arg);
  return FieldsOfPacket(arg).ack_requested;
}
// A read request for what is left: address and length.
MATCHER_P2(ReadsFrom, address, bytes, "") {
  const wire::PacketFields f = FieldsOfPacket(arg);
  *result_listener << Describe(arg);
  return f.virtual_address == address &&
         f.dma_length == static_cast<uint32_t>(bytes);
}

MATCHER_P2(IsDone, wr_id, status, "") {
  return arg.wr_id == static_cast<uint64_t>(wr_id) && arg.status == status;
}

}  // namespace urnic::testing
