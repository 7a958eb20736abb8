#pragma once

// Writes the headers of a data packet. Nearly all packets are data packets.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/rud/context_pool.h"
#include "transport/rud/types.h"
#include "transport/wire/rud.h"

namespace urnic::rud {

// The contents of the headers, except for the number of the packet.
struct DataFields {
  wire::RudType type = wire::RudType::kData;  // or kThirdData
  uint8_t flags = 0;
  uint8_t path = 0;
  uint8_t notify = 0;
  uint32_t job = 0;
  uint32_t window = 0;  // where it goes
  uint32_t source_window = 0;
  ContextId to;
  ContextId from;
  uint64_t tid = 0;
  uint64_t pvo = 0;  // of the transfer
  uint32_t total = 0;
  uint16_t stride = 0;
};

inline constexpr size_t kDataHeaderBytes =
    sizeof(wire::RudBase) + sizeof(wire::RudTransfer) + sizeof(wire::RudData);

// Writes the headers of packet `number`, sets the lengths in `out`, and returns
// the offset of the payload in the transfer. Stores whole words: the code that
// hashes and copies the headers next reads words, and a load waits for stores
// that each wrote a part of its word (8 % of the time of an 8-byte write).
[[gnu::always_inline]] inline uint32_t WriteDataHeaders(
    TxPacket& out, const DataFields& fields, uint8_t number) {
  const uint32_t offset = uint32_t{number} * fields.stride;
  out.payload_bytes = wire::RudPayloadOf(fields.total, fields.stride, number);
  out.header_bytes = kDataHeaderBytes;
  // Two fields of the packet in one word.
  const auto pair = [](uint32_t first, uint32_t second) {
    return uint64_t{__builtin_bswap32(second)} << 32 | __builtin_bswap32(first);
  };
  uint8_t* to = out.headers;
  const auto store = [&to](auto word) {
    std::memcpy(to, &word, sizeof(word));
    to += sizeof(word);
  };
  const auto type = static_cast<uint8_t>(fields.type);
  static_assert(offsetof(wire::RudBase, notify) == 3 &&
                offsetof(wire::RudBase, job) == 4);
  store(pair((uint32_t{wire::kRudVersion} << 4 | type) << 24 |
                 uint32_t{fields.flags} << 16 | uint32_t{fields.path} << 8 |
                 fields.notify,
             fields.job));
  static_assert(offsetof(wire::RudBase, key) == 8);
  store(pair(0, fields.window));
  static_assert(offsetof(wire::RudBase, source_window) == 16 &&
                offsetof(wire::RudBase, payload_bytes) == 20);
  store(pair(fields.source_window, out.payload_bytes << 16));
  store(pair(fields.to.number, fields.to.key));
  store(__builtin_bswap64(fields.tid));
  store(__builtin_bswap64(fields.pvo + offset));
  static_assert(offsetof(wire::RudData, total) == 8);
  store(pair(fields.total, offset));
  static_assert(offsetof(wire::RudData, stride) == 16 &&
                offsetof(wire::RudData, number) == 18 &&
                offsetof(wire::RudData, source) == 20);
  store(pair(uint32_t{fields.stride} << 16 | uint32_t{number} << 8,
             fields.from.number));
  store(__builtin_bswap32(fields.from.key));
  return offset;
}

}  // namespace urnic::rud
