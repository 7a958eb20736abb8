#pragma once

// The InfiniBand connection manager of one RNIC: it sets up and ends
// connections by MADs on QP1. Sans-IO: MADs, calls and the time come in; MADs
// and events go out through the Sink. It knows only the numbers of queue pairs.
// The owner changes their states on events.
//
// Thread: one at a time (the holder of the engine's token). Allocates in
// calls and for new requests only, up to Config::max_connections.
//
// A connection, active side:
//   Connect() -> kRepReceived -> [QP to RTR, RTS] SendRtu() -> established
//             -> kRejReceived or kReqError: kIdle
// Passive side:
//   kReqReceived -> Accept() -> kRtuReceived: established (data may come
//                   earlier: EstablishByTraffic())
//                -> Reject(): kIdle
//                Accept() -> kRejReceived: kIdle; kRepError: kTimewait
//                and until it is established, kDisplaced: kIdle
// After a REJ "stale connection", or a REJ after a REP, the state is kTimewait
// (see state()), and kTimewaitExit follows.
// Its end, either side:
//   Disconnect() -> kDrepReceived or kDreqError: kTimewait -> kTimewaitExit
//   kDreqReceived -> SendDrep(): kTimewait -> kTimewaitExit
// Until kTimewaitExit, packets of the connection may still be under way: its QP
// number and communication ids are not used for another one.
//
// When the peer requests or accepts a new connection with a QP of an old one,
// the new one is rejected ("stale connection"; our own request then also ends
// in kRejReceived). If the old one is established, the peer has lost it: it is
// ended as if by Disconnect(). A peer is identified by its address and its CA,
// so a third host cannot take its QPs.
//
// A handle is valid until Destroy(), in any state. A connection in kIdle cannot
// be restarted: destroy it and create a new one.
//
// Not built, and refused: peer-to-peer set-up (two REQs that cross are two
// connections), alternate paths (LAP is answered with an APR "unsupported"),
// reliable datagrams (REJ "invalid transport type"), redirection.
//
// Calls return 0, or an errno and have changed nothing:
//   EBADF      the handle is not in use (or no longer)
//   EINVAL     not in this state, or an argument is out of its range: codes
//              to 31, QPNs and PSNs to 24 bits, counts to the field's width,
//              private data longer than its field
//   EADDRINUSE a listener for this service id exists
//   ENOMEM     Config::max_connections reached, or as many as there are
//              communication ids for (Config::lessor)
//   EISCONN    EstablishByTraffic(): it is established
//   others     Adopt()

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/deadline_heap.h"
#include "transport/cm/held_requests.h"
#include "transport/cm/routing.h"
#include "transport/cm/state_machine.h"
#include "transport/cm/types.h"

namespace urnic::cm {

class ConnectionManager {
 public:
  explicit ConnectionManager(const Config& config);
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  // --- Passive side -------------------------------------------------------
  // Requests whose service id matches in the bits of `mask` give events with
  // `user`. An exact listener precedes a masked one, and an older masked one a
  // younger one. A `mask` of 0 means all ones. A request that arrives just
  // after its last listener has gone waits for the next one (held_requests.h),
  // which gets it in OnTimer().
  int Listen(uint64_t service_id, uint64_t mask, uint64_t user, Handle& out);
  // Destroy() does the same. Requests that were already reported stay.
  int Unlisten(Handle listener);

  // In kReqReceived, kMraReqSent: sends the REP, repeated until it is answered.
  int Accept(Handle handle, const AcceptParams& params, Time now, Sink& sink);
  // While either side sets up the connection: sends a REJ. Afterwards kIdle, or
  // kTimewait if a REP was sent.
  int Reject(Handle handle, const RejectParams& params, Time now, Sink& sink);
  // In kRepSent, kMraRepReceived: data of the peer has arrived, so its RTU is
  // lost or late (IBV_EVENT_COMM_EST; rdma_notify).
  int EstablishByTraffic(Handle handle, Sink& sink);

