#pragma once

// Reads and writes the request and the reply that set MPA up. They are read
// from a stream, in pieces of any size.

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/base/fields.h"
#include "transport/wire/mpa.h"

namespace urnic::mpa {

enum class SetupKind : uint8_t { kRequest, kReply };

inline constexpr uint32_t kSetupHeaderBytes = sizeof(wire::MpaFrame);
inline constexpr uint32_t kMaxSetupBytes =
    kSetupHeaderBytes + wire::kMpaMaxPrivateData;

// The promise of a uRNIC that each of its segments begins with an FPDU, unless
// no FPDU can begin at its place in the stream (docs/design/0010, point 4). It
// is appended to the program's private data, only between peers that know each
// other as uRNICs by the options of their SYNs.
struct AlignmentPromise {
  static constexpr uint32_t kMagic = 0x75524e41;  // "uRNA"

  wire::Be<uint32_t> magic{kMagic};
  wire::Be<uint16_t> reserved;
  // The length of the program's data. It must match the frame's length, so that
  // a program's data are rarely mistaken for a promise.
  wire::Be<uint16_t> private_data_bytes;
};
static_assert(sizeof(AlignmentPromise) == 8 && alignof(AlignmentPromise) == 1);

// The room for the program's private data.
constexpr uint32_t MaxPrivateData(uint8_t revision, bool promise) {
  return wire::kMpaMaxPrivateData -
         (revision >= 2 ? uint32_t{sizeof(wire::MpaEnhanced)} : 0) -
         (promise ? uint32_t{sizeof(AlignmentPromise)} : 0);
}

// The room in a reply to a peer that is not a uRNIC.
//= Linux siw_recv_mpa_rr(): a frame has at most 256 bytes of private data, with
//= those of MpaEnhanced
// A kernel dies of a reply with more.
constexpr uint32_t MaxReplyToOthers(uint8_t revision) {
  return 256 - (revision >= 2 ? uint32_t{sizeof(wire::MpaEnhanced)} : 0);
}

// A frame to send, or as it was received.
struct SetupFrame {
  SetupKind kind = SetupKind::kRequest;
  uint8_t revision = 2;
  bool markers = false;
  bool crc = false;
  bool reject = false;
  // Of revision 2: the S bit and what comes with it.
  std::optional<wire::MpaEnhanced> enhanced = std::nullopt;
  bool promise = false;
  std::span<const uint8_t> private_data = {};  // the program's

  // Returns the frame's length. REQUIRES: the private data fit, with what is
  // put around them (MaxPrivateData()), and `to` has room.
  uint32_t Write(std::span<uint8_t> to) const;
};

// Removes the promise from a frame that Write() has made. Returns the remaining
// length.
uint32_t RemovePromise(std::span<uint8_t> frame);

// Collects one frame. Refuses it at its first wrong byte.
class SetupReader {
 public:
  enum class State : uint8_t {
    kMore,       // the frame is not complete
    kComplete,   // frame() is valid
    kWrongKind,  // a request where a reply was expected, or the reverse
    kMalformed,
  };

  // `with_promise`: the peer is a uRNIC, so its private data may end with a
  // promise.
  SetupReader(SetupKind expected, bool with_promise)
      : expected_(expected), with_promise_(with_promise) {}

  // Returns how many of these bytes belong to the frame.
  uint32_t Add(std::span<const uint8_t> bytes);
  State state() const { return state_; }
  // REQUIRES: kComplete. Its private data are in this object.
  const SetupFrame& frame() const { return frame_; }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  void CheckKey();
  void Parse();

  SetupKind expected_;
  bool with_promise_;
  State state_ = State::kMore;
  uint32_t have_ = 0;
  uint32_t need_ = kSetupHeaderBytes;
  SetupFrame frame_;
  std::array<uint8_t, kMaxSetupBytes> bytes_;
};

}  // namespace urnic::mpa
