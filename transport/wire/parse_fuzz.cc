// Any bytes as a received frame: through every parser, and through the emitters
// with what was parsed. Random changes hardly ever give a correct checksum or
// ICRC. Therefore each input is tried twice: as it is, and with both corrected.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "transport/base/check.h"
#include "transport/wire/echo.h"
#include "transport/wire/fragment.h"
#include "transport/wire/frame.h"
#include "transport/wire/icmp.h"
#include "transport/wire/icrc.h"
#include "transport/wire/membership.h"
#include "transport/wire/neighbor.h"
#include "transport/wire/packet.h"
#include "transport/wire/pretty.h"
#include "transport/wire/tcp.h"
#include "transport/wire/too_big.h"

namespace urnic::wire {
namespace {

using Bytes = std::vector<uint8_t>;

bool Within(const Bytes& frame, const uint8_t* first, size_t bytes) {
  return first >= frame.data() && bytes <= frame.size() &&
         first + bytes <= frame.data() + frame.size();
}

// The fields of a RoCE packet give the same bytes again, except for reserved
// bits and the contents of the padding.
void CheckRoce(const Bytes& frame, const FrameView& view) {
  RocePacket packet;
  const RxVerdict verdict = ParseRoce(view.payload, view.payload_bytes, packet);
  if (verdict != RxVerdict::kAccept) return;
  URNIC_CHECK(Within(frame, packet.payload, packet.payload_bytes));
  const PacketFields fields = FieldsOf(packet);
  Bytes again(view.payload_bytes);
  const size_t bytes = EmitRoce(fields, again);
  URNIC_CHECK(bytes + kIcrcBytes == view.payload_bytes);
  RocePacket reparsed;
  URNIC_CHECK(ParseRoce(again.data(), view.payload_bytes, reparsed) ==
              RxVerdict::kAccept);
  Bytes third(view.payload_bytes);
  URNIC_CHECK(EmitRoce(FieldsOf(reparsed), third) == bytes);
  URNIC_CHECK(again == third);
}

void CheckIcrc(const FrameView& view) {
  if (view.payload_bytes < sizeof(Bth) + kIcrcBytes) return;
  if (view.payload_bytes % 4 != 0) return;
  const size_t hashed = view.l3_bytes - kIcrcBytes;
  uint32_t stored;
  std::memcpy(&stored, view.l3 + hashed, kIcrcBytes);
  const bool right = IcrcReference({view.l3, hashed}, view.framing) == stored;
  URNIC_CHECK(VerifyIcrc(view.l3, view.framing, view.payload_bytes) == right);
}

void CheckNeighbor(const FrameView& view, const NeighborInfo& info) {
  URNIC_CHECK(!info.has_owner || !info.owner_mac.is_group());
  NeighborSelf self;
  self.gid = view.ipv6() ? Gid::FromIpv6(view.dst.bytes.data())
                         : Gid::FromIpv4(0x0a000001);
  Bytes out(view.l3_bytes + kNeighborFrameBytes);
  FrameView answer;
  if (info.kind == NeighborKind::kSolicit) {
    out.resize(EmitAdvertisement(self, view, info, out));
  } else if (info.kind == NeighborKind::kEchoRequest) {
    const std::span<const uint8_t> message = view.payload_span();
    EchoReply reply(self, view, {&message, 1}, 1 << 16, 0);
    out.resize(reply.WriteNext(out));
  } else {
    return;
  }
  const RxVerdict verdict = ParseFrame(out.data(), out.size(), answer);
  URNIC_CHECK(verdict == RxVerdict::kArp || verdict == RxVerdict::kIcmp);
}

// The fields of a segment give a header with the same fields, except that fewer
// SACK blocks may fit beside options that are padded.
void CheckTcp(const Bytes& frame, const FrameView& view) {
  TcpSegment segment;
  if (ParseTcp(view, false, segment) != RxVerdict::kAccept) return;
  URNIC_CHECK(Within(frame, segment.payload.data(), segment.payload.size()));
  URNIC_CHECK(segment.options.sack_count <= kMaxSackBlocks);
  Bytes again(TcpHeaderBytes(segment.options));
  URNIC_CHECK(again.size() <= kTcpMaxHeaderBytes &&
              WriteTcpHeader(segment, again.data()) == again.size());
  FrameView its = view;
  its.payload = again.data();
  its.payload_bytes = static_cast<uint32_t>(again.size());
  TcpSegment reparsed;
  URNIC_CHECK(ParseTcp(its, /*checksum_verified=*/true, reparsed) ==
              RxVerdict::kAccept);
  URNIC_CHECK(reparsed.payload.empty() && reparsed.seq == segment.seq &&
              reparsed.flags == segment.flags &&
              reparsed.options.mss == segment.options.mss &&
              reparsed.options.timestamps == segment.options.timestamps &&
              reparsed.options.sack_count <= segment.options.sack_count);
  Bytes third(again.size());
  URNIC_CHECK(WriteTcpHeader(reparsed, third.data()) == third.size());
  URNIC_CHECK(again == third);
}

void Check(const Bytes& frame) {
  FrameView view;
  const RxVerdict verdict = ParseFrame(frame.data(), frame.size(), view);
  FrameView other;
  URNIC_CHECK(ParseAnyFrame(frame, other) == verdict);
  NeighborInfo info;
  if (verdict == RxVerdict::kAccept) {
    URNIC_CHECK(Within(frame, view.payload, view.payload_bytes));
    CheckRoce(frame, view);
    CheckIcrc(view);
  } else if (verdict == RxVerdict::kArp) {
    if (ParseArp(view, info) == verdict) CheckNeighbor(view, info);
  } else if (verdict == RxVerdict::kIpFragment) {
    URNIC_CHECK(Within(frame, view.payload, view.payload_bytes));
    Fragment fragment;
    if (ParseFragment(view, fragment) == RxVerdict::kAccept) {
      URNIC_CHECK(Within(frame, fragment.data.data(), fragment.data.size()) &&
                  fragment.end() <= 65535);
    }
  } else if (verdict == RxVerdict::kTcp) {
    URNIC_CHECK(Within(frame, view.payload, view.payload_bytes));
    CheckTcp(frame, view);
  } else if (verdict == RxVerdict::kIcmp) {
    URNIC_CHECK(Within(frame, view.payload, view.payload_bytes));
    if (ParseIcmp(view, info) == verdict) CheckNeighbor(view, info);
    TooBigInfo too_big;
    if (ParseTooBig(view, too_big)) {
      URNIC_CHECK(too_big.src.is_ipv4() != view.ipv6());
    }
  }
  MembershipInfo membership;
  if (ParseMembership(frame, membership) == RxVerdict::kMembership &&
      membership.kind != MembershipInfo::Kind::kOther) {
    URNIC_CHECK(membership.max_delay >= Duration());
  }
  URNIC_CHECK(!PrettyFrame(frame).empty());
}

// Corrects the IPv4 checksum, the ICRC and the checksums of TCP and ICMP, if
// the frame is long enough to have them.
void FixChecksum(Bytes& frame) {
  constexpr size_t kIp = sizeof(Ethernet);
  if (frame.size() >= kIp + sizeof(Ipv4) && frame[kIp] >> 4 == 4) {
    auto* ip = reinterpret_cast<Ipv4*>(&frame[kIp]);
    ip->checksum = Be<uint16_t>(0);
    ip->checksum = Be<uint16_t>(ChecksumSum().AddHeader(*ip).Finish());
  }
  FrameView view;
  const RxVerdict verdict = ParseFrame(frame.data(), frame.size(), view);
  const bool roce = verdict == RxVerdict::kAccept &&
                    view.payload_bytes >= sizeof(Bth) + kIcrcBytes;
  const bool icmp =
      verdict == RxVerdict::kIcmp && view.payload_bytes >= sizeof(IcmpHeader);
  const bool tcp =
      verdict == RxVerdict::kTcp && view.payload_bytes >= sizeof(Tcp);
  if (!roce && !icmp && !tcp) return;
  uint8_t* payload = &frame[view.payload - frame.data()];
  if (roce) {
    const uint32_t icrc =
        IcrcReference({view.l3, view.l3_bytes - kIcrcBytes}, view.framing);
    std::memcpy(payload + view.payload_bytes - kIcrcBytes, &icrc, kIcrcBytes);
    return;
  }
  if (tcp) {
    auto* segment = reinterpret_cast<Tcp*>(payload);
    segment->checksum = Be<uint16_t>(0);
    segment->checksum =
        Be<uint16_t>(TcpChecksum(view.src, view.dst, view.payload_span(), {}));
    return;
  }
  auto* header = reinterpret_cast<IcmpHeader*>(payload);
  header->checksum = Be<uint16_t>(0);
  header->checksum = Be<uint16_t>(
      view.ipv6() ? Ipv6UpperChecksum(view.src, view.dst, kIpProtocolIcmpv6,
                                      view.payload_span())
                  : Checksum(view.payload_span()));
}

}  // namespace
}  // namespace urnic::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of exactly this size, so that the sanitizer sees an access to the
  // first byte after it.
  urnic::wire::Bytes frame(data, data + size);
  urnic::wire::Check(frame);
  urnic::wire::FixChecksum(frame);
  urnic::wire::Check(frame);
  // The same bytes as what TCP carries.
  URNIC_CHECK(!urnic::wire::PrettyUlpdu(frame).empty());
  URNIC_CHECK(!urnic::wire::PrettyMpaFrame(frame).empty());
  return 0;
}
