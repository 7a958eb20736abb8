#pragma once

// Ethernet's frame check sequence, as far as a simulated wire that corrupts
// bytes needs one.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/sim/sim_port.h"

namespace urnic::sim {

// The bytes that only Ethernet's FCS protects: the headers before a RoCE
// packet, and all of any other frame.
inline size_t ProtectedBytes(const Frame& frame) {
  constexpr size_t kHeader = 14;
  constexpr uint8_t kUdp = 17;
  const bool ipv4 = frame[12] == 0x08 && frame[13] == 0x00;
  const bool ipv6 = frame[12] == 0x86 && frame[13] == 0xdd;
  const bool roce = (ipv4 && frame[kHeader + 9] == kUdp) ||
                    (ipv6 && frame[kHeader + 6] == kUdp);
  return roce ? kHeader : frame.size();
}
inline uint32_t FcsOf(const Frame& frame) {
  uint32_t sum = 0;
  for (size_t i = 0; i < ProtectedBytes(frame); ++i) {
    sum = (sum ^ frame[i]) * 16777619u;
  }
  return sum;
}
inline void AppendFcs(Frame& frame) {
  const uint32_t fcs = FcsOf(frame);
  frame.resize(frame.size() + sizeof(fcs));
  std::memcpy(&frame[frame.size() - sizeof(fcs)], &fcs, sizeof(fcs));
}
// False: the frame was damaged where no other check would detect it.
inline bool TakeFcs(Frame& frame) {
  uint32_t fcs;
  std::memcpy(&fcs, &frame[frame.size() - sizeof(fcs)], sizeof(fcs));
  frame.resize(frame.size() - sizeof(fcs));
  return FcsOf(frame) == fcs;
}

}  // namespace urnic::sim
