#pragma once

// The configuration that a queue pair of iWARP gets when its connection is
// established.

#include <cstdint>

namespace urnic::rdmap {

// Whether requests with immediate data can be sent.
// kRfc7306: the peer knows the message of eight bytes. A write followed by this
// message is a write with immediate data. A send followed by it would complete
// twice at the peer. kMerged: the peer is a uRNIC. A send announces that
// immediate data follows (kImmediateFollows), and completes once.
enum class ImmediateData : uint8_t { kNone, kRfc7306, kMerged };

// In the field of a send's header that is reserved, and zero for all others.
inline constexpr uint32_t kImmediateFollows = 0x75726e69;  // "urni"

struct Config {
  uint32_t access = 0;  // mem::kRemote...: what the peer may do
  uint32_t ird = 0;     // reads and atomics of the peer at a time
  uint32_t ord = 0;     // our own
  // Sends and writes up to this length complete when they have been sent, if
  // their frame is kept. All uRNICs have the same value, so that the receiver
  // knows that the acknowledgement of such a send is not urgent. A lone write
  // to a uRNIC completes with its acknowledgement, which comes at once:
  // afterwards its program may wait for an answer in memory, and make no call
  // that would receive the acknowledgement.
  uint32_t keep_bytes = 0;
  ImmediateData immediate = ImmediateData::kNone;

  bool peer_is_urnic() const { return immediate == ImmediateData::kMerged; }
};

// The first message of the initiator, if both ends agreed on one.
//= RFC 6581 9: the ready-to-receive message is an empty write or an empty read
enum class Rtr : uint8_t { kWrite, kRead };

}  // namespace urnic::rdmap
