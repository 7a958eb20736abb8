#pragma once

// The values that go into and come out of a queue pair of any service. Nothing
// here does I/O (docs/design/0001-sans-io.md).

#include <cstdint>

#include "transport/base/ids.h"
#include "transport/base/psn.h"
#include "transport/base/time.h"
#include "transport/wire/framing.h"
#include "transport/wire/roce_packet.h"
#include "transport/work/masked_atomic.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic {

class RecvRing;

// A received packet of one queue pair. ICRC, lengths, transport service, P_Key
// and, for connected services, addresses have been checked; the core checks
// everything else.
struct RxPacket : wire::RocePacket {
  // For datagrams: the IP header of 20 or 40 bytes, or the GRH.
  const uint8_t* ip = nullptr;
  wire::Framing framing = wire::Framing::kIpv4;
  // For XRC requests: the shared queue that the packet names, if it exists and
  // is in the queue pair's XRC domain.
  RecvRing* xrc_ring = nullptr;
  // Identifies the frame to a FrameKeeper.
  void* buffer = nullptr;
};

// A run of packets of one queue pair ends with an atomic request or response,
// because there is one place for its values until they are used.
inline bool EndsRun(const RxPacket& packet) {
  return packet.info->kind == wire::PacketKind::kAtomic ||
         packet.info->kind == wire::PacketKind::kAtomicAck;
}

// A burst never holds more packets of one queue pair than this.
inline constexpr uint32_t kRunMax = 32;

// A piece of registered (or, for inline data, ring) memory of the program.
struct Segment {
  uint64_t address = 0;
  uint32_t bytes = 0;
};

// One packet to transmit. The core writes BTH and extended headers to
// `headers`; the caller copies the segments after them, appends `pad_bytes`
// zeros and the ICRC, and puts the path's headers in front.
struct TxSlot {
  uint8_t* headers = nullptr;  // in: room for kMaxHeaderBytes
  uint16_t header_bytes = 0;
  uint8_t pad_bytes = 0;
  uint8_t segment_count = 0;
  uint32_t payload_bytes = 0;
  // For OnGatherFault(): the index of the work request, or the PSN.
  bool from_responder = false;
  uint32_t origin = 0;
  // Datagrams: the destination; 0: the path of the queue pair.
  uint32_t address_handle = 0;
  Segment segments[URNIC_MAX_SGE];
};
inline constexpr uint32_t kMaxHeaderBytes = 48;

// An effect on memory, which the caller executes, in order. `packet` is the
// index within the burst, for reports of faults.
struct Placement {
  enum class Kind : uint8_t { kCopy, kCompareSwap, kFetchAdd, kMasked };
  Kind kind = Kind::kCopy;
  uint8_t packet = 0;
  // For OnPlacementFault(): the index of the work request, or the PSN; and
  // whether a receive request, rather than the peer, named the memory.
  bool from_responder = false;
  bool to_receive = false;
  uint32_t origin = 0;
  uint32_t bytes = 0;
  uint64_t target = 0;              // in the program's memory
  const uint8_t* source = nullptr;  // kCopy: in the packet or in the core
  uint64_t compare = 0;             // atomics
  uint64_t swap_or_add = 0;
  // Atomics: the place for the old value. kMasked: it is in a MaskedAtomic,
  // which has the operands, too.
  uint64_t* original = nullptr;
};

// A receive work request is done. The caller releases it only after it has
// executed the placements of its packet.
struct RecvCompletion {
  uint8_t packet = 0;
  uint8_t status = URNIC_WC_SUCCESS;
  uint8_t opcode = URNIC_WC_RECV;
  uint8_t wc_flags = 0;
  uint8_t sl = 0;  // datagrams: enum urnic_frame_kind
  bool solicited = false;
  RxVerdict cause = RxVerdict::kAccept;  // of an error
  uint32_t byte_len = 0;
  uint32_t imm_or_key = 0;
  uint32_t src_qp = 0;  // datagrams
  // RC: the send queue had completed up to this index when the packet arrived.
  uint32_t sends_before = 0;
  uint64_t wr_id = 0;
};