  // --- Active side --------------------------------------------------------
  // Sends the REQ, repeated until it is answered: each time after 4.096 us *
  // 2^remote_response_timeout_code + 2 * 4.096 us * 2^packet_life_time_code.
  int Connect(const ConnectParams& params, uint64_t user, Time now, Sink& sink,
              Handle& out);
  // In kRepReceived, kMraRepSent: the connection is established.
  // `private_data`: at most wire::kRtuPrivateBytes (224).
  int SendRtu(Handle handle, std::span<const uint8_t> private_data, Sink& sink);

  // --- Either side --------------------------------------------------------
  // In kReqReceived or kRepReceived: the answer may take until the service
  // timeout. An MRA tells the peer so, but only when the peer repeats its
  // message (Linux's rdma_cm does so for each request that it passes to a
  // program).
  int PrepareMra(Handle handle, uint8_t service_timeout_code);
  // In kEstablished: sends the DREQ, repeated until it is answered.
  // `private_data`: at most wire::kDreqPrivateBytes (220).
  int Disconnect(Handle handle, std::span<const uint8_t> private_data, Time now,
                 Sink& sink);
  // In kDreqReceived. `private_data`: at most wire::kDrepPrivateBytes (224).
  int SendDrep(Handle handle, std::span<const uint8_t> private_data, Time now,
               Sink& sink);

  // --- Datagrams (SIDR) ---------------------------------------------------
  int SidrRequest(const SidrRequestParams& params, uint64_t user, Time now,
                  Sink& sink, Handle& out);
  // In kSidrReqReceived; afterwards kIdle. A lost REP is not repeated: the peer
  // sends its request again, which then counts as a new one.
  int SidrReply(Handle handle, const SidrReplyParams& params, Sink& sink);

  // --- All ----------------------------------------------------------------
  // Invalidates the handle; no more events follow. Notifies the peer if
  // necessary: a REJ during set-up (REJ "timeout" for our own REQ), a DREQ if
  // established (repeated, as if by Disconnect()), a DREP for a DREQ. The place
  // becomes free when all that and TIMEWAIT are over. EBADF is the only error.
  int Destroy(Handle handle, Time now, Sink& sink);
  int SetUser(Handle handle, uint64_t user);
  // For a caller that must end: from now on, every unanswered DREQ is repeated
  // each `interval`, `repeats` times; then it is given up. Requests that wait
  // for a listener are rejected. Returns the number of unanswered DREQs;
  // unanswered_dreqs() returns it later.
  uint32_t HurryDisconnects(Duration interval, uint8_t repeats, Time now,
                            Sink& sink);
  uint32_t unanswered_dreqs() const { return routing_.unanswered_dreqs(); }

  // Handles a MAD of class CM that arrived at QP1: `mad` must have 256 bytes.
  // The caller counts the verdict. Only kAccept changes state; other verdicts
  // may send an answer, if their description says so.
  RxVerdict OnMad(std::span<const uint8_t> mad, const net::PathQuery& from,
                  Time now, Sink& sink);
  // Handles all deadlines up to `now`.
  void OnTimer(Time now, Sink& sink);
  Time NextDeadline() const { return std::min(heap_.next(), held_.next()); }

  // --- Moving to another manager (image.h) --------------------------------
  // The communication ids of all connections and resolutions, including those
  // whose handle is destroyed. Another manager should adopt them in this order:
  // half-open ones are ordered by age.
  std::vector<uint32_t> CommIds() const;
  // False: the id is not in use.
  bool Copy(uint32_t local_comm_id, MovedConnection& out) const;
  // Removes a connection that another manager has adopted, and its handle,
  // without a message or an event. EBADF: the id is not in use.
  int Forget(uint32_t local_comm_id);
  // Continues a connection from another manager of this CA, under a new handle.
  // A half-open one belongs to the listener here for its service id. REQUIRES:
  // a state that a connection can be in (image.cc)
  //   EXDEV         of another CA
  //   EEXIST        a connection here has its communication id
  //   EADDRINUSE    the peer's QP, or request, is another connection's here
  //   EACCES        Config::lessor does not give its communication id
  //   ENOMEM
  int Adopt(const MovedConnection& moved, Handle& out);

