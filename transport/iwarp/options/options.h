#pragma once

// What an operator may choose for the iWARP device of a port. Its text form:
// options_spec.h.

#include <cstdint>

namespace urnic::iwarp {

// The message of the side that connects which lets the other side send first.
enum class Rtr : uint8_t {
  kAny,    // whichever of the three suits both sides
  kZero,   // an FPDU without a message
  kWrite,  // a Write of no bytes
  kRead,   // a read of no bytes
  kNone,   // it does not offer one, but takes what a peer offers
};

// Whether TCP offers ECN, and what it does with marks.
enum class Ecn : uint8_t {
  kOff,
  kClassic,  // CUBIC: a mark in a round trip counts like a loss
  kDctcp,    // both sides: the window follows the share of marked bytes
};

struct Options {
  // Whether we ask for the CRC of MPA. It is used if either side asks for it.
  // Its cost is small (CRC32C), and TCP's checksum misses what it finds.
  bool crc = true;
  // Whether the peer is to put markers into its stream. They are in each
  // segment, and help only a receiver that places behind holes.
  bool markers = false;
  // The latest revision of MPA, 1 or 2. Only 2 carries the depths of reads,
  // which are a part of what programs say, and the RTR.
  uint8_t mpa_revision = 2;
  // Until the first FPDU of the side that connects has arrived, the other side
  // must not send. Programs do not know this: with RoCE, either may send first.
  Rtr rtr = Rtr::kAny;
  // A network that marks nothing gains nothing, and some devices drop SYNs that
  // ask for it.
  Ecn ecn = Ecn::kOff;
  // How long a peer may be silent before its connection is given up, in
  // seconds; 0: forever if we have nothing to send, else as long as TCP's
  // default. With a number, a connection without traffic asks its peer from
  // time to time, so that a program that only receives learns that its peer has
  // vanished.
  uint32_t timeout_seconds = 0;
  static constexpr uint32_t kMaxTimeoutSeconds = 86400;
  friend bool operator==(const Options&, const Options&) = default;
};

}  // namespace urnic::iwarp