// A send work request is done.
struct SendCompletion {
  uint8_t status = URNIC_WC_SUCCESS;
  uint8_t opcode = URNIC_WC_SEND;
  RxVerdict cause = RxVerdict::kAccept;
  uint32_t byte_len = 0;
  uint64_t wr_id = 0;
};

//= IBTA 10.3.1: a queue pair has seven states (with the values of enum
//= ibv_qp_state)
enum class QpState : uint8_t {
  kReset = 0,
  kInit = 1,
  kRtr = 2,
  kRts = 3,
  kSqd = 4,
  kSqe = 5,
  kErr = 6,
};

// Asynchronous events of a queue pair, for its owner.
enum class QpEvent : uint8_t {
  kNone = 0,
  kFatal = 1,            // IBV_EVENT_QP_FATAL
  kRequestError = 2,     // IBV_EVENT_QP_REQ_ERR
  kAccessError = 3,      // IBV_EVENT_QP_ACCESS_ERR
  kCommEstablished = 4,  // IBV_EVENT_COMM_EST
  kSqDrained = 5,        // IBV_EVENT_SQ_DRAINED
  kLastWqeReached = 16,  // IBV_EVENT_QP_LAST_WQE_REACHED
};

// The service of a queue pair. The ends of an XRC connection are RC queue
// pairs; one only sends requests, and the other only answers them. kIwarp: what
// programs call RC on a device of iWARP. kRud: an adapter window. The others
// are services of RoCE.
enum class QpService : uint8_t {
  kRc,
  kUc,
  kUd,
  kXrcInitiator,
  kXrcTarget,
  kIwarp,
  kRud,
};

// How a flow waits for room on its path.
enum class PathWait : uint8_t {
  kNo,     // it does not
  kFirst,  // it has one short request, and nothing in flight
  kInTurn,
};

// The result of a call that handles a burst or a timer, builds packets, or
// changes the queue pair: everything that the engine must know afterwards. It
// fits into two registers.
struct FlowResult {
  Time deadline = Time::Infinite();  // when OnTimer() is due
  QpState state = QpState::kReset;
  QpEvent event = QpEvent::kNone;  // reported once
  bool has_work = false;           // Transmit() has packets to send
  bool only_ack_waits = false;     // only an acknowledgement, which may wait
  bool answered = false;           // sent packets were acknowledged
  bool timed_out = false;          // sent packets were not answered in time
  PathWait waits = PathWait::kNo;  // it could send if its path had room
  bool lets_go = false;            // its path has room for waiting flows
};
static_assert(sizeof(FlowResult) == 16);

// Fixed when the queue pair is created.
struct QpLimits {
  uint32_t qpn = 0;
  uint32_t pd = 0;
  uint32_t max_sge_send = 1;
  uint32_t max_sge_recv = 1;
  uint32_t max_inline = 0;
  bool sq_sig_all = false;
  // RC only. The queue pair is an end of an XRC connection: requests carry an
  // XRCETH, and received requests name their receive queue and domain.
  bool xrc = false;
};

// Set by modify; struct ibv_qp_attr in our units. Each service uses what it
// needs.
struct QpConfig {
  uint32_t dest_qpn = 0;
  uint32_t qkey = 0;    // datagrams
  uint32_t mtu = 1024;  // payload bytes per packet
  Psn rq_psn;
  Psn sq_psn;
  uint32_t access = 0;  // mem::kRemote...
  Duration timeout;     // 0: never
  uint16_t pkey = 0xffff;
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;  // 7: forever
  uint8_t min_rnr_timer = 0;
  uint8_t max_rd_atomic = 1;
  uint8_t max_dest_rd_atomic = 1;
  // On a long path more packets than window_packets may be in flight.
  bool longer_windows = true;
  uint32_t window_packets = 128;
  uint32_t window_bytes = 256 * 1024;
  // RC: the path's static rate, which limits requests; 0: no limit.
  uint64_t bits_per_second = 0;
};

}  // namespace urnic
