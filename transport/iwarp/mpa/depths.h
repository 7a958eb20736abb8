#pragma once

// The rules for IRD, ORD and RTR that both roles of the set-up use.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "transport/iwarp/mpa/negotiation.h"

namespace urnic::mpa {

inline constexpr uint16_t kNotNegotiated =
    wire::MpaEnhanced::kDepthNotNegotiated;

// Our ORD, if the peer takes `their_ird` reads at a time.
//= RFC 6581 9.1: each side lowers its ORD to the IRD of the other side
inline uint16_t OrdFor(uint16_t ours, uint32_t their_ird) {
  if (their_ird == kNotNegotiated) return ours;
  return static_cast<uint16_t>(std::min<uint32_t>(ours, their_ird));
}

// Our IRD, if the peer wants `their_ord` reads at a time. It is raised if it
// can be; the result may be lower than `their_ord`.
inline uint16_t IrdFor(const SetupOptions& ours, uint32_t their_ord) {
  if (their_ord == kNotNegotiated || their_ord <= ours.ird) return ours.ird;
  const uint32_t limit = std::max(ours.ird, ours.max_ird);
  return static_cast<uint16_t>(std::min(their_ord, limit));
}

inline RtrKinds RtrOf(const wire::MpaEnhanced& data) {
  const uint16_t ird = data.ird_flags.value();
  const uint16_t ord = data.ord_flags.value();
  //= RFC 6581 9.2: without bit A (peer-to-peer), bits B, C and D have no
  //= meaning
  if ((ird & wire::MpaEnhanced::kPeerToPeer) == 0) return kRtrNone;
  return static_cast<RtrKinds>(
      ((ird & wire::MpaEnhanced::kRtrZeroFpdu) != 0 ? kRtrZeroFpdu : 0) |
      ((ord & wire::MpaEnhanced::kRtrWrite) != 0 ? kRtrWrite : 0) |
      ((ord & wire::MpaEnhanced::kRtrRead) != 0 ? kRtrRead : 0));
}

inline bool IsPeerToPeer(const wire::MpaEnhanced& data) {
  return (data.ird_flags.value() & wire::MpaEnhanced::kPeerToPeer) != 0;
}

// The kinds that a responder with this IRD can receive. An RTR read counts
// against IRD.
inline RtrKinds ReceivableRtr(RtrKinds kinds, uint32_t ird) {
  return ird == 0 ? static_cast<RtrKinds>(kinds & ~kRtrRead) : kinds;
}

// The cheapest kind of the set: an empty FPDU only concerns MPA, and a write
// has no answer.
inline RtrKinds Choose(RtrKinds kinds) {
  for (const RtrKinds kind : {kRtrZeroFpdu, kRtrWrite, kRtrRead}) {
    if ((kinds & kind) != 0) return kind;
  }
  return kRtrNone;
}

inline wire::MpaEnhanced EnhancedOf(uint16_t ird, uint16_t ord,
                                    bool peer_to_peer, RtrKinds kinds) {
  using Enhanced = wire::MpaEnhanced;
  if (peer_to_peer) {
    ird |= Enhanced::kPeerToPeer;
    if ((kinds & kRtrZeroFpdu) != 0) ird |= Enhanced::kRtrZeroFpdu;
    if ((kinds & kRtrWrite) != 0) ord |= Enhanced::kRtrWrite;
    if ((kinds & kRtrRead) != 0) ord |= Enhanced::kRtrRead;
  }
  Enhanced data;
  data.ird_flags = wire::Be<uint16_t>(ird);
  data.ord_flags = wire::Be<uint16_t>(ord);
  return data;
}

}  // namespace urnic::mpa
