#pragma once

// The inputs and outputs of the connection manager. All are values; nothing
// here does I/O (docs/design/0001-sans-io.md).
//
// Times that the protocol carries are codes of 5 bits: 4.096 us * 2^code. They
// are called `..._code` here.

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/ids.h"
#include "transport/base/lessor.h"
#include "transport/base/permutation.h"
#include "transport/base/psn.h"
#include "transport/base/time.h"
#include "transport/net/path.h"
#include "transport/wire/cm_messages.h"

namespace urnic::cm {

// A listener, a connection or a datagram resolution (SIDR). A small integer,
// never a pointer. A destroyed handle is recognized (EBADF), even after its
// place was reused. 0 is invalid.
struct Handle {
  uint32_t value = 0;
  bool valid() const { return value != 0; }
  friend constexpr bool operator==(Handle, Handle) = default;
};

// The transport service of a connection.
enum class Service : uint8_t {
  kRc = 0,
  kUc = 1,
  // The side that connects has an XRC initiator QP, the one that accepts an
  // XRC target QP.
  kXrc = 3,
};

enum class State : uint8_t {
  kIdle,         // unused, or failed
  kListen,       //
  kReqSent,      // active side
  kReqReceived,  // passive side
  kMraReqSent,
  kMraReqReceived,
  kRepSent,
  kRepReceived,
  kMraRepSent,
  kMraRepReceived,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimewait,
  kSidrReqSent,
  kSidrReqReceived,
};

// Enhanced connection establishment: options that providers of one vendor
// exchange (rdma_set_local_ece()). Passed through; `vendor_id` has 24 bits.
struct Ece {
  uint32_t vendor_id = 0;
  uint32_t options = 0;
};

struct ConnectParams {
  uint64_t service_id = 0;
  // The path of its MADs, passed with each of them. A MAD that names the
  // connection but does not come from `remote` is not the peer's.
  net::PathQuery mad_path;
  // The path for data that the REQ proposes. A hop limit of 1 or 0 means "same
  // subnet" (as in Linux for RoCE v1).
  net::PathQuery path;
  uint8_t packet_rate = 0;             // codes as in a path record
  uint8_t mtu_code = 3;                // 1 = 256 ... 5 = 4096
  uint8_t packet_life_time_code = 16;  // Linux' figure for RoCE
  Service service = Service::kRc;
  Qpn qpn;
  Psn starting_psn;  // of the peer's first packet
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retry_count = 7;
  uint8_t rnr_retry_count = 7;
  bool srq = false;
  bool flow_control = false;
  // How long the peer's CM may take to answer, and ours.
  uint8_t remote_response_timeout_code = 20;
  uint8_t local_response_timeout_code = 20;
  uint8_t max_cm_retries = 15;
  Ece ece;
  // At most wire::kReqPrivateBytes (92), the RDMA IP CM header included.
  std::span<const uint8_t> private_data;
};

struct AcceptParams {
  Qpn qpn;
  Psn starting_psn;  // of the peer's first packet
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t rnr_retry_count = 7;
  bool srq = false;
  bool flow_control = false;
  Ece ece;
  // At most wire::kRepPrivateBytes (196).
  std::span<const uint8_t> private_data;
};

struct RejectParams {
  uint16_t reason = wire::kRejConsumerDefined;
  // At most wire::kRejAriBytes (72) and wire::kRejPrivateBytes (148).
  std::span<const uint8_t> ari;
  std::span<const uint8_t> private_data;
};

struct SidrRequestParams {
  uint64_t service_id = 0;
  net::PathQuery mad_path;
  uint16_t pkey = 0xffff;
  uint8_t response_timeout_code = 20;
  uint8_t packet_life_time_code = 16;
  uint8_t max_cm_retries = 15;
  // At most wire::kSidrReqPrivateBytes (216).
  std::span<const uint8_t> private_data;
};

struct SidrReplyParams {
  uint8_t status = wire::kSidrSuccess;
  Qpn qpn;
  uint32_t qkey = 0;
  // At most wire::kSidrRepInfoBytes (72) and wire::kSidrRepPrivateBytes (136).
  std::span<const uint8_t> info;
  std::span<const uint8_t> private_data;
};

// The attributes that the connection's QP must get, as from
// ib_cm_init_qp_attr() in Linux. Complete from kReqReceived (passive) or
// kRepReceived (active) on. On the passive side, `initiator_depth` and
// `responder_resources` are final after Accept().
struct QpAttributes {
  Service service = Service::kRc;
  bool passive = false;
  Qpn local_qpn;
  Qpn remote_qpn;
  Psn send_psn;
  Psn receive_psn;
  net::PathQuery path;  // seen from here
  uint8_t mtu_code = 0;
  uint8_t responder_resources = 0;  // max_dest_rd_atomic
  uint8_t initiator_depth = 0;      // max_rd_atomic
  uint8_t ack_timeout_code = 0;
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
};

enum class EventKind : uint8_t {
  kReqReceived,  // a new connection; the caller must destroy `handle`
  kRepReceived,
  kRtuReceived,
  kUserEstablished,  // EstablishByTraffic()
  kRejReceived,
  kMraReceived,
  kDreqReceived,
  kDrepReceived,
  kTimewaitExit,
  kReqError,  // no answer after all retries
  kRepError,
  kDreqError,
  // An unconfirmed request of a peer was displaced by another one
  // (half_open.h): kIdle. The peer gets no message and may repeat its request.
  kDisplaced,
  kSidrReqReceived,  // `handle` is new; the caller must destroy it
  kSidrRepReceived,
  kSidrReqError,
};

// One event. Spans and pointers are valid during the call only.
struct Event {
  EventKind kind = EventKind::kReqReceived;
  Handle handle;
  uint64_t user = 0;  // of `handle`; in kReqReceived, of the listener
  // k...ReqReceived: the listener that matched, and the path of the MAD.
  Handle listener;
  const net::PathQuery* from = nullptr;
  uint64_t service_id = 0;  // of REQ, SIDR_REQ and SIDR_REP

