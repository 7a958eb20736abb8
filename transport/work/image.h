#pragma once

// Images of queue pairs and of connections of the connection manager: their
// whole state as bytes, which have the same meaning in any process, at any time
// and on any storage (docs/design/0007-state-images.md). Extract and insert are
// in rc/image.h, uc/image.h, ud/image.h, cm/image.h, iwarp/rdmap/image.h and
// iwarp/qp/image.h; this file has their common parts.
//
// Layout, all numbers little-endian, without padding between them:
//
//   bytes   what
//   8       "uRNIC-IM"
//   2       version (kImageVersion)
//   1       kind: ImageKind
//   1       0
//   4       length of the image in bytes, a multiple of four
//   ..      of a queue pair: what it was created with, ImageShape
//   ..      the state: the lists of members (FieldsOf) of each kind, each
//           member in its own width; PSNs, QPNs and keys 4 bytes, booleans and
//           enumerations 1, times and durations 8 (nanoseconds from or to the
//           moment of the extraction; all ones: never); GIDs and messages as
//           they are on the wire
//   0..3    zeros
//   4       CRC-32 of all that comes before

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transport/work/types.h"

namespace urnic {

inline constexpr char kImageMagic[] = "uRNIC-IM";
// Raised with each change of a list of members; older images cannot be read.
inline constexpr uint16_t kImageVersion = 9;
inline constexpr size_t kImageHeaderBytes = 16;
inline constexpr size_t kImageTrailerBytes = 4;

enum class ImageKind : uint8_t {
  kRc,  // and XRC
  kUc,
  kUd,
  kConnection,   // or datagram resolution, of the connection manager
  kIwarp,        // a connection of iWARP, with its queue pair
  kIwarpQp,      // a queue pair of iWARP without a connection
  kIwarpCounts,  // how many connections and listeners there are
};
// The kind of a queue pair's image. A queue pair of iWARP that has a connection
// is a part of the connection's image.
constexpr ImageKind KindOf(QpService service) {
  switch (service) {
    case QpService::kUc:
      return ImageKind::kUc;
    case QpService::kUd:
      return ImageKind::kUd;
    case QpService::kIwarp:
      return ImageKind::kIwarpQp;
    default:
      return ImageKind::kRc;
  }
}

// Why an image is refused: the member, its value in the image, and the rule
// that it violates ("config.mtu is 300: is not a path MTU").
struct ImageRefusal {
  const char* group = "";
  const char* field = nullptr;  // null: not refused
  uint64_t value = 0;
  const char* rule = "";

  bool ok() const { return field == nullptr; }
  std::string Text() const;
};

// The parameters with which a queue pair must be created to take an image.
struct ImageShape {
  QpService service = QpService::kRc;  // XRC: kRc
  QpLimits limits;
  uint32_t sq_entries = 0;
  uint32_t replay_slots = 0;  // at least; RC
  bool shared_receives = false;
};

// The length in the header of the image at the beginning of `bytes`; 0: this is
// not an image, or its header is incomplete.
size_t ImageLength(std::span<const uint8_t> bytes);

// The CRC-32 of ISO 3309, as in Ethernet. (The ICRC's code is for packets.)
uint32_t ImageCrc(std::span<const uint8_t> bytes);

// Appends the image that `extract` makes: size_t(std::span<uint8_t>) writes an
// image, if there is room, and returns its size. If an image is longer than
// most, `extract` is called twice.
template <typename Extract>
void AppendImageTo(std::string& out, const Extract& extract) {
  const size_t begin = out.size();
  constexpr size_t kMost = 4096;
  const auto extract_into = [&](size_t room) {
    out.resize(begin + room);
    return extract(std::span(reinterpret_cast<uint8_t*>(&out[begin]), room));
  };
  size_t bytes = extract_into(kMost);
  if (bytes > kMost) bytes = extract_into(bytes);
  out.resize(begin + bytes);
}

// Reads the kind of a whole image. Checks magic, version, length and CRC.
ImageRefusal ReadImageKind(std::span<const uint8_t> image, ImageKind& out);
// Reads the shape, after the same checks. Refuses an image that is not a queue
// pair's.
ImageRefusal ReadImageShape(std::span<const uint8_t> image, ImageShape& out);

}  // namespace urnic
