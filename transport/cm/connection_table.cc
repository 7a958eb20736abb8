#include "transport/cm/connection_table.h"

#include <algorithm>
#include <bit>

#include "transport/base/mutation.h"

namespace urnic::cm {
namespace {

constexpr uint32_t kListenerBuckets = 1024;
constexpr uint32_t kAdoptedBuckets = 1024;
constexpr uint32_t kLeastIdBits = 2;

NumberRange LeaseIds(const Config& config) {
  if (config.lessor == nullptr) return {0, uint64_t{1} << 32};
  return config.lessor->Lease(NumberSpace::kCommId);
}

// A handle contains a place and a generation that is not 0.
uint32_t MostOf(const Config& config, const NumberRange& ids) {
  URNIC_CHECK(config.max_connections >= 1 &&
              config.max_connections <= kConnectionsMax);
  return static_cast<uint32_t>(
      std::min<uint64_t>(config.max_connections, ids.count / 2));
}

uint32_t SlotBits(uint32_t max) {
  return max <= 2 ? 1 : static_cast<uint32_t>(std::bit_width(max - 1));
}

}  // namespace

ConnectionTable::ConnectionTable(const Config& config)
    : lessor_(config.lessor),
      ids_(LeaseIds(config)),
      id_bits_(ids_.count == 0
                   ? kLeastIdBits
                   : static_cast<uint32_t>(std::countr_zero(ids_.count))),
      max_(MostOf(config, ids_)),
      slot_bits_(SlotBits(max_)),
      comm_ids_(config.number_key.For(0), id_bits_),
      // The first handle is generation 1 of place 0.
      comm_id_mask_(
          (config.first_communication_id ^ comm_ids_(1u << slot_bits_)) &
          UINT32_MAX >> (32 - id_bits_)),
      salt_(SipHash(config.number_key.For(1), config.first_communication_id)),
      peers_(config.max_connections),
      remote_qps_(config.max_connections),
      local_qps_(config.max_connections),
      listeners_(kListenerBuckets),
      adopted_(kAdoptedBuckets) {
  URNIC_CHECK(ids_.count == 0 ||
              (std::has_single_bit(ids_.count) && id_bits_ >= kLeastIdBits));
}

ConnectionTable::~ConnectionTable() {
  for (const Place& p : slots_) GiveBack(p);
  if (lessor_ != nullptr && ids_.count != 0) {
    lessor_->GiveBack(NumberSpace::kCommId, ids_);
  }
}

Place* ConnectionTable::TakePlace() {
  if (in_use_ == max_) return nullptr;
  uint32_t at = first_free_;
  if (at != HashIndex::kNone) {
    first_free_ = next_free_[at];
    if (first_free_ == HashIndex::kNone) last_free_ = HashIndex::kNone;
  } else {
    at = slots();
    slots_.emplace_back();
    next_free_.push_back(HashIndex::kNone);
    for (HashIndex* index :
         {&peers_, &remote_qps_, &local_qps_, &listeners_, &adopted_}) {
      index->Grow(at + 1);
    }
  }
  Place& p = slots_[at];
  const uint32_t generation = NextGeneration(p.generation);
  p = Place();
  p.slot = at;
  p.generation = generation;
  p.used = true;
  ++in_use_;
  return &p;
}

uint32_t ConnectionTable::NextGeneration(uint32_t generation) const {
  const uint32_t last = UINT32_MAX >> (32 - id_bits_) >> slot_bits_;
  return generation == last ? 1 : generation + 1;
}

Place* ConnectionTable::Allocate() {
  Place* p = TakePlace();
  if (p == nullptr) return nullptr;
  const uint32_t first = p->generation;
  do {
    const uint32_t comm_id = CommIdOf(handle(*p).value);
    if (comm_id != 0 && FindAdopted(comm_id) == nullptr) {
      p->local_comm_id = comm_id;
      return p;
    }
    p->generation = NextGeneration(p->generation);
  } while (p->generation != first);
  Free(*p);
  return nullptr;
}

Place* ConnectionTable::Adopt(uint32_t comm_id) {
  URNIC_CHECK(comm_id != 0 && FindByCommId(comm_id) == nullptr);
  const bool alone = !ids_.Has(comm_id);
  if (full() || (alone && !lessor_->LeaseOne(NumberSpace::kCommId, comm_id))) {
    return nullptr;
  }
  Place* p = TakePlace();
  p->local_comm_id = comm_id;
  p->adopted = true;
  p->leased_alone = alone;
  adopted_.Insert(Hash(comm_id, 0), p->slot);
  return p;
}

void ConnectionTable::GiveBack(const Place& p) {
  if (!p.used || !p.leased_alone) return;
  lessor_->GiveBack(NumberSpace::kCommId, {p.local_comm_id, 1});
}

void ConnectionTable::Free(Place& p) {
  URNIC_CHECK(p.used && !p.in_peer_index && !p.in_remote_qp_index &&
              !p.in_local_qp_index);
  GiveBack(p);
  if (p.adopted) adopted_.Remove(Hash(p.local_comm_id, 0), p.slot);
  p.used = false;
  --in_use_;
  next_free_[p.slot] = HashIndex::kNone;
  if (last_free_ == HashIndex::kNone) {
    first_free_ = p.slot;
  } else {
    next_free_[last_free_] = p.slot;
  }
  last_free_ = p.slot;
}

Place* ConnectionTable::Find(Handle handle) {
  const uint32_t at = handle.value & ((1u << slot_bits_) - 1);
  if (at >= slots_.size()) return nullptr;
  Place& c = slots_[at];
  const bool same = c.generation == handle.value >> slot_bits_;
  return c.used && same && !c.orphan ? &c : nullptr;
}

Place* ConnectionTable::FindByCommId(uint32_t local_comm_id) {
  MUTATION_SKIPS(cm_knows_no_moved_ids)
  if (Place* p = FindAdopted(local_comm_id); p != nullptr) return p;
  if (!ids_.Has(local_comm_id)) return nullptr;
  const uint32_t handle =
      comm_ids_.Inverse((local_comm_id - ids_.first) ^ comm_id_mask_);
  const uint32_t at = handle & ((1u << slot_bits_) - 1);
  if (at >= slots_.size()) return nullptr;
  Place& c = slots_[at];
  const bool same = c.local_comm_id == local_comm_id;
  return c.used && same && c.state != State::kListen ? &c : nullptr;
}

Place* ConnectionTable::FindAdopted(uint32_t comm_id) {
  const uint32_t at = adopted_.Find(Hash(comm_id, 0), [&](uint32_t i) {
    return slots_[i].local_comm_id == comm_id;
  });
  return at == HashIndex::kNone ? nullptr : &slots_[at];
}

uint64_t ConnectionTable::SidrHash(const wire::Gid& remote_gid,
                                   uint32_t request_id) const {
  return Hash(remote_gid.word(0) ^ request_id, remote_gid.word(1));
}

uint64_t ConnectionTable::PeerHash(const Connection& c) const {
  return c.state == State::kSidrReqReceived
             ? SidrHash(c.mad_path.remote, c.remote_comm_id)
             : Hash(c.mad_path.remote, c.remote_ca_guid, c.remote_comm_id);
}

uint64_t ConnectionTable::RemoteQpHash(const Connection& c) const {
  return Hash(c.mad_path.remote, c.remote_ca_guid, c.remote_qpn.value);
}

void ConnectionTable::Index(Place& p) {
  const auto set = [&p](HashIndex& index, bool& is_in, bool should_be,
                        uint64_t hash) {
    if (is_in == should_be) return;
    if (should_be) {
      index.Insert(hash, p.slot);
    } else {
      index.Remove(hash, p.slot);
    }
    is_in = should_be;
  };
  // Computed once, because PeerHash() depends on the state, which may change.
  if (!p.in_peer_index) p.peer_hash = PeerHash(p);
  set(peers_, p.in_peer_index, KnowsPeersId(p), p.peer_hash);
  set(remote_qps_, p.in_remote_qp_index, HoldsRemoteQp(p), RemoteQpHash(p));
  set(local_qps_, p.in_local_qp_index, HoldsLocalQp(p),
      Hash(p.local_qpn.value, 0));
}

Place* ConnectionTable::FindByPeer(const wire::Gid& remote_gid,
                                   uint64_t remote_ca_guid,
                                   uint32_t remote_comm_id) {
  const uint32_t at = peers_.Find(
      Hash(remote_gid, remote_ca_guid, remote_comm_id), [&](uint32_t i) {
        const Connection& c = slots_[i];
        return c.state != State::kSidrReqReceived &&
               c.mad_path.remote == remote_gid &&
               c.remote_ca_guid == remote_ca_guid &&
               c.remote_comm_id == remote_comm_id;
      });
  return at == HashIndex::kNone ? nullptr : &slots_[at];
}

Place* ConnectionTable::FindByRemoteQp(const wire::Gid& remote_gid,
                                       uint64_t remote_ca_guid,
                                       Qpn remote_qpn) {
  const uint32_t at = remote_qps_.Find(
      Hash(remote_gid, remote_ca_guid, remote_qpn.value), [&](uint32_t i) {
        const Connection& c = slots_[i];
        return c.mad_path.remote == remote_gid &&
               c.remote_ca_guid == remote_ca_guid && c.remote_qpn == remote_qpn;
      });
  return at == HashIndex::kNone ? nullptr : &slots_[at];
}

Place* ConnectionTable::FindSidr(const wire::Gid& remote_gid,
                                 uint32_t request_id) {
  const uint32_t at =
      peers_.Find(SidrHash(remote_gid, request_id), [&](uint32_t i) {
        const Connection& c = slots_[i];
        return c.state == State::kSidrReqReceived &&
               c.mad_path.remote == remote_gid &&
               c.remote_comm_id == request_id;
      });
  return at == HashIndex::kNone ? nullptr : &slots_[at];
}

bool ConnectionTable::HasLocalQp(Qpn qpn) const {
  return local_qps_.Find(Hash(qpn.value, 0), [&](uint32_t i) {
    return slots_[i].local_qpn == qpn;
  }) != HashIndex::kNone;
}

void ConnectionTable::AddListener(Place& listener) {
  if (listener.service_mask == UINT64_MAX) {
    listeners_.Insert(Hash(listener.service_id, 0), listener.slot);
  } else {
    masked_listeners_.push_back(listener.slot);
  }
}

void ConnectionTable::RemoveListener(Place& listener) {
  if (listener.service_mask == UINT64_MAX) {
    listeners_.Remove(Hash(listener.service_id, 0), listener.slot);
  } else {
    std::erase(masked_listeners_, listener.slot);
  }
}

bool ConnectionTable::HasListener(uint64_t service_id, uint64_t mask) const {
  if (mask != UINT64_MAX) {
    return std::any_of(masked_listeners_.begin(), masked_listeners_.end(),
                       [&](uint32_t i) {
                         return slots_[i].service_mask == mask &&
                                slots_[i].service_id == service_id;
                       });
  }
  return listeners_.Find(Hash(service_id, 0), [&](uint32_t i) {
    return slots_[i].service_id == service_id;
  }) != HashIndex::kNone;
}

Place* ConnectionTable::FindListener(uint64_t service_id) {
  const uint32_t at = listeners_.Find(Hash(service_id, 0), [&](uint32_t i) {
    return slots_[i].service_id == service_id;
  });
  if (at != HashIndex::kNone) return &slots_[at];
  for (const uint32_t i : masked_listeners_) {
    Place& c = slots_[i];
    if ((service_id & c.service_mask) == c.service_id) return &c;
  }
  return nullptr;
}

}  // namespace urnic::cm
