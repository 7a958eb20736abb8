#pragma once

// Packets for tests, one function per kind, with chained settings:
//
//   Write(Psn(200), address, key).Data(64).AckReq()
//
// A builder converts to a sealed Packet (tests/support/endpoint.h).

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/support/endpoint.h"
#include "transport/wire/packet.h"

namespace urnic::testing {

class PacketBuilder {
 public:
  PacketBuilder(wire::Opcode opcode, Psn psn) {
    fields_.opcode = static_cast<uint8_t>(opcode);
    fields_.psn = psn;
    fields_.dest_qp = Qpn{0x11};
  }

  PacketBuilder& AckReq() { return fields_.ack_requested = true, *this; }
  PacketBuilder& Solicited() { return fields_.solicited = true, *this; }
  PacketBuilder& At(uint64_t address, uint32_t key) {
    fields_.virtual_address = address;
    fields_.rkey = key;
    return *this;
  }
  // The length in the RETH. Without this call, Data() sets it.
  PacketBuilder& DmaLength(uint32_t bytes) {
    fields_.dma_length = bytes;
    return *this;
  }
  // `bytes` of payload: first, first + 1, ..
  PacketBuilder& Data(uint32_t bytes, uint8_t first = 0) {
    payload_.resize(bytes);
    for (uint32_t i = 0; i < bytes; ++i) {
      payload_[i] = static_cast<uint8_t>(first + i);
    }
    if (fields_.dma_length == 0) fields_.dma_length = bytes;
    return *this;
  }
  PacketBuilder& Immediate(uint32_t value) {
    std::memcpy(fields_.imm.data, &value, sizeof(value));
    return *this;
  }
  PacketBuilder& Syndrome(uint8_t syndrome, uint32_t msn = 0) {
    fields_.syndrome = syndrome;
    fields_.msn = msn;
    return *this;
  }
  PacketBuilder& Operands(uint64_t swap_or_add, uint64_t compare = 0) {
    fields_.swap_or_add = swap_or_add;
    fields_.compare = compare;
    return *this;
  }
  PacketBuilder& Original(uint64_t value) {
    return fields_.original_value = value, *this;
  }

  operator Packet() const {
    wire::PacketFields fields = fields_;
    fields.payload = payload_;
    return MakePacket(fields);
  }

 private:
  wire::PacketFields fields_;
  std::vector<uint8_t> payload_;
};

inline PacketBuilder Send(Psn psn) {
  return PacketBuilder(wire::Opcode::kRcSendOnly, psn);
}
inline PacketBuilder Write(Psn psn, uint64_t address, uint32_t key) {
  return PacketBuilder(wire::Opcode::kRcWriteOnly, psn).At(address, key);
}
inline PacketBuilder ReadRequest(Psn psn, uint64_t address, uint32_t key,
                                 uint32_t bytes) {
  return PacketBuilder(wire::Opcode::kRcReadRequest, psn)
      .At(address, key)
      .DmaLength(bytes);
}
inline PacketBuilder FetchAdd(Psn psn, uint64_t address, uint32_t key,
                              uint64_t add) {
  return PacketBuilder(wire::Opcode::kRcFetchAdd, psn)
      .At(address, key)
      .Operands(add);
}
inline PacketBuilder Ack(Psn psn) {
  return PacketBuilder(wire::Opcode::kRcAcknowledge, psn)
      .Syndrome(wire::kAethAck | wire::kAethCreditsInvalid);
}
inline PacketBuilder Nak(Psn psn, uint8_t syndrome) {
  return PacketBuilder(wire::Opcode::kRcAcknowledge, psn).Syndrome(syndrome);
}
inline PacketBuilder RnrNak(Psn psn, uint8_t timer_code) {
  return Nak(psn, wire::kAethRnrNak | timer_code);
}
inline PacketBuilder ReadResponse(wire::Opcode opcode, Psn psn) {
  return PacketBuilder(opcode, psn).Syndrome(wire::kAethCreditsInvalid);
}
inline PacketBuilder AtomicResponse(Psn psn, uint64_t original) {
  return PacketBuilder(wire::Opcode::kRcAtomicAcknowledge, psn)
      .Syndrome(wire::kAethCreditsInvalid)
      .Original(original);
}

}  // namespace urnic::testing
