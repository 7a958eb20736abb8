#pragma once

// Values of struct ib_uverbs_qp_attr, for rdma_init_qp_attr().

#include <rdma/ib_user_verbs.h>

#include <cstdint>

namespace urnic::rdmacm {

// enum ib_qp_state.
enum IbQpState : uint32_t {
  kInit = 1,
  kReadyToReceive = 2,
  kReadyToSend = 3,
  kError = 6
};

// enum ib_qp_attr_mask.
enum QpAttributeMask : uint32_t {
  kState = 1u << 0,
  kAccessFlags = 1u << 3,
  kPkeyIndex = 1u << 4,
  kPort = 1u << 5,
  kQkey = 1u << 6,
  kAddressVector = 1u << 7,
  kPathMtu = 1u << 8,
  kTimeout = 1u << 9,
  kRetryCount = 1u << 10,
  kRnrRetry = 1u << 11,
  kReceivePsn = 1u << 12,
  kMaxInitiated = 1u << 13,
  kMinRnrTimer = 1u << 15,
  kSendPsn = 1u << 16,
  kMaxTargeted = 1u << 17,
  kDestinationQpn = 1u << 20,
};

// enum ib_access_flags.
inline constexpr uint32_t kLocalWrite = 1u << 0;
inline constexpr uint32_t kRemoteWrite = 1u << 1;
inline constexpr uint32_t kRemoteRead = 1u << 2;
inline constexpr uint32_t kRemoteAtomic = 1u << 3;

}  // namespace urnic::rdmacm
