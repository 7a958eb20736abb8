#pragma once

// The errors that end an iWARP stream, as a Terminate message names them: a
// layer, a type within the layer, and a code within the type.

#include <cstdint>

namespace urnic::ddp {

struct StreamError {
  static constexpr uint8_t kNoLayer = 0xff;
  uint8_t layer = kNoLayer;
  uint8_t type = 0;
  uint8_t code = 0;

  constexpr explicit operator bool() const { return layer != kNoLayer; }
  friend constexpr bool operator==(const StreamError&,
                                   const StreamError&) = default;
};
inline constexpr StreamError kNoError;

inline constexpr uint8_t kRdmapLayer = 0;
inline constexpr uint8_t kDdpLayer = 1;
inline constexpr uint8_t kMpaLayer = 2;
// The types of kRdmapLayer and kDdpLayer. Type 0 is a local catastrophe in
// both: it says nothing about the peer's message.
inline constexpr uint8_t kLocalType = 0;
inline constexpr uint8_t kProtectionType = 1;  // RDMAP
inline constexpr uint8_t kOperationType = 2;   // RDMAP
inline constexpr uint8_t kTaggedType = 1;      // DDP
inline constexpr uint8_t kUntaggedType = 2;    // DDP

//= RFC 5041 7.2: errors of DDP have these types and codes
inline constexpr StreamError kDdpCatastrophic{1, 0, 0x00};
inline constexpr StreamError kInvalidStag{1, 1, 0x00};
inline constexpr StreamError kBounds{1, 1, 0x01};
inline constexpr StreamError kStagOfOtherStream{1, 1, 0x02};
inline constexpr StreamError kOffsetWrap{1, 1, 0x03};
inline constexpr StreamError kTaggedVersion{1, 1, 0x04};
inline constexpr StreamError kInvalidQueue{1, 2, 0x01};
inline constexpr StreamError kNoBuffer{1, 2, 0x02};
inline constexpr StreamError kMsnRange{1, 2, 0x03};
inline constexpr StreamError kInvalidOffset{1, 2, 0x04};
inline constexpr StreamError kTooLong{1, 2, 0x05};
inline constexpr StreamError kUntaggedVersion{1, 2, 0x06};

//= RFC 5040 4.8: errors of RDMAP have these types and codes
inline constexpr StreamError kRdmapCatastrophic{0, 0, 0x00};
inline constexpr StreamError kSourceStag{0, 1, 0x00};
inline constexpr StreamError kSourceBounds{0, 1, 0x01};
inline constexpr StreamError kAccessRights{0, 1, 0x02};
inline constexpr StreamError kSourceOfOtherStream{0, 1, 0x03};
inline constexpr StreamError kSourceWrap{0, 1, 0x04};
inline constexpr StreamError kInvalidateRefused{0, 1, 0x09};
inline constexpr StreamError kRdmapVersion{0, 2, 0x05};
inline constexpr StreamError kUnexpectedOpcode{0, 2, 0x06};
inline constexpr StreamError kStreamCatastrophic{0, 2, 0x07};
inline constexpr StreamError kInvalidateUnknown{0, 2, 0x09};

}  // namespace urnic::ddp