  // --- Queries ------------------------------------------------------------
  bool Exists(Handle handle) const { return routing_.Find(handle) != nullptr; }
  // kIdle for a handle that is not in use.
  State state(Handle handle) const;
  int GetQpAttributes(Handle handle, QpAttributes& out) const;
  // Communication ids, for tests; 0 for a handle that is not in use.
  uint32_t local_comm_id(Handle handle) const;
  uint32_t remote_comm_id(Handle handle) const;
  // True if a connection of this QP is being set up, established, being ended
  // or in TIMEWAIT, even after its handle was destroyed: the number must not be
  // used for another QP yet.
  bool IsQpnBusy(Qpn qpn) const { return routing_.IsQpnBusy(qpn); }
  // Places in use, including those whose handle is destroyed.
  uint32_t in_use() const { return routing_.in_use(); }
  // Aborts if the tables contradict each other: for tests.
  void CheckInvariants() const;

 private:
  // Runs one step of a connection, `f(step)`, and applies its effects.
  template <typename F>
  auto Take(Place& p, Time now, Sink& sink, const F& f);
  // The same for a handle: EBADF.
  template <typename F>
  int Call(Handle handle, Time now, Sink& sink, const F& f);
  // Updates deadlines and indexes to the state. A connection that is over frees
  // its place.
  void Settle(Place& p, bool answered);
  Place* Allocate();

  // Received messages: each finds its connection, or is answered as a message
  // without one.
  RxVerdict OnReq(const wire::CmReq& req, const net::PathQuery& from, Time now,
                  Sink& sink);
  // Gives the requests that are due by `due` to their listeners, or rejects
  // them.
  void RetryHeld(Time due, Time now, Sink& sink);
  RxVerdict OnRepeatedReq(Place& p, const wire::CmReq& req,
                          const net::PathQuery& from, Time now, Sink& sink);
  RxVerdict OnMra(const wire::CmMra& mra, const net::PathQuery& from, Time now,
                  Sink& sink);
  RxVerdict OnRej(const wire::CmRej& rej, const net::PathQuery& from, Time now,
                  Sink& sink);
  RxVerdict OnRep(const wire::CmRep& rep, const net::PathQuery& from, Time now,
                  Sink& sink);
  RxVerdict OnRtu(const wire::CmRtu& rtu, const net::PathQuery& from, Time now,
                  Sink& sink);
  RxVerdict OnDreq(const wire::CmDreq& dreq, const net::PathQuery& from,
                   Time now, Sink& sink);
  RxVerdict OnDrep(const wire::CmDrep& drep, const net::PathQuery& from,
                   Time now, Sink& sink);
  RxVerdict OnSidrReq(const wire::CmSidrReq& req, const net::PathQuery& from,
                      Time now, Sink& sink);
  RxVerdict OnSidrRep(const wire::CmSidrRep& rep, const net::PathQuery& from,
                      Time now, Sink& sink);
  RxVerdict OnLap(const wire::CmLap& lap, const net::PathQuery& from,
                  Sink& sink);
  // A place for a request of this source to this listener. Null: there is none,
  // and `displaced` says whether there will be one when the peer repeats its
  // request.
  Place* MakeRoom(const net::PathQuery& from, const Place& listener, Time now,
                  Sink& sink, bool* displaced);
  // Makes the request wait for its answer.
  Event Announce(Place& p, const Place& listener, EventKind kind);
  void EndStale(Place& old, Time now, Sink& sink);
  // False: there is nothing to displace.
  bool Displace(Place* p, Time now, Sink& sink);

  const Config config_;
  const StateMachine machine_{config_};
  Routing routing_;
  DeadlineHeap heap_;
  HeldRequests held_;
};

template <typename F>
auto ConnectionManager::Take(Place& p, Time now, Sink& sink, const F& f) {
  Step step{.now = now,
            .sink = sink,
            .handle = routing_.handle(p),
            .answered = routing_.HasAnswered(p)};
  const auto result = f(step);
  Settle(p, step.answered);
  return result;
}

template <typename F>
int ConnectionManager::Call(Handle handle, Time now, Sink& sink, const F& f) {
  Place* p = routing_.Find(handle);
  if (p == nullptr) return EBADF;
  return Take(*p, now, sink, [&](Step& step) { return f(*p, step); });
}

}  // namespace urnic::cm
