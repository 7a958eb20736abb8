#include "transport/net/neighbor_cache.h"

#include <algorithm>
#include <optional>

#include "transport/base/check.h"
#include "transport/base/mutation.h"
#include "transport/net/vlan.h"
#include "transport/wire/neighbor.h"

namespace urnic::net {
namespace {

// How many entries are examined to make room for a stranger.
constexpr uint32_t kStrangerPatience = 32;

}  // namespace

NeighborCache::NeighborCache(const Config& config,
                             const LocalAddresses* addresses)
    : config_(config), addresses_(addresses), index_(config.capacity) {
  URNIC_CHECK(config.capacity > 0);
}

// --- Entries -----------------------------------------------------------------

uint32_t NeighborCache::FindEntry(const wire::Gid& address) const {
  return index_.Find(HashOf(address), [&](uint32_t at) {
    return entries_[at].address == address;
  });
}

void NeighborCache::Link(uint32_t at) {
  Entry& entry = entries_[at];
  entry.newer = kNone;
  entry.older = newest_;
  (newest_ == kNone ? oldest_ : entries_[newest_].newer) = at;
  newest_ = at;
}

void NeighborCache::Unlink(uint32_t at) {
  const Entry& entry = entries_[at];
  (entry.newer == kNone ? newest_ : entries_[entry.newer].older) = entry.older;
  (entry.older == kNone ? oldest_ : entries_[entry.older].newer) = entry.newer;
}

uint32_t NeighborCache::MakeEntry(const wire::Gid& address, bool stranger) {
  if (free_.empty() && !MakeRoom(stranger)) return kNone;
  uint32_t at = static_cast<uint32_t>(entries_.size());
  if (!free_.empty()) {
    at = free_.back();
    free_.pop_back();
  } else {
    entries_.emplace_back();
    index_.Grow(at + 1);
    deadlines_.Grow(at + 1);
  }
  entries_[at] = Entry();
  entries_[at].address = address;
  index_.Insert(HashOf(address), at);
  Link(at);
  return at;
}

// An entry that must stay becomes the newest, so it is not examined again soon.
bool NeighborCache::MakeRoom(bool stranger) {
  if (entries_.size() < config_.capacity) return true;
  const auto all = static_cast<uint32_t>(entries_.size());
  const uint32_t looks = stranger ? std::min(all, kStrangerPatience) : all;
  for (uint32_t i = 0; i < looks; ++i) {
    const uint32_t at = oldest_;
    if (MUTATION(net_forgets_who_is_used,
                 entries_[at].wanted == 0 && !IsUsed(entries_[at]), true)) {
      FreeEntry(at);
      return true;
    }
    Unlink(at);
    Link(at);
  }
  return false;
}

void NeighborCache::FreeEntry(uint32_t at) {
  Entry& entry = entries_[at];
  URNIC_CHECK(entry.wanted == 0 && !IsUsed(entry));
  index_.Remove(HashOf(entry.address), at);
  deadlines_.Clear(at);
  Unlink(at);
  entry.adjacency = nullptr;
  entry.state = State::kFree;
  free_.push_back(at);
}

Time NeighborCache::HeardOf(const Entry& entry) {
  return entry.adjacency == nullptr
             ? entry.heard
             : std::max(entry.heard, entry.adjacency->heard_);
}

bool NeighborCache::HasAnswered(const Entry& entry) {
  const bool in_doubt =
      entry.state == State::kProbe || entry.state == State::kSearch;
  MUTATION_ADDS(net_doubts_who_answers, return false;)
  return in_doubt && !entry.has_candidate && IsUsed(entry) &&
         entry.adjacency->heard_ > entry.doubted;
}

bool NeighborCache::IsFresh(const Entry& entry, Time now) {
  return entry.state == State::kKnown && now - HeardOf(entry) < kReachableTime;
}

void NeighborCache::SetMac(Entry& entry, const wire::MacAddress& mac) {
  entry.has_candidate = false;
  if (entry.mac == mac) return;
  entry.mac = mac;
  if (entry.adjacency == nullptr) return;
  entry.adjacency->mac_ = mac;
  MUTATION_SKIPS(net_keeps_the_generation)
  ++entry.adjacency->generation_;
}

// --- Lookup ------------------------------------------------------------------

AdjacencyPtr NeighborCache::Find(const wire::Gid& address, Time now) {
  const uint32_t at = FindEntry(address);
  return at != kNone && IsFresh(entries_[at], now) ? At(at) : nullptr;
}

AdjacencyPtr NeighborCache::At(uint32_t at) {
  Entry& entry = entries_[at];
  if (entry.adjacency == nullptr) {
    entry.adjacency =
        std::make_shared<Adjacency>(entry.address, config_.vlan, at);
    entry.adjacency->mac_ = entry.mac;
    entry.adjacency->heard_ = entry.heard;
  }
  return entry.adjacency;
}

uint32_t NeighborCache::Want(const wire::Gid& address, const wire::Gid& source,
                             Time now, FrameSink& sink) {
  uint32_t at = FindEntry(address);
  if (at == kNone) {
    at = MakeEntry(address, /*stranger=*/false);
    if (at == kNone) return kNone;
  }
  Entry& entry = entries_[at];
  entry.source = source;
  ++entry.wanted;
  switch (entry.state) {
    case State::kFree:
      StartSearch(at, State::kIncomplete, now, sink);
      break;
    case State::kKnown:
      StartProbing(at, now, sink);
      break;
    case State::kIncomplete:
    case State::kSearch:
      // A new question does not wait for the long interval of earlier ones.
      entry.interval = kFirstInterval;
      deadlines_.Set(at, entry.asked + kFirstInterval);
      break;
    case State::kProbe:
      break;
  }
  return at;
}

void NeighborCache::Unwant(uint32_t at) {
  Entry& entry = entries_[at];
  URNIC_CHECK(entry.wanted > 0);
  if (--entry.wanted != 0 || entry.state != State::kIncomplete) return;
  // Not immediately: the answer may be under way, and the asker may ask again.
  deadlines_.Set(at, entry.asked + kLastInterval);
}

bool NeighborCache::IsLive(const wire::Gid& address) const {
  const uint32_t at = FindEntry(address);
  return at != kNone && IsUsed(entries_[at]);
}

NeighborState NeighborCache::StateOf(const wire::Gid& address, Time now) const {
  const uint32_t at = FindEntry(address);
  if (at == kNone) return NeighborState::kUnknown;
  switch (entries_[at].state) {
    case State::kFree:
      break;
    case State::kIncomplete:
      return NeighborState::kIncomplete;
    case State::kKnown:
      return IsFresh(entries_[at], now) ? NeighborState::kReachable
                                        : NeighborState::kStale;
    case State::kProbe:
      return NeighborState::kProbe;
    case State::kSearch:
      return NeighborState::kSearch;
  }
  return NeighborState::kUnknown;
}

// --- Claims ------------------------------------------------------------------

uint32_t NeighborCache::OnClaim(const NeighborClaim& claim, Time now,
                                FrameSink& sink) {
  uint32_t at = FindEntry(claim.address);
  if (at == kNone) {
    if (!claim.asks_us) return kNone;
    at = MakeEntry(claim.address, /*stranger=*/true);
    if (at == kNone) return kNone;
    Settle(at, claim.mac, now);
    return kNone;  // no question waits for it yet
  }
  const bool was_fresh = IsFresh(entries_[at], now);
  // An old confirmation settles nothing: waiting questions need a reachable
  // neighbour.
  const bool settled = HasAnswered(entries_[at]) &&
                       now - entries_[at].adjacency->heard_ < kReachableTime;
  if (settled) Settle(at, entries_[at].mac, entries_[at].adjacency->heard_);
  Judge(at, claim, now, sink);
  return settled || (!was_fresh && IsFresh(entries_[at], now)) ? at : kNone;
}

void NeighborCache::Judge(uint32_t at, const NeighborClaim& claim, Time now,
                          FrameSink& sink) {
  Entry& entry = entries_[at];
  if (entry.state == State::kIncomplete || entry.state == State::kSearch) {
    return Settle(at, claim.mac, now);
  }
  if (!(claim.mac == entry.mac)) {
    //= RFC 4861 7.2.5: an advertisement without "override" does not replace
    //= another MAC; it makes the entry stale
    if (!claim.may_override) {
      if (entry.state == State::kKnown) Doubt(entry, now);
      return;
    }
    MUTATION_SKIPS(net_believes_lies)
    if (IsUsed(entry)) {
      return OnRival(at, claim, now, sink);
    }
    return Settle(at, claim.mac, now);
  }
  // While another MAC claims the address, only an answer counts.
  if (entry.has_candidate && !claim.answers) return;
  if (entry.state == State::kProbe) entry.quiet_until = now + kQuiet;
  Settle(at, claim.mac, now);
}

void NeighborCache::OnRival(uint32_t at, const NeighborClaim& claim, Time now,
                            FrameSink& sink) {
  Entry& entry = entries_[at];
  entry.has_candidate = true;
  entry.candidate = claim.mac;
  if (entry.state == State::kProbe) return;
  if (now >= entry.quiet_until) {
    StartProbing(at, now, sink);
  } else {
    deadlines_.Set(at, entry.quiet_until);
  }
}

void NeighborCache::Settle(uint32_t at, const wire::MacAddress& mac, Time now) {
  Entry& entry = entries_[at];
  SetMac(entry, mac);
  entry.state = State::kKnown;
  entry.heard = now;
  deadlines_.Clear(at);
  Unlink(at);
  Link(at);
}

void NeighborCache::Suspect(const Adjacency& adjacency, Time now,
                            FrameSink& sink) {
  const uint32_t at = adjacency.entry_;
  // It may belong to another cache, which is gone.
  if (at >= entries_.size() || entries_[at].adjacency.get() != &adjacency) {
    return;
  }
  Entry& entry = entries_[at];
  entry.search_until = now + kSearchTime;
  // The sender's retries could run out during a long interval, although the
  // neighbour is back.
  if (entry.state == State::kSearch && entry.interval > kQuiet * 2) {
    entry.interval = kQuiet;
    deadlines_.Set(at, entry.asked + kQuiet);
  }
  MUTATION_ADDS(net_ignores_silence, return;)
  if (entry.state != State::kKnown || now < entry.quiet_until) return;
  StartProbing(at, now, sink);
}

// --- Asking ------------------------------------------------------------------

void NeighborCache::StartProbing(uint32_t at, Time now, FrameSink& sink) {
  entries_[at].state = State::kProbe;
  entries_[at].probes = 0;
  entries_[at].doubted = now;
  Probe(at, now, sink);
}

void NeighborCache::Probe(uint32_t at, Time now, FrameSink& sink) {
  Entry& entry = entries_[at];
  // Without a source address, only a question keeps the probing going.
  if (entry.wanted == 0 && SourceOf(entry) == nullptr) return Rest(at, now);
  MUTATION_SKIPS(net_never_believes_a_move)
  if (entry.probes == kProbes) return OnNoAnswer(at, now, sink);
  // Only a probe that was sent counts.
  if (Solicit(entry, /*by_itself=*/true, sink)) ++entry.probes;
  deadlines_.Set(at, now + kProbeInterval);
}

void NeighborCache::OnNoAnswer(uint32_t at, Time now, FrameSink& sink) {
  Entry& entry = entries_[at];
  if (!entry.has_candidate) {
    return StartSearch(at, State::kSearch, now, sink);
  }
  SetMac(entry, entry.candidate);
  // If that claim was false, the neighbour has to be found again.
  entry.search_until = now + kSearchTime;
  StartProbing(at, now, sink);
}

void NeighborCache::StartSearch(uint32_t at, State state, Time now,
                                FrameSink& sink) {
  Entry& entry = entries_[at];
  entry.state = state;
  entry.doubted = now;
  entry.interval = kFirstInterval;
  Search(at, now, sink);
}

void NeighborCache::Search(uint32_t at, Time now, FrameSink& sink) {
  Entry& entry = entries_[at];
  if (entry.wanted == 0 && entry.state == State::kIncomplete) {
    return FreeEntry(at);
  }
  const bool goes_on = entry.wanted != 0 || (entry.state == State::kSearch &&
                                             now < entry.search_until);
  if (!goes_on) return Rest(at, now);
  (void)Solicit(entry, /*by_itself=*/false, sink);
  entry.asked = now;
  deadlines_.Set(at, now + entry.interval);
  entry.interval = std::min(entry.interval * 2, kLastInterval);
}

void NeighborCache::Rest(uint32_t at, Time now) {
  Entry& entry = entries_[at];
  entry.state = State::kKnown;
  entry.has_candidate = false;
  Doubt(entry, now);
  deadlines_.Clear(at);
}

void NeighborCache::Doubt(Entry& entry, Time now) {
  entry.heard = now - kReachableTime;
  if (entry.adjacency != nullptr) entry.adjacency->heard_ = entry.heard;
}

const wire::Gid* NeighborCache::SourceOf(const Entry& entry) const {
  if (entry.source.is_ipv4() == entry.address.is_ipv4() &&
      addresses_->Contains(entry.source)) {
    return &entry.source;
  }
  const LocalAddress* local = addresses_->FindOnLink(entry.address);
  if (local == nullptr) local = addresses_->FirstLike(entry.address);
  return local == nullptr ? nullptr : &local->gid;
}

bool NeighborCache::Solicit(const Entry& entry, bool by_itself,
                            FrameSink& sink) const {
  const wire::Gid* source = SourceOf(entry);
  if (source == nullptr) return false;
  const std::span<uint8_t> frame = sink.Frame();
  if (frame.empty()) return false;
  wire::NeighborSelf self;
  self.mac = config_.mac;
  self.gid = *source;
  self.vlan_tci = VlanTci(config_.vlan, 0);
  const auto known = by_itself ? std::optional(entry.mac) : std::nullopt;
  sink.Send(wire::EmitSolicitation(self, entry.address, known, frame),
            /*loopback=*/false);
  return true;
}

void NeighborCache::CheckInvariants() const {
  for (uint32_t at = 0; at < entries_.size(); ++at) {
    URNIC_CHECK(entries_[at].wanted == 0 || deadlines_.Has(at));
  }
}

void NeighborCache::OnTimer(Time now, FrameSink& sink) {
  while (deadlines_.next() <= now) {
    const uint32_t at = deadlines_.next_item();
    deadlines_.Clear(at);
    if (HasAnswered(entries_[at]) && entries_[at].wanted == 0) {
      Settle(at, entries_[at].mac, entries_[at].adjacency->heard_);
      continue;
    }
    switch (entries_[at].state) {
      case State::kFree:
        break;
      case State::kKnown:  // a rival's claim has waited for quiet_until
        StartProbing(at, now, sink);
        break;
      case State::kProbe:
        Probe(at, now, sink);
        break;
      case State::kIncomplete:
      case State::kSearch:
        Search(at, now, sink);
        break;
    }
  }
}

}  // namespace urnic::net
