#pragma once

// Half-open connections: those that a peer has asked for and not confirmed.
// Anybody can make them, under any address, with one datagram each. So there
// may be Config::max_half_open_per_source of one source address and
// Config::max_half_open_per_listener of one listener; one more takes the place
// of the oldest, of the same source before any other. Whoever answers within
// the time that a flood needs to go round gets through, and a flood from one
// address displaces only itself.
//
// For the same reason this remembers, as long as an address has a connection
// here, whether anything has ever come back from it that only its owner can
// have sent: a message with an id that we had told that address alone.

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

  // The connection is with mad_path.remote, from now until Detach().
  void Attach(Place& c);
  void Detach(Place& c);

  bool HasAnswered(const Place& c) const;
  void SetAnswered(const Place& c);

  // REQUIRES: attached. `listener`: the place of the listener that it is for,
  // or kNone.
  void Add(Place& c, uint32_t listener);
  void Remove(Place& c);
  // The listener is gone; its requests stay, and belong to no listener.
  void ForgetListener(uint32_t listener);

  // The place of the connection that has to go before another one of this
  // source and listener comes, or kNone.
  uint32_t InTheWayOf(const wire::Gid& source, uint32_t listener) const;
  // The oldest of all, or kNone.
  uint32_t oldest() const { return all_.oldest; }
  // The next younger one, or kNone.
  uint32_t YoungerThan(uint32_t place) const {
    return links_of_all_.YoungerThan(place);
  }
  uint32_t count() const { return all_.count; }

 private:
  // An address that connections are with.
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
  // No more than there are connections, so they grow with these.
  std::vector<Source> sources_;
  uint32_t first_free_ = kNone;
  HashIndex by_gid_;

  AgeLists links_of_all_;
  AgeLists links_of_source_;
  AgeLists links_of_listener_;
  AgeList all_;
  // By the listener's place; and of each connection, which one it is for.
  std::vector<AgeList> of_listener_;
  std::vector<uint32_t> listener_of_;
};

}  // namespace urnic::cm
