#pragma once

// The MAC of each address on this link: ARP and IPv6 neighbour discovery in one
// state machine. It owns the adjacencies.
//
//= RFC 4861 7.3.2: the state of a neighbour says whether its MAC is known and
//= how recently it was heard
//
//   kIncomplete  asked for by multicast or broadcast, after 0, 20, 60, 140 ms
//                .. and then every second, while a question waits; a
//                late answer is accepted for one more second
//   kReachable   heard within 30 s: paths are given out without asking
//   kStale       not heard for longer: existing paths continue to use it;
//                a new path waits until it has been probed
//   kProbe       asked by unicast, three times within 30 ms
//   kSearch      has not answered; asked for by multicast as in kIncomplete,
//                while a question waits, and 3 s after the last Suspect()
//
// Adjacency::Confirm() ends the last two states as an answer does, unless
// another MAC claims the address.
//
// Which claims are believed:
// - A new neighbour, if it asks for an address of ours or answers our question.
// - For an address that no path uses, or that does not answer: the last claim.
// - For an address that a path uses, no claim by itself. A claim only starts
//   probes of the MAC that we have, immediately but at most ten times a
//   second. If that MAC does not answer within 30 ms, the last claim wins, and
//   is probed in turn. So a spoofer cannot move a neighbour that is alive, and
//   a neighbour that has moved is followed.
//
// Memory: up to `capacity` entries, created when they are first needed. When
// all are in use, the entry that was heard longest ago is evicted. An entry
// that a path uses, or that is being asked for, is never evicted.

#include <cstdint>
#include <vector>

#include "transport/base/deadline_heap.h"
#include "transport/base/hash_index.h"
#include "transport/base/time.h"
#include "transport/net/addresses.h"
#include "transport/net/adjacency.h"
#include "transport/net/frame_sink.h"
#include "transport/wire/address.h"

namespace urnic::net {

enum class NeighborState : uint8_t {
  kUnknown,
  kIncomplete,
  kReachable,
  kStale,
  kProbe,
  kSearch,
};

// The content of a message: `address` is at `mac`.
struct NeighborClaim {
  wire::Gid address;
  wire::MacAddress mac;
  // It claims to answer a question of ours.
  bool answers = false;
  // It may replace what is known ("override").
  bool may_override = true;
  // Its sender has asked us something, so we will need its MAC.
  bool asks_us = false;
};

class NeighborCache {
 public:
  //= RFC 4861 10: a neighbour stays reachable for 30 s after it was last heard
  static constexpr Duration kReachableTime = Duration::Seconds(30);
  static constexpr Duration kFirstInterval = Duration::Milliseconds(20);
  static constexpr Duration kLastInterval = Duration::Seconds(1);
  static constexpr Duration kProbeInterval = Duration::Milliseconds(10);
  static constexpr uint32_t kProbes = 3;
  // The pause between two rounds of probes of a neighbour that answers.
  static constexpr Duration kQuiet = Duration::Milliseconds(100);
  static constexpr Duration kSearchTime = Duration::Seconds(3);

  static constexpr uint32_t kNone = UINT32_MAX;

  struct Config {
    wire::MacAddress mac;
    uint16_t vlan = 0;  // net/vlan.h
    uint32_t capacity = 1024;
    uint64_t salt = 0;  // random: the seed of the hash
  };

  // `addresses` belong to the host and outlive the cache.
  NeighborCache(const Config& config, const LocalAddresses* addresses);

  // The adjacency of a neighbour that is kReachable, otherwise null. It remains
  // that neighbour's adjacency as long as the caller holds it.
  AdjacencyPtr Find(const wire::Gid& address, Time now);

  // Starts asking for a neighbour that is not kReachable, with the address
  // `source`. This continues until the neighbour is kReachable, or Unwant() was
  // called as often as Want(). Returns its entry, which belongs to it during
  // that time. kNone: all entries are in use.
  uint32_t Want(const wire::Gid& address, const wire::Gid& source, Time now,
                FrameSink& sink);
  void Unwant(uint32_t entry);

