#pragma once

// Which MAC belongs to which address of this link: ARP (RFC 826) and neighbour
// discovery (RFC 4861 7) in one state machine. It owns the adjacencies.
//
// States of an address, with their names in RFC 4861 7.3.2:
//
//   kIncomplete  asked for by multicast or broadcast, after 0, 20, 60, 140 ms
//                .. and then every second, while somebody wants to know; a
//                late answer is taken for a second more
//   kReachable   heard within 30 s: paths are given out without asking
//   kStale       not heard for longer: whoever holds the adjacency goes on
//                using it; who wants a new path makes it be probed first
//   kProbe       asked by itself, three times within 30 ms
//   kSearch      has not answered; asked for by multicast as in kIncomplete,
//                while somebody wants to know, and 3 s after the last Suspect()
//
// What Adjacency::Confirm() tells ends the last two as an answer does, unless
// somebody else claims the address.
//
// Who is believed:
// - Somebody new, if it asks for an address of ours, or answers our question.
// - Of an address that no path uses, or that does not answer: whoever claims
//   it last.
// - Of an address that a path uses, no claim as such: it only makes the MAC
//   that we have be probed, at once but at most ten times a second. If that
//   does not answer within 30 ms, the last claim wins, and is probed in turn.
//   So a spoofer moves no neighbour that is alive, and one that has moved is
//   followed.
//
// Memory: up to `capacity` entries, made when they are first needed. When all
// are there, the one not heard for longest makes room, but none that a path
// uses, and none that is asked for.

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

// What a message says: `address` is at `mac`.
struct NeighborClaim {
  wire::Gid address;
  wire::MacAddress mac;
  // It says that it answers a question of ours.
  bool answers = false;
  // It may replace what is known (RFC 4861 4.4, "override").
  bool may_override = true;
  // Its sender wants something of us, so it is worth knowing.
  bool asks_us = false;
};

class NeighborCache {
 public:
  // How long a neighbour is believed without being heard (RFC 4861 10).
  static constexpr Duration kReachableTime = Duration::Seconds(30);
  static constexpr Duration kFirstInterval = Duration::Milliseconds(20);
  static constexpr Duration kLastInterval = Duration::Seconds(1);
  static constexpr Duration kProbeInterval = Duration::Milliseconds(10);
  static constexpr uint32_t kProbes = 3;
  // Between the end of one probing of a neighbour that is there and the next.
  static constexpr Duration kQuiet = Duration::Milliseconds(100);
  static constexpr Duration kSearchTime = Duration::Seconds(3);

  static constexpr uint32_t kNone = UINT32_MAX;

  struct Config {
    wire::MacAddress mac;
    uint16_t vlan = 0;  // net/vlan.h
    uint32_t capacity = 1024;
    uint64_t salt = 0;  // random: who hashes where
  };

  // `addresses` are the host's, and stay.
  NeighborCache(const Config& config, const LocalAddresses* addresses);

  // The way to a neighbour that is kReachable, else null. What is returned
  // stays the neighbour's as long as it is held.
  AdjacencyPtr Find(const wire::Gid& address, Time now);

  // Starts asking for a neighbour that is not kReachable, as `source`, and goes
  // on until it is or Unwant() was called as often. Returns its entry, which
  // stays its own so long. kNone: all of them are in use.
  uint32_t Want(const wire::Gid& address, const wire::Gid& source, Time now,
                FrameSink& sink);
  void Unwant(uint32_t entry);

  // Returns the entry of the neighbour if this has made it kReachable from
  // anything else, else kNone: then everybody who wants it can have it.
  uint32_t OnClaim(const NeighborClaim& claim, Time now, FrameSink& sink);
  // Of an entry that OnClaim() has returned.
  AdjacencyPtr At(uint32_t entry);

  // What was sent to it was not answered in time: whether it is still there is
  // found out, unless that was just done (kQuiet). One that is looked for is
  // asked for every 100 or 200 ms then. For those who retransmit.
  void Suspect(const Adjacency& adjacency, Time now, FrameSink& sink);

  // Is the neighbour in use by any path?
  bool IsLive(const wire::Gid& address) const;
  NeighborState StateOf(const wire::Gid& address, Time now) const;
  size_t size() const { return entries_.size() - free_.size(); }

  void OnTimer(Time now, FrameSink& sink);
  Time NextDeadline() const { return deadlines_.next(); }

 private:
  enum class State : uint8_t { kFree, kIncomplete, kKnown, kProbe, kSearch };

  struct Entry {
    wire::Gid address;
    wire::Gid source;  // as whom we ask
    AdjacencyPtr adjacency;
    Time heard;  // the MAC
    Time quiet_until;
    Time asked;    // last, by multicast
    Time doubted;  // since then it is probed or looked for
    Time search_until;
    Duration interval;
    uint32_t wanted = 0;
    uint32_t newer = kNone;  // in the order of hearing
    uint32_t older = kNone;
    State state = State::kFree;
    uint8_t probes = 0;  // without an answer so far
    bool has_candidate = false;
    wire::MacAddress mac;
    wire::MacAddress candidate;  // who else claims the address
  };

  uint32_t FindEntry(const wire::Gid& address) const;
  uint64_t HashOf(const wire::Gid& address) const {
    return HashKey(config_.salt, address.word(0), address.word(1));
  }
  // kNone: no room. A stranger does not look far.
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
  // It is in doubt, but has answered what was sent to it since (Confirm), and
  // nobody else claims to be it.
  static bool HasAnswered(const Entry& entry);
  // The MAC is the neighbour's, and it is there.
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
  // Nothing is asked any more, and nothing is known for sure.
  void Rest(uint32_t at, Time now);
  // As if it had been heard too long ago.
  static void Doubt(Entry& entry, Time now);
  // As whom to ask; null: we have no address of the family.
  const wire::Gid* SourceOf(const Entry& entry) const;
  // False: there was no room for the frame.
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
