#pragma once

/*
 * The boundary between a program and the RNIC: work queues, completion queues
 * and their indices, as a NIC would lay them out in shared memory. Plain C,
 * offsets and numbers only, no pointers but the program's own virtual
 * addresses inside scatter/gather entries.
 *
 * In embedded mode both sides are in one process and the memory is private; in
 * service mode it is shared and the program is not trusted. Either way:
 *   - the program writes entries and producer indices of SQ, RQ and the
 *     consumer index of a CQ; the RNIC reads each once, into private memory,
 *     before it validates it, and keeps no state of its own here;
 *   - the RNIC writes CQ entries, the producer index of a CQ and the consumer
 *     indices of SQ and RQ. It never reads them back.
 *
 * Indices are free-running 32-bit counters; an entry lives at
 * (index & (entries - 1)) * stride. Entries are powers of two.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define URNIC_ABI_ASSERT(c) static_assert(c, #c)
#else
#define URNIC_ABI_ASSERT(c) _Static_assert(c, #c)
#endif

#define URNIC_ABI_LINE 64

/* Limits of a queue pair, as ibv_query_device reports them. */
#define URNIC_MAX_SGE 32u
#define URNIC_MAX_INLINE 512u
#define URNIC_MAX_QP_WR 16384u
#define URNIC_MAX_CQE 4194304u /* pages are allocated on first use */
#define URNIC_MAX_RD_ATOMIC 128u
/*= IBTA 9.7.7: a message has at most 2^31 bytes */
#define URNIC_MAX_MESSAGE_BYTES 0x80000000u

/* Values of urnic_sq_wqe.opcode: those of enum ibv_wr_opcode. */
enum urnic_wr_opcode {
  URNIC_WR_RDMA_WRITE = 0,
  URNIC_WR_RDMA_WRITE_WITH_IMM = 1,
  URNIC_WR_SEND = 2,
  URNIC_WR_SEND_WITH_IMM = 3,
  URNIC_WR_RDMA_READ = 4,
  URNIC_WR_ATOMIC_CMP_AND_SWP = 5,
  URNIC_WR_ATOMIC_FETCH_AND_ADD = 6,
  URNIC_WR_LOCAL_INV = 7, /* imm_or_key: the key */
  URNIC_WR_BIND_MW = 8,   /* as struct urnic_bind says */
  URNIC_WR_SEND_WITH_INV = 9,
  URNIC_WR_FLUSH = 14, /* swap: length; compare_add: URNIC_FLUSH_.. */
  URNIC_WR_ATOMIC_WRITE = 15,
};

/* urnic_sq_wqe.compare_add of URNIC_WR_FLUSH: placement type in the lower
 * bits, selectivity level in the upper ones, as in the packet. */
enum {
  URNIC_FLUSH_GLOBAL = 1 << 0,
  URNIC_FLUSH_PERSISTENT = 1 << 1,
  URNIC_FLUSH_MR = 1 << 4, /* else the range */
};

/* urnic_sq_wqe.flags: the values of enum ibv_send_flags. */
enum {
  URNIC_SEND_FENCE = 1 << 0,
  URNIC_SEND_SIGNALED = 1 << 1,
  URNIC_SEND_SOLICITED = 1 << 2,
  URNIC_SEND_INLINE = 1 << 3,
};

struct urnic_sge {
  uint64_t addr; /* the program's virtual address */
  uint32_t length;
  uint32_t lkey;
};
URNIC_ABI_ASSERT(sizeof(struct urnic_sge) == 16);

/* Where a datagram goes. */
struct urnic_datagram_to {
  uint32_t address_handle; /* a number that the RNIC gave */
  uint32_t qpn;
};

/* A window and its new binding; used instead of rkey .. swap below. */
struct urnic_bind {
  uint32_t window; /* any key that it has had */
  uint32_t region; /* its key */
  uint64_t length;
  uint64_t access; /* enum ibv_access_flags */
};

/* A send work request. SGEs, or the inline bytes, follow at offset 48: one
 * SGE or 16 inline bytes make exactly one cache line. */
struct urnic_sq_wqe {
  uint8_t opcode; /* enum urnic_wr_opcode */
  uint8_t flags;
  union {
    uint16_t num_sge;
    uint16_t inline_bytes; /* with URNIC_SEND_INLINE */
  };
  uint32_t imm_or_key; /* immediate in network order, or the rkey to
                          invalidate in host order */
  uint64_t wr_id;
  union {
    uint64_t remote_addr;
    struct urnic_datagram_to to; /* UD */
  };
  union {
    struct {
      union {
        uint32_t rkey;
        uint32_t remote_qkey; /* UD */
      };
      uint32_t xrc_srqn; /* XRC: the peer's shared receive queue */
      uint64_t compare_add;
      uint64_t swap;
    };
    struct urnic_bind bind; /* remote_addr: from where, imm_or_key: new key */
  };
};
URNIC_ABI_ASSERT(sizeof(struct urnic_sq_wqe) == 48);
URNIC_ABI_ASSERT(offsetof(struct urnic_sq_wqe, remote_addr) == 16);
URNIC_ABI_ASSERT(offsetof(struct urnic_sq_wqe, rkey) == 24);
URNIC_ABI_ASSERT(offsetof(struct urnic_sq_wqe, compare_add) == 32);

/* A receive work request; SGEs follow at offset 16. */
struct urnic_rq_wqe {
  uint64_t wr_id;
  uint32_t num_sge;
  uint32_t reserved;
};
URNIC_ABI_ASSERT(sizeof(struct urnic_rq_wqe) == 16);

