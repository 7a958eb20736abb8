#pragma once

// A packet as a script writes it: "WRITE_ONLY psn 100 ackreq to a+16 len 64".

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "tests/scripts/words.h"
#include "tests/support/endpoint.h"
#include "transport/wire/packet.h"

namespace urnic::scripts {

// A place in memory: "a+16" in a region of ours, or "0x1000" at the peer.
struct Place {
  uint64_t address = 0;
  uint32_t key = 0;
  size_t offset = 0;
  bool is_region = false;
};
using ResolvePlace = std::function<bool(const std::string& word, Place& out)>;

struct PacketText {
  wire::PacketFields fields;
  std::set<std::string> said;  // the words that were given
  uint32_t len = 0;            // payload
  uint8_t data = 0;            // its first byte; each next one is larger by 1
  uint32_t held = 0;    // the bitmap behind an AETH, its first byte first
  bool marked = false;  // arrived with "congestion experienced"
};

// Byte `i` of a message whose data is `first`.
inline uint8_t PatternByte(uint8_t first, size_t i) {
  return static_cast<uint8_t>(first + i);
}

// Takes all words. Returns "" or an error message.
std::string ParsePacketText(Words& words, const ResolvePlace& resolve,
                            PacketText& out);

// The packet that `text` describes, sealed.
testing::Packet BuildPacket(const PacketText& text);

// How `got` differs from `want`; "" if it does not. Only the words that were
// given are compared, with four exceptions: AckReq must be set exactly if
// given, MigReq must be set and BECN clear (in a CNP the other way round),
// credits must be 31, and padding must be zero.
std::string Mismatch(const PacketText& want, const testing::Packet& got);

}  // namespace urnic::scripts
