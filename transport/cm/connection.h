#pragma once

// The state of one connection, or of one datagram resolution (SIDR): a value
// with which it can continue in any manager. state_machine.h has its behaviour;
// connection_table.h finds it.

#include "transport/cm/types.h"

namespace urnic::cm {

struct Connection {
  State state = State::kIdle;
  // The handle is destroyed; the rest of the protocol ends by itself.
  bool orphan = false;
  bool passive = false;
  bool alternate_path = false;  // the REQ had one
  bool has_local_qpn = false;   // a passive side has none before Accept()

  Service service = Service::kRc;
  uint64_t user = 0;
  uint64_t service_id = 0;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;  // 0: not known yet
  uint64_t remote_ca_guid = 0;
  uint64_t transaction_id = 0;
  net::PathQuery mad_path;
  net::PathQuery path;  // seen from here
  uint8_t packet_rate = 0;
  uint8_t mtu_code = 0;

  Qpn local_qpn;
  Qpn remote_qpn;
  Psn send_psn;
  Psn receive_psn;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t ack_timeout_code = 0;
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;

  // The next repetition of an unanswered message, or the end of TIMEWAIT.
  Time deadline = Time::Infinite();
  uint8_t max_cm_retries = 0;
  uint8_t retries_left = 0;
  uint8_t retries_withheld = 0;  // of a REP: kUnansweredRepRepeats
  Duration timeout;              // of a REQ, REP, DREQ
  Duration repeat_after;         // of the repeated message; an MRA
                                 // extends it

  // The last message that was sent, or a prepared MRA. Kept to be repeated by
  // the timer, or when the peer repeats its own message.
  uint16_t sent_attribute = 0;
  uint8_t sent[wire::kMadBytes] = {};
};

// All that a manager knows of a connection, for another manager of the same CA.
struct MovedConnection {
  uint64_t ca_guid = 0;
  // The peer's address has sent something that only its owner can have sent
  // (half_open.h).
  bool answered = false;
  bool displaced = false;  // the owner was told to destroy it
  Connection connection;
};

// A peer has sent a request, and has not confirmed our answer (HalfOpen).
inline constexpr bool IsHalfOpen(State state) {
  return state == State::kReqReceived || state == State::kMraReqSent ||
         state == State::kRepSent || state == State::kMraRepReceived ||
         state == State::kSidrReqReceived;
}

// By what a connection is found, and what no other one may use until it is
// over: the peer's id, the peer's QP, our QP.
inline constexpr bool IsOver(State state) {
  return state == State::kIdle || state == State::kListen;
}
inline bool KnowsPeersId(const Connection& c) {
  return !IsOver(c.state) &&
         (c.remote_comm_id != 0 || c.state == State::kSidrReqReceived);
}
inline bool HoldsRemoteQp(const Connection& c) {
  return KnowsPeersId(c) && c.state != State::kSidrReqReceived;
}
inline bool HoldsLocalQp(const Connection& c) {
  return !IsOver(c.state) && c.has_local_qpn;
}

// True if a message that names this connection comes from its peer's address.
inline bool IsFromPeer(const Connection& c, const net::PathQuery& from) {
  return c.mad_path.remote == from.remote;
}

}  // namespace urnic::cm
