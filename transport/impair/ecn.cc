#include "transport/impair/ecn.h"

#include <cstddef>

#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"

namespace urnic::impair {
namespace {

constexpr size_t kMacBytes = 12;
//= IEEE 802.1Q 9.5: the tag of a service VLAN has its own EtherType
constexpr uint16_t kEtherTypeServiceVlan = 0x88a8;

struct IpHeader {
  size_t offset = 0;
  int version = 0;  // 0: no IP, or cut off
};

uint16_t Word(std::span<const uint8_t> frame, size_t at) {
  return static_cast<uint16_t>(frame[at] << 8 | frame[at + 1]);
}

IpHeader FindIp(std::span<const uint8_t> frame) {
  size_t at = kMacBytes;
  for (; at + 2 <= frame.size(); at += sizeof(wire::VlanTag)) {
    const uint16_t type = Word(frame, at);
    if (type == wire::kEtherTypeVlan || type == kEtherTypeServiceVlan) continue;
    at += 2;
    if (type == wire::kEtherTypeIpv4 && at + sizeof(wire::Ipv4) <= frame.size())
      return {at, 4};
    if (type == wire::kEtherTypeIpv6 && at + sizeof(wire::Ipv6) <= frame.size())
      return {at, 6};
    break;
  }
  return {};
}

// The position of the two bits in the second byte of the header: IPv6's traffic
// class is four bits further up, across two bytes.
int Shift(const IpHeader& ip) { return ip.version == 6 ? 4 : 0; }

}  // namespace

bool IsEct(std::span<const uint8_t> frame) {
  const IpHeader ip = FindIp(frame);
  return ip.version != 0 &&
         (frame[ip.offset + 1] >> Shift(ip) & wire::kEcnMask) != 0;
}

void MarkCe(std::span<uint8_t> frame) {
  const IpHeader ip = FindIp(frame);
  if (ip.version == 0) return;
  const uint16_t before = Word(frame, ip.offset);
  frame[ip.offset + 1] |=
      static_cast<uint8_t>(wire::kEcnCongestionExperienced << Shift(ip));
  if (ip.version != 4) return;
  //= RFC 1624 3: HC' = ~(~HC + ~m + m') is the new checksum when a word m
  //= becomes m'
  const size_t at = ip.offset + offsetof(wire::Ipv4, checksum);
  const auto inverse = [](uint16_t word) -> uint32_t { return word ^ 0xffffu; };
  uint32_t sum =
      inverse(Word(frame, at)) + inverse(before) + Word(frame, ip.offset);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = ((sum & 0xffff) + (sum >> 16)) ^ 0xffff;
  frame[at] = static_cast<uint8_t>(sum >> 8);
  frame[at + 1] = static_cast<uint8_t>(sum);
}

}  // namespace urnic::impair
