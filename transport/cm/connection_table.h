#pragma once

// All connections of a manager, and the ways to find one: by handle, by
// communication id, by its peer's names. A communication id is the handle under
// a keyed permutation. So it needs no table, is not reused while its place is
// taken or soon after, and reveals nothing about other ids. A connection from
// another manager keeps the id that its peer knows; those ids have an index.

#include <cstdint>
#include <deque>
#include <vector>

#include "transport/base/hash_index.h"
#include "transport/cm/connection.h"

namespace urnic::cm {

// The place of a connection, a resolution or a listener, with its index
// entries.
struct Place : Connection {
  uint32_t slot = 0;  // fixed
  uint32_t generation = 0;
  bool used = false;
  uint64_t service_mask = 0;  // of a listener

  // See half_open.h; `source` is its index there.
  bool half_open = false;
  bool displaced = false;  // free when its owner destroys it
  uint32_t source = UINT32_MAX;
  bool awaits_drep = false;  // counted by Routing

  // The indexes of the table that contain it.
  bool in_peer_index = false;
  bool in_remote_qp_index = false;
  bool in_local_qp_index = false;
  uint64_t peer_hash = 0;  // its key in the peer index

  bool adopted = false;       // its communication id does not follow from it
  bool leased_alone = false;  // its id is not in the table's range
};

class ConnectionTable {
 public:
  explicit ConnectionTable(const Config& config);
  ~ConnectionTable();
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;

  // A connection with default values, a handle and a communication id. Null:
  // all are in use, or connections from another manager use all ids of the
  // place.
  Place* Allocate();
  // The same with this communication id. Also null if the lessor does not lease
  // it. REQUIRES: the id is not in use here.
  Place* Adopt(uint32_t comm_id);
  // REQUIRES: it is over, or a listener that was removed.
  void Free(Place& p);

  Handle handle(const Place& p) const {
    return Handle{p.generation << slot_bits_ | p.slot};
  }
  // Null: no connection has it. An orphan is found by its communication id
  // only.
  Place* Find(Handle handle);
  const Place* Find(Handle handle) const {
    return const_cast<ConnectionTable*>(this)->Find(handle);
  }
  Place* FindByCommId(uint32_t local_comm_id);

  // Updates the indexes when the state of the connection may have changed. It
  // is found by its local queue pair and by the peer's names: address and CA
  // with the communication id, address with the request id of a SIDR_REQ,
  // address and CA with the QP. The address is always part of the key, because
  // anyone can write the rest into a message. connection.h says how long it can
  // be found.
  void Index(Place& p);
  Place* FindByPeer(const wire::Gid& remote_gid, uint64_t remote_ca_guid,
                    uint32_t remote_comm_id);
  Place* FindByRemoteQp(const wire::Gid& remote_gid, uint64_t remote_ca_guid,
                        Qpn remote_qpn);
  Place* FindSidr(const wire::Gid& remote_gid, uint32_t request_id);
  bool HasLocalQp(Qpn qpn) const;

  // Listeners: service_id and service_mask are set.
  void AddListener(Place& listener);
  void RemoveListener(Place& listener);
  // The listener with the same mask and id.
  bool HasListener(uint64_t service_id, uint64_t mask) const;
  Place* FindListener(uint64_t service_id);

  uint32_t in_use() const { return in_use_; }
  bool full() const { return in_use_ == max_; }
  uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
  uint64_t salt() const { return salt_; }
  Place& slot(uint32_t i) { return slots_[i]; }
  const Place& slot(uint32_t i) const { return slots_[i]; }

 private:
  uint32_t CommIdOf(uint32_t handle) const {
    return ids_.first + (comm_ids_(handle) ^ comm_id_mask_);
  }
  // Without a communication id; null: all are in use.
  Place* TakePlace();
  uint32_t NextGeneration(uint32_t generation) const;  // never 0
  Place* FindAdopted(uint32_t comm_id);
  void GiveBack(const Place& p);
  uint64_t PeerHash(const Connection& c) const;
  uint64_t RemoteQpHash(const Connection& c) const;
  uint64_t SidrHash(const wire::Gid& remote_gid, uint32_t request_id) const;
  uint64_t Hash(uint64_t a, uint64_t b) const { return HashKey(salt_, a, b); }
  uint64_t Hash(const wire::Gid& gid, uint64_t a, uint64_t b) const {
    return HashKey(Hash(gid.word(0), gid.word(1)), a, b);
  }

  Lessor* const lessor_;  // null: all communication ids are ours
  const NumberRange ids_;
  const uint32_t id_bits_;  // also the bits of a handle
  const uint32_t max_;
  const uint32_t slot_bits_;
  const Permutation comm_ids_;
  const uint32_t comm_id_mask_;  // makes the first id the caller's
  const uint64_t salt_;
  std::deque<Place> slots_;  // grows; addresses stay
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
  HashIndex adopted_;
  std::vector<uint32_t> masked_listeners_;  // the oldest first
};

}  // namespace urnic::cm
