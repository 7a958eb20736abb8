#pragma once

// Blocks of a pcapng file, which Wireshark reads. libpcap does not write this
// format, and DPDK's writer (22.11) has no comments. Pure.
// The blocks are those of section 4 of draft-ietf-opsawg-pcapng, in the byte
// order of this host.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace urnic::pcapng {

// Each function appends a block to `out`, which is empty or has whole blocks.

// The first block of a file. `application`: who writes it.
void AppendSection(std::string_view application, std::string& out);
// The next interface, numbered from 0: Ethernet, with times in nanoseconds.
void AppendInterface(std::string_view name, std::string_view description,
                     std::string& out);

struct Packet {
  int64_t at_ns = 0;  // since 1970
  bool outbound = false;
  uint32_t frame_bytes = 0;        // of the whole frame
  std::span<const uint8_t> bytes;  // its beginning, or all of it
  std::string_view comment;        // empty: none
};
// A packet of interface 0.
void AppendPacket(const Packet& packet, std::string& out);
// Sets the interface of all packets in `packets`, which AppendPacket() has
// made. Returns how many there are; none: `packets` is not made of whole
// packet blocks.
std::optional<size_t> SetInterface(uint32_t interface, std::string& packets);

}  // namespace urnic::pcapng
