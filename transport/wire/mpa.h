#pragma once

// MPA: the frames that set a connection up, and the frame around each DDP
// segment (FPDU).

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "transport/wire/be.h"
#include "transport/wire/crc_fold.h"

namespace urnic::wire {

//= RFC 5044 7.1.1: the format of the MPA request and reply frames
//
//  |     key, 16 bytes of text      |
//  |M|C|R|S|resv| rev | PD_Length   |  M markers, C CRC, R reject,
//  |        private data            |  S enhanced set-up
struct MpaFrame {
  uint8_t key[16] = {};
  uint8_t flags = 0;
  uint8_t revision = 0;
  Be<uint16_t> private_data_bytes;

  static constexpr char kRequestKey[] = "MPA ID Req Frame";
  static constexpr char kReplyKey[] = "MPA ID Rep Frame";
  static MpaFrame Request() { return WithKey(kRequestKey); }
  static MpaFrame Reply() { return WithKey(kReplyKey); }
  bool is_request() const { return HasKey(kRequestKey); }
  bool is_reply() const { return HasKey(kReplyKey); }

 private:
  static MpaFrame WithKey(const char* key) {
    MpaFrame frame;
    std::memcpy(frame.key, key, sizeof(frame.key));
    return frame;
  }
  bool HasKey(const char* wanted) const {
    return std::memcmp(key, wanted, sizeof(key)) == 0;
  }
};
static_assert(sizeof(MpaFrame) == 20 && alignof(MpaFrame) == 1);
static_assert(offsetof(MpaFrame, private_data_bytes) == 18);
static_assert(sizeof(MpaFrame::kRequestKey) == sizeof(MpaFrame::key) + 1);

inline constexpr uint8_t kMpaMarkers = 0x80;
inline constexpr uint8_t kMpaCrc = 0x40;
inline constexpr uint8_t kMpaReject = 0x20;
//= RFC 6581 6: if bit S is set, the private data begins with MpaEnhanced
// Only in revision 2; reserved in revision 1.
inline constexpr uint8_t kMpaEnhancedSetup = 0x10;
//= RFC 5044 7.1.1: a frame carries at most 512 bytes of private data
inline constexpr uint32_t kMpaMaxPrivateData = 512;

//= RFC 6581 9: the format of the enhanced set-up data: IRD and ORD of 14 bits
//= each, and the control flags
//
//  |A|B|    IRD    |C|D|    ORD    |
struct MpaEnhanced {
  Be<uint16_t> ird_flags;
  Be<uint16_t> ord_flags;

  static constexpr uint16_t kPeerToPeer = 0x8000;   // A, in ird_flags
  static constexpr uint16_t kRtrZeroFpdu = 0x4000;  // B, in ird_flags
  static constexpr uint16_t kRtrWrite = 0x8000;     // C, in ord_flags
  static constexpr uint16_t kRtrRead = 0x4000;      // D, in ord_flags
  static constexpr uint16_t kDepthMask = 0x3fff;
  //= RFC 6581 9.1: a depth of 0x3fff is not negotiated by MPA
  static constexpr uint16_t kDepthNotNegotiated = 0x3fff;

  uint32_t ird() const { return ird_flags.value() & kDepthMask; }
  uint32_t ord() const { return ord_flags.value() & kDepthMask; }
};
static_assert(sizeof(MpaEnhanced) == 4 && alignof(MpaEnhanced) == 1);

//= RFC 5044 4.1: an FPDU consists of a length field, the ULPDU, a pad to a
//= multiple of 4 bytes, and a CRC
struct FpduHeader {
  Be<uint16_t> ulpdu_bytes;
};
static_assert(sizeof(FpduHeader) == 2);
inline constexpr uint32_t kFpduCrcBytes = 4;
// A length field of 16 bits.
inline constexpr uint32_t kMaxUlpduBytes = 65535;

// Of an FPDU without markers.
constexpr uint32_t FpduPadBytes(uint32_t ulpdu_bytes) {
  return (0u - (static_cast<uint32_t>(sizeof(FpduHeader)) + ulpdu_bytes)) & 3;
}
constexpr uint32_t FpduBytes(uint32_t ulpdu_bytes) {
  return static_cast<uint32_t>(sizeof(FpduHeader)) + ulpdu_bytes +
         FpduPadBytes(ulpdu_bytes) + kFpduCrcBytes;
}

//= RFC 5044 4.2: a marker has 16 reserved bits and the distance from the
//= beginning of the FPDU to the marker
// The distance counts the bytes of the stream, other markers included. It is a
// multiple of 4.
struct MpaMarker {
  Be<uint16_t> reserved;
  Be<uint16_t> fpdu_distance;
};
static_assert(sizeof(MpaMarker) == 4);
//= RFC 5044 4.3: the TCP stream contains a marker every 512 bytes
// Counted from the first byte after the MPA frame, where the first one is.
inline constexpr uint32_t kMarkerSpacing = 512;

// A running CRC32c over the pieces of an FPDU, from the length field to the end
// of the padding, markers included.
//= RFC 5044 4.4: the CRC is the CRC32c of iSCSI
class Crc32c {
 public:
  Crc32c() = default;
  // Pieces may have any length below 2 GB.
  Crc32c& Add(std::span<const uint8_t> bytes);
  // The same, and copies them.
  Crc32c& AddCopied(uint8_t* to, std::span<const uint8_t> bytes);
  uint32_t value() const { return ~state_; }
  // Least significant byte first, unlike all other fields.
  void Store(uint8_t* field) const {
    const uint32_t crc = value();
    std::memcpy(field, &crc, kFpduCrcBytes);
  }
  [[nodiscard]] bool Matches(const uint8_t* field) const {
    const uint32_t crc = value();
    return std::memcmp(field, &crc, kFpduCrcBytes) == 0;
  }
  // For code that extends it by kFoldingCrc32c.
  uint32_t* running() { return &state_; }

 private:
  uint32_t state_ = 0xffffffff;
};
extern const FoldingCrc kFoldingCrc32c;

}  // namespace urnic::wire
