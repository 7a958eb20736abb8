#pragma once

// What is known of one connection, or of one datagram resolution (SIDR): a
// value, with which it could go on anywhere. What it does is state_machine.h;
// how it is found is connection_table.h.

#include "transport/cm/types.h"

namespace urnic::cm {

struct Connection {
  State state = State::kIdle;
  // The handle is destroyed; what is still going on ends by itself.
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

  // The next repetition of what waits for an answer, or the end of TIMEWAIT.
  Time deadline = Time::Infinite();
  uint8_t max_cm_retries = 0;
  uint8_t retries_left = 0;
  uint8_t retries_withheld = 0;  // of a REP: kUnansweredRepRepeats
  Duration timeout;              // of a REQ, REP, DREQ
  Duration repeat_after;  // of the message that is being repeated: an MRA
                          // lengthens it

  // The last message that was sent (of a MRA: is to be, when asked for): for
  // repetitions of ours and of the peer's.
  uint16_t sent_attribute = 0;
  uint8_t sent[wire::kMadBytes] = {};
};

// All that one manager knows of a connection, for another one of the same CA.
struct MovedConnection {
  uint64_t ca_guid = 0;
  // Something has come from its peer's address that only its owner can have
  // sent (half_open.h).
  bool answered = false;
  bool displaced = false;  // its owner has been told to destroy it
  Connection connection;
};

// A peer has asked, and has not confirmed the answer (HalfOpen).
inline constexpr bool IsHalfOpen(State state) {
  return state == State::kReqReceived || state == State::kMraReqSent ||
         state == State::kRepSent || state == State::kMraRepReceived ||
         state == State::kSidrReqReceived;
}

// By what of its peer's it can be found, and what it keeps from being used for
// another one: as long as it is not over.
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

// A message that names a connection comes from where its peer is.
inline bool IsFromPeer(const Connection& c, const net::PathQuery& from) {
  return c.mad_path.remote == from.remote;
}

}  // namespace urnic::cm
