#pragma once

#include "verbs/abi/rnic_abi.h"

namespace urnic::sim {

// A completion as the program sees it, and the queue that it belongs to.
struct Completion {
  bool recv = false;
  uint8_t status = 0;
  uint8_t opcode = 0;
  uint8_t wc_flags = 0;
  uint32_t byte_len = 0;
  uint32_t imm_or_key = 0;
  uint64_t wr_id = 0;

  static Completion Of(const urnic_cqe& cqe) {
    return {.recv = cqe.opcode >= URNIC_WC_RECV,
            .status = cqe.status,
            .opcode = cqe.opcode,
            .wc_flags = cqe.wc_flags,
            .byte_len = cqe.byte_len,
            .imm_or_key = cqe.imm_or_key,
            .wr_id = cqe.wr_id};
  }
};

}  // namespace urnic::sim
