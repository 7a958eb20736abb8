#pragma once

// Finds the receiver of a message of the connection manager: the connection
// that it names, the listener of its service, or an older connection that
// conflicts with it. Also decides whether there is room for another connection.
// It only looks at connections; state_machine.h changes their state.

#include <cstdint>

#include "transport/cm/connection_table.h"
#include "transport/cm/half_open.h"
#include "transport/cm/types.h"

namespace urnic::cm {

class Routing {
 public:
  explicit Routing(const Config& config);

  // --- Places --------------------------------------------------------------
  // Null: all are in use. The caller starts it, then calls Settle().
  Place* Allocate();
  // The same with this communication id. REQUIRES: it is not in use here.
  Place* Adopt(uint32_t comm_id);
  // REQUIRES: it is over, and Settle() was called since.
  void Free(Place& p);
  // Null: no connection has it, or its handle is destroyed.
  Place* Find(Handle handle) { return table_.Find(handle); }
  const Place* Find(Handle handle) const { return table_.Find(handle); }
  Handle handle(const Place& p) const { return table_.handle(p); }
  uint32_t slots() const { return table_.slots(); }
  Place& slot(uint32_t i) { return table_.slot(i); }
  const Place& slot(uint32_t i) const { return table_.slot(i); }
  uint32_t in_use() const { return table_.in_use(); }
  bool full() const { return table_.full(); }
  bool IsQpnBusy(Qpn qpn) const { return table_.HasLocalQp(qpn); }

  // From now on the peer of the connection is mad_path.remote.
  void Attach(Place& p) { half_open_.Attach(p); }
  // True if the peer's address has sent something that only its owner can have
  // sent.
  bool HasAnswered(const Place& p) const { return half_open_.HasAnswered(p); }
  // Call it after each step: updates the indexes for its new state.
  void Settle(Place& p, bool answered);

  // --- Whom a message is for -----------------------------------------------
  // By our communication id, whatever the peer's is.
  Place* FindOurs(uint32_t ours) { return table_.FindByCommId(ours); }
  const Place* FindOurs(uint32_t ours) const {
    return const_cast<Routing*>(this)->FindOurs(ours);
  }
  // The connection with these two ids that is not over.
  Place* FindPair(uint32_t ours, uint32_t theirs);
  // The connection that a REJ refers to. A REJ can name it in three ways.
  Place* FindRejected(const wire::CmRej& rej, const net::PathQuery& from);
  // The connection with this id of a peer.
  Place* FindTheirs(const net::PathQuery& from, uint64_t guid, uint32_t theirs);
  Place* FindSidr(const net::PathQuery& from, uint32_t request_id) {
    return table_.FindSidr(from.remote, request_id);
  }
  //= IBTA 12.9.8.3.1: a queue pair of the peer is in one connection; a REQ or
  //= REP that names it for a second connection ends the first
  // The connection that already uses this queue pair of the peer.
  Place* FindStale(const net::PathQuery& from, uint64_t guid, Qpn remote_qpn) {
    return table_.FindByRemoteQp(from.remote, guid, remote_qpn);
  }

  // --- Listeners -----------------------------------------------------------
  bool HasListener(uint64_t service_id, uint64_t mask) const {
    return table_.HasListener(service_id, mask);
  }
  // REQUIRES: its service_id and service_mask are set.
  void AddListener(Place& p) { table_.AddListener(p); }
  // Its requests stay, without a listener.
  void RemoveListener(Place& p);
  const Place* FindListener(uint64_t service_id) {
    return table_.FindListener(service_id);
  }

  // --- Room ----------------------------------------------------------------
  // `p` is a request for this listener; null: the listener is gone.
  void AddHalfOpen(Place& p, const Place* listener) {
    half_open_.Add(p, listener == nullptr ? HalfOpen::kNone : listener->slot);
  }
  // The connection that must be displaced before another request of this source
  // for this listener is accepted; null: none.
  Place* InTheWayOf(const net::PathQuery& from, const Place& listener) {
    return At(half_open_.InTheWayOf(from.remote, listener.slot));
  }
  Place* OldestHalfOpen() { return At(half_open_.oldest()); }
  // Calls `f(place)` for everything except listeners: the half-open ones first,
  // the oldest first.
  template <typename F>
  void ForEach(const F& f) const;
  // It was displaced; its place becomes free when its owner destroys it.
  void SetDisplaced(Place& p);
  // True if the table is full, but a place will become free when the owner of a
  // displaced connection destroys it. Until then, no other connection must be
  // displaced.
  bool AwaitsRoom() const { return displaced_ != 0 && table_.full(); }

  // The number of connections whose DREQ is not answered.
  uint32_t unanswered_dreqs() const { return unanswered_dreqs_; }

  void CheckInvariants() const;

 private:
  Place* At(uint32_t slot) {
    return slot == HalfOpen::kNone ? nullptr : &table_.slot(slot);
  }

  ConnectionTable table_;
  HalfOpen half_open_;
  uint32_t displaced_ = 0;  // and not yet destroyed
  uint32_t unanswered_dreqs_ = 0;
};

template <typename F>
void Routing::ForEach(const F& f) const {
  for (uint32_t i = half_open_.oldest(); i != HalfOpen::kNone;
       i = half_open_.YoungerThan(i)) {
    f(slot(i));
  }
  for (uint32_t i = 0; i < slots(); ++i) {
    const Place& p = slot(i);
    if (p.used && !p.half_open && p.state != State::kListen) f(p);
  }
}

}  // namespace urnic::cm
