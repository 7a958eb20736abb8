#pragma once

// ARP, neighbour discovery and echo requests: the messages that make a host
// reachable, in one form for IPv4 and IPv6. For the resolver; not on the packet
// path. Answers to pings: echo.h.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/wire/address.h"
#include "transport/wire/frame.h"

namespace urnic::wire {

enum class NeighborKind : uint8_t {
  kOther,        // nothing that needs an answer
  kSolicit,      // ARP request or neighbour solicitation: who has `asked`?
  kAdvertise,    // ARP reply or neighbour advertisement
  kEchoRequest,  // ping: answer with EchoReply (echo.h)
};

struct NeighborInfo {
  NeighborKind kind = NeighborKind::kOther;
  // kSolicit: the address whose owner should answer.
  Gid asked;
  // The binding in the message, if it has one: of its sender, or of the
  // advertised address. Never a group address.
  bool has_owner = false;
  Gid owner;
  MacAddress owner_mac;
  // kAdvertise: it answers a question; and it may replace a known binding
  // (both true for an ARP reply).
  bool solicited = false;
  bool may_override = false;
};

// For a frame that ParseFrame() called kArp: kArp again, or kBadArp.
[[nodiscard]] RxVerdict ParseArp(const FrameView& frame, NeighborInfo& out);

// For a frame that ParseFrame() called kIcmp: kIcmp again, or kBadIcmp. The
// checksum is verified.
[[nodiscard]] RxVerdict ParseIcmp(const FrameView& frame, NeighborInfo& out);

// The sender of our messages.
struct NeighborSelf {
  MacAddress mac;
  Gid gid;
  std::optional<uint16_t> vlan_tci;
};

// The room that the three functions below need; frames are padded to
// Ethernet's minimum.
inline constexpr size_t kNeighborFrameBytes = 96;

// "Who has `target`?": an ARP request or a neighbour solicitation, to all, or
// to `known_mac` alone to confirm an old binding. Returns the frame's length.
// REQUIRES: out.size() >= kNeighborFrameBytes;
// self.gid.is_ipv4() == target.is_ipv4().
[[nodiscard]] size_t EmitSolicitation(
    const NeighborSelf& self, const Gid& target,
    const std::optional<MacAddress>& known_mac, std::span<uint8_t> out);

// The answer to a kSolicit that asked for self.gid. Returns the frame's
// length. REQUIRES: out.size() >= kNeighborFrameBytes; info.kind == kSolicit.
[[nodiscard]] size_t EmitAdvertisement(const NeighborSelf& self,
                                       const FrameView& request,
                                       const NeighborInfo& info,
                                       std::span<uint8_t> out);

// "I am here", to all who know the address. Returns the frame's length.
// REQUIRES: out.size() >= kNeighborFrameBytes.
//= RFC 5227 2.3: an ARP announcement is a request for the sender's own address
//= RFC 4861 7.2.6: a node announces a change of its MAC by an unsolicited
//= neighbour advertisement
[[nodiscard]] size_t EmitAnnouncement(const NeighborSelf& self,
                                      std::span<uint8_t> out);

}  // namespace urnic::wire
