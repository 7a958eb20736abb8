#pragma once

// The state machine of one connection, or of one datagram resolution: how
// calls, messages of its peer, and time change it. It knows no other
// connection. The ConnectionManager has already checked that a message is meant
// for this connection, comes from its peer's address, and does not belong to an
// older connection.
//
// After a step, the Connection holds all state, including the next deadline.
// The effects of a step go to its Sink. Any StateMachine with the same Config
// can continue with a Connection that another one has left.

#include <cstdint>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/cm/connection.h"
#include "transport/cm/types.h"

namespace urnic::cm {

// The inputs of a step.
struct Step {
  Time now;
  Sink& sink;
  Handle handle;  // names the connection in events
  // The peer's address has sent something that only its owner can have sent,
  // before this step or in it.
  bool answered = false;
};

class StateMachine {
 public:
  // `config` outlives it.
  explicit StateMachine(const Config& config) : config_(config) {}

  // --- Starting a connection that has its local_comm_id --------------------
  // REQUIRES: Check(params) == 0
  void Connect(Connection& c, const ConnectParams& params, uint64_t user,
               Step& step) const;
  void RequestSidr(Connection& c, const SidrRequestParams& params,
                   uint64_t user, Step& step) const;
  // From a received request: only stores its contents, and reports no event.
  static void Begin(Connection& c, const wire::CmReq& req, Service service,
                    const net::PathQuery& from);
  static void Begin(Connection& c, const wire::CmSidrReq& req,
                    const net::PathQuery& from);

  // --- Calls: as in ConnectionManager, without EBADF -----------------------
  int Accept(Connection& c, const AcceptParams& params, Step& step) const;
  int Reject(Connection& c, const RejectParams& params, Step& step) const;
  int EstablishByTraffic(Connection& c, Step& step) const;
  int SendRtu(Connection& c, std::span<const uint8_t> private_data,
              Step& step) const;
  int PrepareMra(Connection& c, uint8_t service_timeout_code) const;
  int Disconnect(Connection& c, std::span<const uint8_t> private_data,
                 Step& step) const;
  int SendDrep(Connection& c, std::span<const uint8_t> private_data,
               Step& step) const;
  int SidrReply(Connection& c, const SidrReplyParams& params, Step& step) const;
  // Afterwards the connection has no owner, and is removed when it is kIdle.
  void Destroy(Connection& c, Step& step) const;
  static int GetQpAttributes(const Connection& c, QpAttributes& out);

  // --- Other inputs --------------------------------------------------------
  // Another connection needs its place.
  void Displace(Connection& c, Step& step) const;
  // The peer has lost this connection: its queue pair is in another one.
  void EndStale(Connection& c, Step& step) const;
  // In kDreqSent: the caller has no time left (HurryDisconnects()).
  static void Hurry(Connection& c, Duration interval, uint8_t repeats,
                    Time now);
  // REQUIRES: step.now >= c.deadline
  void OnDeadline(Connection& c, Step& step) const;

  // --- Messages of its peer ------------------------------------------------
  RxVerdict OnRepeatedReq(Connection& c, Step& step) const;
  RxVerdict OnMra(Connection& c, const wire::CmMra& mra, Step& step) const;
  RxVerdict OnRej(Connection& c, const wire::CmRej& rej, Step& step) const;
  // In kReqSent, kMraReqReceived: the first REP.
  RxVerdict OnRep(Connection& c, const wire::CmRep& rep, Step& step) const;
  // The same, but the peer's queue pair is in another connection.
  RxVerdict OnStaleRep(Connection& c, Step& step) const;
  RxVerdict OnRepeatedRep(Connection& c, const wire::CmRep& rep,
                          Step& step) const;
  RxVerdict OnRtu(Connection& c, const wire::CmRtu& rtu, Step& step) const;
  RxVerdict OnDreq(Connection& c, const wire::CmDreq& dreq, Step& step) const;
  RxVerdict OnDrep(Connection& c, const wire::CmDrep& drep, Step& step) const;
  RxVerdict OnSidrRep(Connection& c, const wire::CmSidrRep& rep,
                      const net::PathQuery& from, Step& step) const;
  static bool AwaitsRep(const Connection& c) {
    return c.state == State::kReqSent || c.state == State::kMraReqReceived;
  }
  static Qpn RemoteQpn(const Connection& c, const wire::CmRep& rep) {
    return c.service == Service::kXrc ? Qpn{rep.local_eecn()} : rep.local_qpn();
  }

  // Aborts if the members contradict the state: for tests.
  static void CheckInvariants(const Connection& c);

 private:
  // Also stops the repetition of a message.
  static void SetState(Connection& c, State state);
  static void EnterTimewait(Connection& c, const Step& step);
  // Sends the stored message; the second function repeats it until an answer
  // arrives.
  static void SendStored(const Connection& c, const Step& step);
  static void SendRepeatedly(Connection& c, const Step& step);
  static void SendReject(Connection& c, const RejectParams& params,
                         const Step& step);
  void SendRejectTimeout(Connection& c, const Step& step) const;
  void SendDreq(Connection& c, std::span<const uint8_t> private_data,
                const Step& step) const;
  static void AnswerDreq(Connection& c, std::span<const uint8_t> private_data,
                         const Step& step);
  static Event EventOf(const Connection& c, EventKind kind, const Step& step);
  static void Emit(const Connection& c, EventKind kind, const Step& step);
  uint64_t NewTransactionId(const Connection& c) const;

  const Config& config_;
};

}  // namespace urnic::cm
