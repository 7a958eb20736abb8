#include "transport/wire/echo.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/wire/append_headers.h"
#include "transport/wire/checksum.h"
#include "transport/wire/reader.h"

namespace urnic::wire {
namespace {

constexpr uint8_t kReplyHopLimit = 64;

uint32_t BytesOf(MessagePieces message) {
  size_t bytes = 0;
  for (const auto& piece : message) bytes += piece.size();
  return static_cast<uint32_t>(bytes);
}

uint32_t LongestOf(MessagePieces message) {
  size_t bytes = 0;
  for (const auto& piece : message) bytes = std::max(bytes, piece.size());
  return static_cast<uint32_t>(bytes);
}

// The sum before the message: ICMPv6 has a pseudo header, ICMP has none.
ChecksumSum StartSum(const Gid& src, const Gid& dst, uint32_t bytes) {
  if (src.is_ipv4()) return ChecksumSum();
  return Ipv6PseudoSum(src, dst, kIpProtocolIcmpv6, bytes);
}

bool IsNeighborDiscovery(uint8_t type) { return type >= 133 && type <= 137; }

}  // namespace

RxVerdict ParseReassembled(const FrameView& last, MessagePieces message,
                           bool& echo_request) {
  echo_request = false;
  ChecksumSum sum = StartSum(last.src, last.dst, BytesOf(message));
  for (const auto& piece : message) sum.Add(piece);
  if (sum.Finish() != 0 || message[0].size() < sizeof(IcmpEcho)) {
    return RxVerdict::kBadIcmp;
  }
  const uint8_t type = message[0][0];
  //= RFC 6980 5: a neighbour discovery message that arrives in fragments is
  //= ignored
  if (last.ipv6() && IsNeighborDiscovery(type)) return RxVerdict::kBadIcmp;
  if (type != (last.ipv6() ? kIcmpv6EchoRequest : kIcmpEchoRequest)) {
    return RxVerdict::kIcmp;
  }
  // There is no one to answer: the source is not a host.
  if (last.src.is_unspecified() || last.src.is_multicast()) {
    return RxVerdict::kBadIcmp;
  }
  echo_request = true;
  return RxVerdict::kIcmp;
}

EchoReply::EchoReply(const NeighborSelf& self, const FrameView& request,
                     MessagePieces message, uint32_t mtu,
                     uint32_t identification)
    : self_(self),
      mac_(request.eth->src),
      dst_(request.src),
      message_(message),
      identification_(identification),
      bytes_(BytesOf(message)) {
  Reader reader(message[0]);
  const IcmpEcho* echo = reader.Take<IcmpEcho>();
  URNIC_CHECK(mtu >= 68 && echo != nullptr && ipv6() == request.ipv6());
  const uint32_t header = ipv6() ? sizeof(Ipv6) : sizeof(Ipv4);
  fragments_ = message.size() > 1 || header + bytes_ > mtu;
  per_frame_ = bytes_;
  if (fragments_) {
    const uint32_t room = mtu - header - (ipv6() ? sizeof(Ipv6Fragment) : 0);
    per_frame_ = std::min(room, LongestOf(message)) & ~7u;
  }
  header_ = *echo;
  header_.header.type = ipv6() ? kIcmpv6EchoReply : kIcmpEchoReply;
  header_.header.checksum = Be<uint16_t>(0);
  ChecksumSum sum = StartSum(self.gid, dst_, bytes_).AddHeader(header_);
  sum.Add(reader.rest());
  for (const auto& piece : message.subspan(1)) sum.Add(piece);
  header_.header.checksum = Be<uint16_t>(sum.Finish());
}

size_t EchoReply::WriteNext(std::span<uint8_t> bytes) {
  const uint32_t count = std::min(per_frame_, bytes_ - at_);
  constexpr size_t kHeadersMax =
      sizeof(Ethernet) + sizeof(VlanTag) + sizeof(Ipv6) + sizeof(Ipv6Fragment);
  uint8_t headers[kHeadersMax];
  Appender head(headers);
  AppendHeaders(count, head);
  if (bytes.size() < std::max(head.size() + count, kEthernetMinBytes)) return 0;
  Appender out(bytes.data());
  out.AppendBytes({headers, head.size()});
  AppendMessage(count, out);
  if (at_ == 0) Appender(bytes.data() + head.size()).Append(header_);
  at_ += count;
  return PadToMinimum(out);
}

void EchoReply::AppendHeaders(uint32_t bytes, Appender& out) const {
  const bool more = at_ + bytes < bytes_;
  AppendLink(self_.mac, self_.vlan_tci, mac_,
             ipv6() ? kEtherTypeIpv6 : kEtherTypeIpv4, out);
  if (!ipv6()) {
    Ipv4 ip;
    ip.total_length = Be<uint16_t>(static_cast<uint16_t>(sizeof(ip) + bytes));
    //= RFC 6864 4.1: a packet that is not fragmented needs no identification
    ip.identification =
        Be<uint16_t>(static_cast<uint16_t>(fragments_ ? identification_ : 0));
    ip.flags_fragment = Be<uint16_t>(static_cast<uint16_t>(
        !fragments_ ? Ipv4::kDontFragment
                    : at_ / 8 | (more ? Ipv4::kMoreFragments : 0)));
    ip.ttl = kReplyHopLimit;
    ip.protocol = kIpProtocolIcmp;
    ip.src = Be<uint32_t>(self_.gid.ipv4());
    ip.dst = Be<uint32_t>(dst_.ipv4());
    ip.checksum = Be<uint16_t>(ChecksumSum().AddHeader(ip).Finish());
    return out.Append(ip);
  }
  if (!fragments_) {
    return AppendIpv6(self_.gid, dst_, kIpProtocolIcmpv6, kReplyHopLimit, bytes,
                      out);
  }
  AppendIpv6(self_.gid, dst_, kIpv6NextFragment, kReplyHopLimit,
             sizeof(Ipv6Fragment) + bytes, out);
  Ipv6Fragment fragment;
  fragment.next_header = kIpProtocolIcmpv6;
  fragment.offset_more = Be<uint16_t>(
      static_cast<uint16_t>(at_ | (more ? Ipv6Fragment::kMoreFragments : 0)));
  fragment.identification = Be<uint32_t>(identification_);
  out.Append(fragment);
}

// Appends the next `bytes` of the request.
void EchoReply::AppendMessage(uint32_t bytes, Appender& out) const {
  size_t skip = at_;
  size_t left = bytes;
  for (const auto& piece : message_) {
    if (skip >= piece.size()) {
      skip -= piece.size();
      continue;
    }
    const size_t count = std::min(piece.size() - skip, left);
    out.AppendBytes(piece.subspan(skip, count));
    skip = 0;
    left -= count;
    if (left == 0) return;
  }
}

}  // namespace urnic::wire
