#pragma once

// The layer of the network that decided the fate of a packet.

#include "ras/metrics/rx_verdict.h"

namespace urnic {

enum class VerdictLayer : uint8_t { kEthernet, kIp, kTcp, kMpa, kTransport };

// By VerdictLayer.
inline constexpr const char* kVerdictLayerNames[] = {"ethernet", "ip", "tcp",
                                                     "mpa", "transport"};

// Follows the order of rx_verdicts.def. An accepted packet passed all layers.
constexpr VerdictLayer LayerOf(RxVerdict verdict) {
  switch (verdict) {
    case RxVerdict::kNotForUs:
    case RxVerdict::kForeignVlan:
    case RxVerdict::kUnknownEtherType:
    case RxVerdict::kTruncated:
    case RxVerdict::kBadArp:
    case RxVerdict::kArp:
      return VerdictLayer::kEthernet;
    case RxVerdict::kAccept:
      return VerdictLayer::kTransport;
    default:
      break;
  }
  if (verdict >= RxVerdict::kTcpKept && verdict <= RxVerdict::kTcpBadCookie)
    return VerdictLayer::kTcp;
  if (verdict >= RxVerdict::kRud && verdict <= RxVerdict::kRudFifoFull)
    return VerdictLayer::kTransport;
  if (verdict < RxVerdict::kTcp) return VerdictLayer::kIp;
  if (verdict < RxVerdict::kMpaBadFrame) return VerdictLayer::kTcp;
  if (verdict < RxVerdict::kBadIcrc) return VerdictLayer::kMpa;
  return VerdictLayer::kTransport;
}

}  // namespace urnic
