#pragma once

// The attributes of a queue pair: struct ibv_qp_attr, without its header. Codes
// are those of IBTA and of libibverbs.

#include <cstdint>

#include "transport/wire/address.h"
#include "transport/work/types.h"

namespace urnic::control {

// Which attributes a modify call sets: the values of enum ibv_qp_attr_mask.
enum QpAttrMask : uint32_t {
  kQpState = 1u << 0,
  kQpCurState = 1u << 1,
  kQpEnSqdAsyncNotify = 1u << 2,
  kQpAccessFlags = 1u << 3,
  kQpPkeyIndex = 1u << 4,
  kQpPort = 1u << 5,
  kQpQkey = 1u << 6,
  kQpAv = 1u << 7,
  kQpPathMtu = 1u << 8,
  kQpTimeout = 1u << 9,
  kQpRetryCnt = 1u << 10,
  kQpRnrRetry = 1u << 11,
  kQpRqPsn = 1u << 12,
  kQpMaxRdAtomic = 1u << 13,
  kQpAltPath = 1u << 14,
  kQpMinRnrTimer = 1u << 15,
  kQpSqPsn = 1u << 16,
  kQpMaxDestRdAtomic = 1u << 17,
  kQpPathMigState = 1u << 18,
  kQpDestQpn = 1u << 20,
};

// The value of IBV_MIG_MIGRATED, the only one without alternate paths.
inline constexpr uint8_t kPathMigrated = 0;

// The destination of packets: struct ibv_ah_attr with its global route.
struct AddressVector {
  wire::Gid dgid;
  uint32_t flow_label = 0;  // 20 bits
  uint8_t sgid_index = 0;
  uint8_t hop_limit = 0;  // 0: the default, 64
  uint8_t traffic_class = 0;
  uint8_t sl = 0;
  uint8_t is_global = 0;
  uint8_t port_num = 0;
  uint32_t rate_mbps = 0;  // static rate, RC only; 0: no limit
};

struct QpAttributes {
  QpState qp_state = QpState::kReset;
  QpState cur_qp_state = QpState::kReset;
  uint8_t path_mtu = 0;  // 1: 256 bytes .. 5: 4096 bytes
  uint8_t path_mig_state = kPathMigrated;
  uint32_t rq_psn = 0;
  uint32_t sq_psn = 0;
  uint32_t dest_qp_num = 0;
  uint32_t qkey = 0;
  uint32_t qp_access_flags = 0;  // mem::kRemote..
  AddressVector ah_attr;
  uint16_t pkey_index = 0;
  uint8_t en_sqd_async_notify = 0;
  uint8_t sq_draining = 0;  // query only
  uint8_t max_rd_atomic = 0;
  uint8_t max_dest_rd_atomic = 0;
  uint8_t min_rnr_timer = 0;
  uint8_t port_num = 0;
  uint8_t timeout = 0;
  uint8_t retry_cnt = 0;
  uint8_t rnr_retry = 0;
};

// Sizes of a queue pair's queues.
struct QpCaps {
  uint32_t max_send_wr = 0;
  uint32_t max_recv_wr = 0;
  uint32_t max_send_sge = 0;
  uint32_t max_recv_sge = 0;
  uint32_t max_inline_data = 0;
};

// `attributes` with the members in `mask` taken from `change`.
QpAttributes Merged(QpAttributes attributes, const QpAttributes& change,
                    uint32_t mask);

}  // namespace urnic::control
