#pragma once

// The operator's options for the iWARP device of a port. Their text form is in
// options_spec.h.

#include <cstdint>

namespace urnic::iwarp {

// The first message of the side that connects, after which the other side may
// send.
enum class Rtr : uint8_t {
  kAny,    // whichever of the three suits both sides
  kZero,   // an FPDU without a message
  kWrite,  // a Write of no bytes
  kRead,   // a read of no bytes
  kNone,   // offers none, but accepts those of a peer
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
  // Whether we ask the peer to put markers into its stream. They are in each
  // segment, and only help a receiver that places data behind holes.
  bool markers = false;
  // The latest revision of MPA, 1 or 2. Only 2 negotiates the depths of reads,
  // which programs set, and the RTR.
  uint8_t mpa_revision = 2;
  // Until the first FPDU of the side that connects has arrived, the other side
  // must not send. Programs do not know this: with RoCE, either may send first.
  Rtr rtr = Rtr::kAny;
  // ECN has no use in a network that does not mark packets, and some devices
  // drop SYNs that request it.
  Ecn ecn = Ecn::kOff;
  // How long a peer may be silent before its connection is given up, in
  // seconds. 0: forever if we have nothing to send, else TCP's default. With a
  // number, a connection without traffic probes its peer from time to time, so
  // that a program that only receives notices that its peer has gone.
  uint32_t timeout_seconds = 0;
  static constexpr uint32_t kMaxTimeoutSeconds = 86400;
  friend bool operator==(const Options&, const Options&) = default;
};

}  // namespace urnic::iwarp