/* urnic_cqe.wc_flags: the values of enum ibv_wc_flags. */
enum {
  URNIC_WC_GRH = 1 << 0,
  URNIC_WC_WITH_IMM = 1 << 1,
  URNIC_WC_WITH_INV = 1 << 3,
};

/* urnic_cqe.opcode: the values of enum ibv_wc_opcode. */
enum {
  URNIC_WC_SEND = 0,
  URNIC_WC_RDMA_WRITE = 1,
  URNIC_WC_RDMA_READ = 2,
  URNIC_WC_COMP_SWAP = 3,
  URNIC_WC_FETCH_ADD = 4,
  URNIC_WC_BIND_MW = 5,
  URNIC_WC_LOCAL_INV = 6,
  URNIC_WC_FLUSH = 8,
  URNIC_WC_ATOMIC_WRITE = 9,
  URNIC_WC_RECV = 128,
  URNIC_WC_RECV_RDMA_WITH_IMM = 129,
};

/* urnic_cqe.status: the values of enum ibv_wc_status that we produce. */
enum urnic_wc_status {
  URNIC_WC_SUCCESS = 0,
  URNIC_WC_LOC_LEN_ERR = 1,
  URNIC_WC_LOC_QP_OP_ERR = 2,
  URNIC_WC_LOC_PROT_ERR = 4,
  URNIC_WC_WR_FLUSH_ERR = 5,
  URNIC_WC_MW_BIND_ERR = 6,
  URNIC_WC_BAD_RESP_ERR = 7,
  URNIC_WC_LOC_ACCESS_ERR = 8,
  URNIC_WC_REM_INV_REQ_ERR = 9,
  URNIC_WC_REM_ACCESS_ERR = 10,
  URNIC_WC_REM_OP_ERR = 11,
  URNIC_WC_RETRY_EXC_ERR = 12,
  URNIC_WC_RNR_RETRY_EXC_ERR = 13,
};

/*= IBTA A17.4.5.1: the completion of a datagram tells the kind of its frame */
/* Verbs have no field for it. As with mlx5, it is in the service level, which
 * RoCE does not use: bit 3 is set for a UDP header, bits 0 to 2 are the L3
 * header. UCX 1.13 drops datagrams of another kind than it expects. */
enum urnic_frame_kind {
  URNIC_FRAME_ROCE_V1 = 0,
  URNIC_FRAME_ROCE_V2_IPV6 = 8 + 1,
  URNIC_FRAME_ROCE_V2_IPV4 = 8 + 2,
};

/* A completion: one cache line, with room for the timestamps of extended CQs
 * and the address data of datagrams. */
struct urnic_cqe {
  uint64_t wr_id;
  uint32_t byte_len;
  uint32_t imm_or_key; /* as in the WQE */
  uint32_t qp_num;
  uint32_t src_qp;
  uint32_t vendor_err; /* of an error: ras/errors/error_codes.def */
  uint8_t status;      /* enum urnic_wc_status */
  uint8_t opcode;
  uint8_t wc_flags;
  uint8_t solicited;
  uint64_t time_ns; /* of the RNIC's clock */
  uint8_t sl;       /* datagrams: enum urnic_frame_kind */
  uint8_t reserved[23];
};
URNIC_ABI_ASSERT(sizeof(struct urnic_cqe) == URNIC_ABI_LINE);
URNIC_ABI_ASSERT(offsetof(struct urnic_cqe, status) == 28);

/* The two indices of a queue, each on a line with one writer. */
struct urnic_queue_indices {
  uint32_t producer;
  uint8_t pad0[URNIC_ABI_LINE - 4];
  uint32_t consumer;
  uint8_t pad1[URNIC_ABI_LINE - 4];
};
URNIC_ABI_ASSERT(sizeof(struct urnic_queue_indices) == 2 * URNIC_ABI_LINE);
URNIC_ABI_ASSERT(offsetof(struct urnic_queue_indices, consumer) == 64);

/* The mailbox of a port, in a page of its own: by it the RNIC tells the
 * program's side of a fatal error without a system call (document E, 5.3.2.4).
 * Posting and polling look at `state`. Only the RNIC writes. */
enum urnic_device_state {
  URNIC_DEVICE_WORKS = 0,
  /* Queue pairs go to ERR. Nothing can be posted. */
  URNIC_DEVICE_FAILS = 1,
  /* All queue pairs are in ERR, and their requests are flushed: besides these,
   * no completion will come. */
  URNIC_DEVICE_FAILED = 2,
};

#define URNIC_MAILBOX_BYTES 4096u
#define URNIC_MAILBOX_MARK "uRNIC-MB"

struct urnic_mailbox {
  char mark[8]; /* URNIC_MAILBOX_MARK, for people */
  uint32_t version;
  uint32_t state;    /* enum urnic_device_state */
  uint32_t code;     /* why it failed last: ras/errors/error_codes.def */
  uint32_t failures; /* so far */
  uint64_t at_ns;    /* of the last one, on the RNIC's clock */
  uint8_t reserved[URNIC_MAILBOX_BYTES - 32];
};
URNIC_ABI_ASSERT(sizeof(struct urnic_mailbox) == URNIC_MAILBOX_BYTES);
URNIC_ABI_ASSERT(offsetof(struct urnic_mailbox, state) == 12);

#ifdef __cplusplus
} /* extern "C" */
#endif