  // kReqReceived, kRepReceived: the peer's proposal. The path (of a REQ) is
  // from our point of view: local is ours.
  Service service = Service::kRc;
  net::PathQuery path;
  uint8_t packet_rate = 0;
  uint8_t mtu_code = 0;
  uint64_t remote_ca_guid = 0;
  Qpn remote_qpn;  // of SIDR_REP too
  Psn starting_psn;
  uint8_t responder_resources = 0;  // as the peer wrote them: its own view
  uint8_t initiator_depth = 0;
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
  uint8_t target_ack_delay_code = 0;         // REP
  uint8_t ack_timeout_code = 0;              // REQ
  uint8_t remote_response_timeout_code = 0;  // REQ: what the peer grants us
  uint8_t local_response_timeout_code = 0;   // REQ: the peer's own
  uint8_t max_cm_retries = 0;
  bool srq = false;
  bool flow_control = false;
  Ece ece;

  // kRejReceived
  uint16_t reject_reason = 0;
  uint8_t message_rejected = 0;  // wire::kCmMessageReq...
  std::span<const uint8_t> ari;  // also the SIDR_REP's additional information

  uint8_t service_timeout_code = 0;  // kMraReceived

  // kSidrReqReceived, kSidrRepReceived
  uint16_t pkey = 0;
  uint8_t sidr_status = 0;
  uint32_t qkey = 0;

  // The whole field, because its used length is not on the wire.
  std::span<const uint8_t> private_data;
};

// Receives the effects of the manager. Called from within a call of the
// manager; must not call the manager.
class Sink {
 public:
  virtual void SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
                       const net::PathQuery& to) = 0;
  virtual void OnEvent(const Event& event) = 0;

 protected:
  ~Sink() = default;
};

// The longest time that a peer may make us wait for one answer. Larger codes in
// its messages count as this one (69 s).
inline constexpr uint8_t kLongestGrantCode = 24;

// How often a REP is repeated to an address that has sent nothing but requests,
// which anyone can forge. With the REP itself and the REJ at the end, one
// datagram causes at most 5; the peer's REQ would allow 17. The repetitions are
// for a lost RTU. A lost REP does not need them: it is sent again whenever the
// peer repeats its REQ. At 10 % loss this limit costs one connection in 1500
// (0.1 * 0.19^3), and only the first one of a host: an address that has
// answered once, even with an MRA, gets every repetition that its request
// allows.
inline constexpr uint8_t kUnansweredRepRepeats = 3;
// The limit of TIMEWAIT for such an address (1.07 s, as with a Linux peer),
// whatever its request said: no packets are known to be under way.
inline constexpr uint8_t kUnansweredTimewaitCode = 18;

// Fixed when the manager is made.
struct Config {
  uint64_t ca_guid = 0;  // the node GUID
  // Random, so that a peer can tell a restarted program from the old one.
  uint32_t first_communication_id = 1;
  // Random: determines the order of the other ids, so that they cannot be
  // guessed. An attacker who knows an id and can send from the peer's address
  // can end the connection.
  NumberKey number_key;
  // Leases communication ids (NumberSpace::kCommId); outlives the manager. The
  // manager takes one range, and has at most half as many connections. Null:
  // the manager may use all ids.
  Lessor* lessor = nullptr;
  // The upper half of transaction ids.
  uint32_t transaction_prefix = 1;
  // Listeners, connections and resolutions together, including those in
  // TIMEWAIT and those that are destroyed but not yet over. At most
  // kConnectionsMax. Memory grows with use, to about 600 bytes for each.
  uint32_t max_connections = 65536;
  // Limits of half-open connections, for one source address and for one
  // listener. Beyond the limit, the oldest is displaced (half_open.h). A
  // well-behaved host that starts 3000 connections at a time stays below
  // it. Beyond that its requests take longer, because it repeats a REQ.
  uint32_t max_half_open_per_source = 3072;
  uint32_t max_half_open_per_listener = 4096;
  // The acknowledgement delay of this RNIC (local_ca_ack_delay).
  uint8_t ack_delay_code = 15;
};
inline constexpr uint32_t kConnectionsMax = 1u << 20;

}  // namespace urnic::cm
