#pragma once

// Why MPA ends a connection: the error codes of a Terminate message of layer 2
// (LLP), type 0 (MPA).

#include <cstdint>

namespace urnic::mpa {

//= RFC 5044 8, RFC 6581 8: MPA reports errors by these codes
enum class MpaError : uint8_t {
  kNone = 0,
  kConnectionLost = 1,  // TCP is gone, so no Terminate can be sent
  kBadCrc = 2,
  kBadMarker = 3,  // the CRC is right, but a marker and the length disagree
  // A malformed request or reply. There is no Terminate: TCP is closed.
  kBadFrame = 4,
  kLocalCatastrophic = 5,
  kInsufficientIrd = 6,
  kNoMatchingRtr = 7,
};

}  // namespace urnic::mpa
