#pragma once

// The limits that all kinds of devices share, defined only here. Create and
// modify calls enforce them, and queries report them, so the two agree. Limits
// that differ by kind are in verbs/identity/device_kind.h.

#include <cstdint>

#include "verbs/abi/rnic_abi.h"

namespace urnic::control {

// For devices with UD; others have no groups.
inline constexpr uint32_t kMaxMcastGroups = 1u << 13;
inline constexpr uint32_t kMaxMcastQpsPerGroup = 1u << 8;
// The whole address space of a program.
inline constexpr uint64_t kMaxMrBytes = uint64_t{1} << 47;

inline constexpr uint32_t kMaxQpWr = URNIC_MAX_QP_WR;
inline constexpr uint32_t kMaxSrqWr = URNIC_MAX_QP_WR;
inline constexpr uint32_t kMaxSge = URNIC_MAX_SGE;
inline constexpr uint32_t kMaxInline = URNIC_MAX_INLINE;
inline constexpr uint32_t kMaxCqe = URNIC_MAX_CQE;
// Reads and atomics in flight, as initiator and as target, per queue pair.
inline constexpr uint32_t kMaxRdAtomic = URNIC_MAX_RD_ATOMIC;
inline constexpr uint32_t kMaxMessageBytes = URNIC_MAX_MESSAGE_BYTES;

inline constexpr uint8_t kPortNumber = 1;  // a device has one port
inline constexpr uint32_t kCompVectors = 1;

// How long an acknowledgement may wait until its sender wakes up, as 4.096 us *
// 2^n: 4.2 ms. The helper thread checks every millisecond at worst, and takes
// over when it has seen the same state twice (docs/design/0002-the-token.md).
inline constexpr uint8_t kLocalCaAckDelay = 10;

// The most packets that a queue pair keeps in flight; fewer if the port's ring
// is short.
inline constexpr uint32_t kWindowPackets = 128;

}  // namespace urnic::control
