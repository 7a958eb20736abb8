#pragma once

// All connections of a manager, and the ways to find one: by handle, by
// communication id, by its peer's names. A communication id is the handle
// under a random mask, so that it needs no table of its own and is not used
// again while its place is taken, nor soon after.

#include <cstdint>
#include <deque>
#include <vector>

#include "transport/cm/connection.h"
#include "transport/base/hash_index.h"

namespace urnic::cm {

class ConnectionTable {
 public:
  explicit ConnectionTable(const Config& config);

  // A connection with default values, a handle and a communication id; null
  // when max_connections are in use.
  Connection* Allocate();
  // REQUIRES: it is in no index but the peers' (it is taken out of these).
  void Free(Connection& connection);

  Handle handle(const Connection& c) const {
    return Handle{c.generation << slot_bits_ | c.slot};
  }
  // Null for nobody's. An orphan is found by its communication id only.
  Connection* Find(Handle handle);
  const Connection* Find(Handle handle) const {
    return const_cast<ConnectionTable*>(this)->Find(handle);
  }
  Connection* FindByCommId(uint32_t local_comm_id);

  // The peer's names of the connection: its CA with its communication id, or
  // the source GID with the request id of a SIDR_REQ; its CA with its QP.
  void IndexPeer(Connection& c);
  void IndexRemoteQp(Connection& c);
  void IndexLocalQp(Connection& c);
  void Unindex(Connection& c);
  Connection* FindByPeer(uint64_t remote_ca_guid, uint32_t remote_comm_id);
  Connection* FindByRemoteQp(uint64_t remote_ca_guid, Qpn remote_qpn);
  Connection* FindSidr(const wire::Gid& remote_gid, uint32_t request_id);
  bool HasLocalQp(Qpn qpn) const;

  // Listeners: service_id and service_mask are set.
  void AddListener(Connection& listener);
  void RemoveListener(Connection& listener);
  // Same mask, same id.
  bool HasListener(uint64_t service_id, uint64_t mask) const;
  Connection* FindListener(uint64_t service_id);

  uint32_t in_use() const { return in_use_; }
  uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
  Connection& slot(uint32_t i) { return slots_[i]; }
  const Connection& slot(uint32_t i) const { return slots_[i]; }

 private:
  uint64_t PeerHash(const Connection& c) const;
  uint64_t SidrHash(const wire::Gid& remote_gid, uint32_t request_id) const;
  uint64_t Hash(uint64_t a, uint64_t b) const { return HashKey(salt_, a, b); }

  const uint32_t max_;
  const uint32_t slot_bits_;
  const uint32_t comm_id_mask_;
  const uint64_t salt_;
  std::deque<Connection> slots_;  // grows; addresses stay
  // Places that are free again, the longest unused first: a ring through
  // `next_free_`.
  std::vector<uint32_t> next_free_;
  uint32_t first_free_ = HashIndex::kNone;
  uint32_t last_free_ = HashIndex::kNone;
  uint32_t in_use_ = 0;

  HashIndex peers_;
  HashIndex remote_qps_;
  HashIndex local_qps_;
  HashIndex listeners_;
  std::vector<uint32_t> masked_listeners_;  // the oldest first
};

}  // namespace urnic::cm
