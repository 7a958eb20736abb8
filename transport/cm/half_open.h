#pragma once

// Half-open connections: those that a peer has requested and not confirmed.
// Anyone can create them, from any address, with one datagram each. Therefore
// there are at most Config::max_half_open_per_source for a source address and
// Config::max_half_open_per_listener for a listener. One more displaces the
// oldest, preferably of the same source. A peer gets through if it answers
// before a flood has displaced it, and a flood from one address displaces only
// itself.
//
// For the same reason, as long as an address has a connection here, this
// remembers whether the address has ever sent something that only its owner can
// send: a message with an id that we sent only to that address.

#include <cstdint>
#include <vector>

#include "transport/base/hash_index.h"
#include "transport/cm/age_list.h"
#include "transport/cm/connection_table.h"

namespace urnic::cm {

class HalfOpen {
 public:
  static constexpr uint32_t kNone = AgeList::kNone;

  // `salt`: random, see HashKey().
  HalfOpen(const Config& config, uint64_t salt);

  // Makes room for connections in places below `places`.
  void Grow(uint32_t places);

  // The peer of the connection is mad_path.remote, until Detach().
  void Attach(Place& c);
  void Detach(Place& c);

  bool HasAnswered(const Place& c) const;
  void SetAnswered(const Place& c);

  // REQUIRES: attached. `listener`: the place of its listener, or kNone.
  void Add(Place& c, uint32_t listener);
  void Remove(Place& c);
  // The listener was removed; its requests stay, without a listener.
  void ForgetListener(uint32_t listener);

  // The place of the connection that must be displaced before a new one of this
  // source and listener is accepted, or kNone.
  uint32_t InTheWayOf(const wire::Gid& source, uint32_t listener) const;
  // The oldest of all, or kNone.
  uint32_t oldest() const { return all_.oldest; }
  // The next younger one, or kNone.
  uint32_t YoungerThan(uint32_t place) const {
    return links_of_all_.YoungerThan(place);
  }
  uint32_t count() const { return all_.count; }

 private:
  // An address with connections.
  struct Source {
    wire::Gid gid;
    uint32_t connections = 0;  // 0: free
    uint32_t next_free = kNone;
    bool answered = false;
    AgeList half_open;
  };
  uint64_t HashOf(const wire::Gid& gid) const {
    return HashKey(salt_, gid.word(0), gid.word(1));
  }
  uint32_t Find(const wire::Gid& gid) const;

  const uint32_t per_source_;
  const uint32_t per_listener_;
  const uint64_t salt_;
  // Never more than there are connections, so they grow together.
  std::vector<Source> sources_;
  uint32_t first_free_ = kNone;
  HashIndex by_gid_;

  AgeLists links_of_all_;
  AgeLists links_of_source_;
  AgeLists links_of_listener_;
  AgeList all_;
  // By the listener's place; and the listener of each connection.
  std::vector<AgeList> of_listener_;
  std::vector<uint32_t> listener_of_;
};

}  // namespace urnic::cm
