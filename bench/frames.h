#pragma once

// Frames for the inner loops: an 8-byte write and a 4 KB write, as they are on
// the wire.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/wire/packet.h"

namespace urnic::bench {

inline wire::HeaderTemplate BenchHeaders() {
  wire::PathHeaders path;
  path.src_mac.bytes = {2, 0, 0, 0, 0, 1};
  path.dst_mac.bytes = {2, 0, 0, 0, 0, 2};
  path.src = wire::Gid::FromIpv4(0x0a000001);
  path.dst = wire::Gid::FromIpv4(0x0a000002);
  path.udp_src_port = 0xc123;
  return wire::HeaderTemplate(path);
}

// A separate frame buffer, aligned like a receive buffer.
struct alignas(64) Frame {
  std::array<uint8_t, 4608> bytes = {};
  uint32_t size = 0;

  std::span<const uint8_t> span() const { return {bytes.data(), size}; }
};

// RDMA write of `payload_bytes` in one packet.
inline void WriteOnlyFrame(uint32_t payload_bytes, uint64_t address,
                           uint32_t rkey, uint32_t qpn, Psn psn, Frame& frame) {
  const std::vector<uint8_t> payload(payload_bytes, 0x5a);
  wire::PacketFields fields;
  fields.opcode = static_cast<uint8_t>(wire::Opcode::kRcWriteOnly);
  fields.dest_qp = Qpn{qpn};
  fields.psn = psn;
  fields.virtual_address = address;
  fields.rkey = rkey;
  fields.dma_length = payload_bytes;
  fields.payload = payload;
  frame.size = static_cast<uint32_t>(
      wire::EmitFrame(BenchHeaders(), fields, frame.bytes));
}

}  // namespace urnic::bench
