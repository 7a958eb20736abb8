#pragma once

/*
 * The rings of an adapter window (docs/design/0014-rud.md): the part of the
 * boundary between a program and the RNIC that serves RUD. The rules of
 * rnic_abi.h hold here, too: plain C, free-running indices, an entry lives at
 * (index & (entries - 1)), and neither side trusts the other.
 *
 * Send FIFO. The program writes entries and then the producer index. The RNIC
 * writes `status` of an entry, and then the consumer index, when it needs the
 * entry and its slot no longer. That says nothing about delivery.
 *
 * Receive FIFO. The RNIC writes an entry when its payload is in the slot beside
 * it, and `type`, which is not 0, last. The program polls `type` of the next
 * entry, sets it to 0 when it has read the entry, and writes the consumer
 * index. When the FIFO is full, what arrives is dropped and counted.
 *
 * A context is its number in the low 32 bits, and its key in the high ones. A
 * tid is a transfer (56 bits) and, in the low 8 bits, an attempt.
 */

/* Found beside this file, also where both are installed. */
#include "rnic_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of payload in the entry itself. */
#define URNIC_RUD_INLINE 32u
/* Bytes of a slot, at most: what fits in the longest UDP packet beside our
 * headers, in whole lines. */
#define URNIC_RUD_MAX_SLOT 65408u
/* Packets of one transfer. */
#define URNIC_RUD_MAX_PACKETS 64u
/* Writes of one packet (URNIC_RUD_LIST). */
#define URNIC_RUD_MAX_WRITES 64u
/* A window has counters 1 to URNIC_RUD_COUNTERS - 1, which begin at 0. A number
 * of 0 says "none". */
#define URNIC_RUD_COUNTERS 64u
/* Commands of a window that wait for counters, at most. */
#define URNIC_RUD_MAX_HELD 64u

/* urnic_rud_send.opcode */
enum urnic_rud_opcode {
  /* To the receive FIFO of `window`. The packet may be as long as a slot of
   * both ends. If the link's packets are shorter, it goes in IP fragments, and
   * is lost if one of them is. */
  URNIC_RUD_PACKET = 1,
  URNIC_RUD_WRITE = 2,
  URNIC_RUD_READ = 3,
  URNIC_RUD_ASK_STATE = 4, /* of a transfer, and nothing older is placed */
  /* `peer` sends to a third window, which is a peer of both ends. */
  URNIC_RUD_THIRD_READ = 5,
  URNIC_RUD_SET_COUNTER = 6, /* `counter` becomes `value` */
  URNIC_RUD_ASK_COUNTER = 7, /* `counter`: URNIC_RUD_GOT_COUNTER */
  /* From now on `counter`, or none, counts the transfers that others complete
   * to here on `local_context`; or, with URNIC_RUD_TO_FIFO, the packets of
   * URNIC_RUD_PACKET that come to the receive FIFO. */
  URNIC_RUD_COUNT_ARRIVALS = 8,
  URNIC_RUD_DROP_HELD = 9, /* commands that wait for `counter` */
  /* Ends what `local_context` does, and tells nobody. What comes for it with
   * this tid or a smaller one is dropped. */
  URNIC_RUD_CANCEL = 10,
};

/* urnic_rud_send.flags */
enum {
  /* The payload is in the entry; else it is in the slot (packets), or at
   * local_pvo. */
  URNIC_RUD_INLINE_DATA = 1 << 0,
  /* Write: to the receive FIFO of the target. Its contexts count what arrives
   * only if `notify` is not 0: a packet that finds the FIFO full has then not
   * arrived. Read: to the FIFO of the window that reads; `local_pvo` is any
   * value, for its entries. */
  URNIC_RUD_TO_FIFO = 1 << 1,
  /* Write, third-party read: `counter` alone tells of the completion; no entry
   * of the receive FIFO does. */
  URNIC_RUD_COUNT_ONLY = 1 << 2,
  /* Write (half-RDMA of document C): the payload is that of one packet, lies in
   * the slot, and goes to `remote_pvo`, which is that packet's own. Several
   * commands with one tid are the packets of a transfer, in any order; so both
   * ends may be scattered. It cannot wait for a counter. */
  URNIC_RUD_SLOT_DATA = 1 << 3,
  /* Write, with URNIC_RUD_SLOT_DATA: the packet in the slot is a list of 1 to
   * URNIC_RUD_MAX_WRITES writes, each a struct urnic_rud_list_entry and its
   * bytes, one behind the other, which end with the packet. `remote_pvo` must
   * be 0. The target executes the writes of a packet
   * only if it may execute all of them; otherwise its notice names the PVO of
   * the first that it refuses. Not to a FIFO, and not to a group. */
  URNIC_RUD_LIST = 1 << 4,
};

/* As on the wire: most significant byte first. */
struct urnic_rud_list_entry {
  uint8_t pvo[8];
  uint8_t bytes[2];
};
URNIC_ABI_ASSERT(sizeof(struct urnic_rud_list_entry) == 10);

/* urnic_rud_send.notify: who wants to know that the transfer is complete. Data
 * goes from the source to the target, so the one that reads is the target, and
 * gets URNIC_RUD_GOT_TRANSFER. The third party is the one that has posted
 * URNIC_RUD_THIRD_READ, and gets URNIC_RUD_GOT_COMPLETION from the target. */
enum {
  URNIC_RUD_NOTIFY_SOURCE = 1 << 0,
  URNIC_RUD_NOTIFY_TARGET = 1 << 1,
  URNIC_RUD_NOTIFY_THIRD = 1 << 2,
};