  // Returns the entry of the neighbour if this call has made it kReachable, so
  // that its waiting questions can be answered; otherwise kNone.
  uint32_t OnClaim(const NeighborClaim& claim, Time now, FrameSink& sink);
  // The adjacency of an entry that OnClaim() has returned.
  AdjacencyPtr At(uint32_t entry);

  // For senders that retransmit: packets to the neighbour were not answered in
  // time. The cache checks that it is still there, unless it has just done so
  // (kQuiet). A neighbour that is being searched for is then asked for every
  // 100 or 200 ms.
  void Suspect(const Adjacency& adjacency, Time now, FrameSink& sink);

  // Whether a path uses the neighbour.
  bool IsLive(const wire::Gid& address) const;
  NeighborState StateOf(const wire::Gid& address, Time now) const;
  size_t size() const { return entries_.size() - free_.size(); }
  // For tests: aborts unless each wanted neighbour will be asked for again.
  void CheckInvariants() const;

  void OnTimer(Time now, FrameSink& sink);
  Time NextDeadline() const { return deadlines_.next(); }

 private:
  enum class State : uint8_t { kFree, kIncomplete, kKnown, kProbe, kSearch };

  struct Entry {
    wire::Gid address;
    wire::Gid source;  // our address, with which we ask
    AdjacencyPtr adjacency;
    Time heard;  // the MAC
    Time quiet_until;
    Time asked;    // last, by multicast
    Time doubted;  // since then it is probed or searched for
    Time search_until;
    Duration interval;
    uint32_t wanted = 0;
    uint32_t newer = kNone;  // in the list from oldest_ to newest_
    uint32_t older = kNone;
    State state = State::kFree;
    uint8_t probes = 0;  // without an answer so far
    bool has_candidate = false;
    wire::MacAddress mac;
    wire::MacAddress candidate;  // another MAC that claims the address
  };

  uint32_t FindEntry(const wire::Gid& address) const;
  uint64_t HashOf(const wire::Gid& address) const {
    return HashKey(config_.salt, address.word(0), address.word(1));
  }
  // kNone: no room. For a stranger the search for room is short.
  uint32_t MakeEntry(const wire::Gid& address, bool stranger);
  bool MakeRoom(bool stranger);
  void FreeEntry(uint32_t at);
  void Link(uint32_t at);
  void Unlink(uint32_t at);

  static bool IsUsed(const Entry& entry) {
    return entry.adjacency.use_count() > 1;
  }
  static Time HeardOf(const Entry& entry);
  static bool IsFresh(const Entry& entry, Time now);
  // The neighbour was in doubt, but has answered packets since (Confirm), and
  // no other MAC claims its address.
  static bool HasAnswered(const Entry& entry);
  // The MAC is the neighbour's, and the neighbour is reachable.
  void Settle(uint32_t at, const wire::MacAddress& mac, Time now);
  static void SetMac(Entry& entry, const wire::MacAddress& mac);
  void Judge(uint32_t at, const NeighborClaim& claim, Time now,
             FrameSink& sink);
  void OnRival(uint32_t at, const NeighborClaim& claim, Time now,
               FrameSink& sink);

  void StartProbing(uint32_t at, Time now, FrameSink& sink);
  void Probe(uint32_t at, Time now, FrameSink& sink);
  void OnNoAnswer(uint32_t at, Time now, FrameSink& sink);
  void StartSearch(uint32_t at, State state, Time now, FrameSink& sink);
  void Search(uint32_t at, Time now, FrameSink& sink);
  // Stops asking; the neighbour becomes kStale.
  void Rest(uint32_t at, Time now);
  // Treats the neighbour as not heard for kReachableTime.
  static void Doubt(Entry& entry, Time now);
  // The source address to ask with; null: we have none of the family.
  const wire::Gid* SourceOf(const Entry& entry) const;
  // False: there is no source address, or no room for the frame.
  bool Solicit(const Entry& entry, bool by_itself, FrameSink& sink) const;

  const Config config_;
  const LocalAddresses* addresses_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  HashIndex index_;
  DeadlineHeap deadlines_;
  uint32_t newest_ = kNone;
  uint32_t oldest_ = kNone;
};

}  // namespace urnic::net
