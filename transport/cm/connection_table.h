#pragma once

// All connections of a manager, and the ways to find one: by handle, by
// communication id, by its peer's names. A communication id is the handle
// under a keyed permutation, so that it needs no table of its own, is not used
// again while its place is taken, nor soon after, and says nothing of others.

#include <cstdint>
#include <deque>
#include <vector>

#include "transport/base/hash_index.h"
#include "transport/cm/connection.h"

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

  // The peer's names of the connection: its address and CA with its
  // communication id, or its address with the request id of a SIDR_REQ; its
  // address and CA with its QP. The address always belongs to it: the rest is
  // anybody's to write into a message.
  void IndexPeer(Connection& c);
  void IndexRemoteQp(Connection& c);
  void IndexLocalQp(Connection& c);
  void Unindex(Connection& c);
  Connection* FindByPeer(const wire::Gid& remote_gid, uint64_t remote_ca_guid,
                         uint32_t remote_comm_id);
  Connection* FindByRemoteQp(const wire::Gid& remote_gid,
                             uint64_t remote_ca_guid, Qpn remote_qpn);
  Connection* FindSidr(const wire::Gid& remote_gid, uint32_t request_id);
  bool HasLocalQp(Qpn qpn) const;

  // Listeners: service_id and service_mask are set.
  void AddListener(Connection& listener);
  void RemoveListener(Connection& listener);
  // Same mask, same id.
  bool HasListener(uint64_t service_id, uint64_t mask) const;
  Connection* FindListener(uint64_t service_id);

  uint32_t in_use() const { return in_use_; }
  bool full() const { return in_use_ == max_; }
  uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
  uint64_t salt() const { return salt_; }
  Connection& slot(uint32_t i) { return slots_[i]; }
  const Connection& slot(uint32_t i) const { return slots_[i]; }

 private:
  uint32_t CommIdOf(uint32_t handle) const {
    return comm_ids_(handle) ^ comm_id_mask_;
  }
  uint64_t PeerHash(const Connection& c) const;
  uint64_t RemoteQpHash(const Connection& c) const;
  uint64_t SidrHash(const wire::Gid& remote_gid, uint32_t request_id) const;
  uint64_t Hash(uint64_t a, uint64_t b) const { return HashKey(salt_, a, b); }
  uint64_t Hash(const wire::Gid& gid, uint64_t a, uint64_t b) const {
    return HashKey(Hash(gid.word(0), gid.word(1)), a, b);
  }

  const uint32_t max_;
  const uint32_t slot_bits_;
  const Permutation comm_ids_;
  const uint32_t comm_id_mask_;  // which makes the first one the caller's
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