/* urnic_rud_send.status */
enum urnic_rud_status {
  URNIC_RUD_WAITS = 0, /* the program writes it */
  URNIC_RUD_SENT = 1,
  URNIC_RUD_BAD_REQUEST = 2, /* opcode, flags, or lengths that do not fit */
  URNIC_RUD_BAD_CONTEXT = 3, /* the local one is not the window's */
  URNIC_RUD_OLD_TID = 4,     /* not larger than the local context's */
  URNIC_RUD_BAD_PVO = 5,     /* the local one; the window has failed */
  URNIC_RUD_FLUSHED = 6,     /* the window had failed before */
  URNIC_RUD_BUSY = 7,        /* the local context answers a read */
  URNIC_RUD_HELD = 8,        /* it waits, and is executed later */
  URNIC_RUD_NO_ROOM = 9,     /* too many wait, or the receive FIFO is full */
};

/* A new ring is zeroed. Fields that a program does not use stay 0, which is
 * what they mean to a program that does not know them.
 *
 * A command with a `condition` is executed when that counter is `value` or
 * more. Until then the RNIC keeps a copy of it (URNIC_RUD_HELD). If it cannot
 * be executed then, URNIC_RUD_GOT_UNSENT says so. Packets must have their
 * payload in the entry. Commands about counters cannot wait.
 *
 * A group (urnic_dv_join_group()) takes packets and writes. `context` is a
 * number in the group, and `remote_pvo` an offset in its memory; both are the
 * same for all members. Of a write that notifies the source, each member sends
 * a completion, perhaps more than once; its `peer` tells members apart. The
 * RNIC does not know how many members there are, so the local context stays in
 * use until it has another transfer or is cancelled, and no counter counts.
 * What a member has missed is written to its own window, with its own context
 * and PVO, from the same local context, with a larger tid of the same transfer.
 * The answer of a member (URNIC_RUD_GOT_STATE) has the tid that it was asked
 * with: from then on, the member places nothing with a smaller one.
 *
 * When the transfer of a command is complete, its `counter` increases by one,
 * and only once for a transfer, however many attempts it takes. That goes for
 * reads, and for writes and third-party reads that notify the one who posts
 * them. */
struct urnic_rud_send {
  uint8_t opcode; /* enum urnic_rud_opcode */
  uint8_t flags;
  uint8_t path; /* which UDP flow */
  uint8_t notify;
  uint32_t status;  /* enum urnic_rud_status */
  uint32_t peer;    /* a window that was added as a peer, which has .. */
  uint32_t window;  /* .. this number; 0: the peer is a group */
  uint64_t context; /* of the peer */
  uint64_t local_context;
  uint64_t tid;
  uint64_t local_pvo; /* third-party read: of the target */
  uint64_t remote_pvo;
  uint32_t bytes;  /* of the transfer, or of the packet */
  uint16_t stride; /* payload of a full packet */
  uint8_t counter;
  uint8_t condition;
  uint64_t packets; /* of the transfer, those to send: a bit for each */
  union {
    uint8_t tag[16]; /* packets: for the upper layer of the peer */
    struct {         /* third-party read: where the data goes */
      uint32_t target_peer;
      uint32_t target_window;
      uint64_t target_context;
    };
  };
  uint8_t data[URNIC_RUD_INLINE];
  uint64_t value; /* of a counter */
};
URNIC_ABI_ASSERT(sizeof(struct urnic_rud_send) == 2 * URNIC_ABI_LINE);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_send, context) == 16);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_send, packets) == 64);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_send, tag) == 72);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_send, target_context) == 80);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_send, data) == 88);

/* urnic_rud_receive.type */
enum urnic_rud_entry {
  URNIC_RUD_GOT_PACKET = 1,
  URNIC_RUD_GOT_DATA = 2,       /* of a write to the FIFO */
  URNIC_RUD_GOT_COMPLETION = 3, /* of a transfer from here */
  URNIC_RUD_GOT_TRANSFER = 4,   /* completed, to here */
  URNIC_RUD_GOT_STATE = 5,      /* the answer to URNIC_RUD_ASK_STATE */
  URNIC_RUD_GOT_REFUSAL = 6,    /* memory: the transfer has ended */
  URNIC_RUD_GOT_UNSENT = 7,     /* a command that had waited, and is wrong */
  URNIC_RUD_GOT_COUNTER = 8,
};

/* urnic_rud_receive.flags */
enum {
  URNIC_RUD_MARKED = 1 << 0, /* by ECN: this packet, or what it answers */
};

struct urnic_rud_receive {
  uint8_t type; /* enum urnic_rud_entry, written last */
  uint8_t flags;
  uint8_t path;   /* on which it came, or what it answers went */
  uint8_t number; /* data: of the packet; of a counter, or a condition */
  uint16_t bytes; /* of payload, in the slot */
  uint16_t stride;
  uint32_t source_window;
  uint32_t peer;
  union {
    uint8_t tag[16]; /* packet */
    struct {
      uint64_t context; /* the local one, or the source's (data) */
      uint64_t tid;
    };
  };
  union {
    struct { /* data, transfer */
      uint32_t total;
      uint32_t offset;
    };
    uint64_t arrived; /* state, refusal: a bit for each packet */
    uint64_t value;   /* of a counter; unsent: enum urnic_rud_status */
  };
  union {
    /* Data: `remote_pvo` of the write, or `local_pvo` of the read. Refusal:
     * what was refused; of a write beyond a member's memory, the offset. */
    uint64_t pvo;
    uint64_t held; /* counter: commands that wait for it */
  };
  uint64_t reserved[2];
};
URNIC_ABI_ASSERT(sizeof(struct urnic_rud_receive) == URNIC_ABI_LINE);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_receive, tag) == 16);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_receive, arrived) == 32);

#ifdef __cplusplus
} /* extern "C" */
#endif
