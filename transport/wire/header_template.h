#pragma once

// The headers before the BTH, built once per path and copied per packet.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "transport/wire/address.h"
#include "transport/wire/checksum.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/framing.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace urnic::wire {

// What hosts use by default.
inline constexpr uint8_t kDefaultHopLimit = 64;

// The addresses of a path and the header fields of its packets.
struct PathHeaders {
  MacAddress src_mac;
  MacAddress dst_mac;
  // The 802.1Q tag (VlanTag::MakeTci), if there is one.
  std::optional<uint16_t> vlan_tci;
  // Both IPv4-mapped, or neither.
  Gid src;
  Gid dst;
  bool roce_v1 = false;                  // a GRH instead of IP and UDP
  uint8_t traffic_class = 0;             // IPv4 TOS, with the ECN bits
  uint8_t hop_limit = kDefaultHopLimit;  // IPv4 TTL
  uint16_t udp_src_port = 0;
  uint32_t flow_label = 0;  // 20 bits, IPv6 and GRH only
  // IPv4 only. Zero, so that all packets of one length have the same headers
  // and one ICRC prefix; only a replay of someone else's packets sets it.
  //= RFC 6864 4.1: a packet with "don't fragment" may have any identification
  uint16_t ipv4_identification = 0;
};

// A value that can be copied freely. Not thread-safe.
class HeaderTemplate {
 public:
  // The room that Write() needs at `out`, whatever size() is.
  static constexpr size_t kMaxBytes = 66;

  HeaderTemplate() = default;
  // REQUIRES: path.src.is_ipv4() == path.dst.is_ipv4()
  explicit HeaderTemplate(const PathHeaders& path);

  // Bytes before the BTH: 42 for untagged IPv4, at most 66.
  size_t size() const { return size_; }
  Framing framing() const { return framing_; }
  // Where the IP header or GRH starts: what IcrcPrefix() takes.
  size_t ip_offset() const { return ip_offset_; }

  // Writes the headers of a packet of `roce_bytes` from BTH to ICRC to
  // `out`. All of out[0, kMaxBytes) may be overwritten: write the BTH at
  // out + size() afterwards. REQUIRES: roce_bytes <= kRoceMaxBytes.
  void Write(uint8_t* out, uint16_t roce_bytes) const {
    // Two copies of constant size: the first is all of untagged IPv4.
    std::memcpy(out, bytes_.data(), kFirstCopy);
    if (size_ > kFirstCopy) {
      std::memcpy(out + kFirstCopy, bytes_.data() + kFirstCopy,
                  kMaxBytes - kFirstCopy);
    }
    uint8_t* ip = out + ip_offset_;
    const auto udp_bytes = static_cast<uint16_t>(roce_bytes + sizeof(Udp));
    if (framing_ != Framing::kIpv4) {
      const bool udp = framing_ == Framing::kIpv6;
      StoreBe16(ip + offsetof(Ipv6, payload_length),
                udp ? udp_bytes : roce_bytes);
      if (udp) StoreUdpLength(out, udp_bytes);
      return;
    }
    StoreUdpLength(out, udp_bytes);
    const auto ip_bytes = static_cast<uint16_t>(udp_bytes + sizeof(Ipv4));
    StoreBe16(ip + offsetof(Ipv4, total_length), ip_bytes);
    StoreBe16(ip + offsetof(Ipv4, checksum), Ipv4Checksum(ip_bytes));
  }

  // The headers of a packet with another protocol than UDP (of which
  // ip_end() bytes count, and the same room is needed): `bytes` follow the IP
  // header. `ecn`: the ECN bits, in place of those of the path.
  // REQUIRES: not a GRH.
  void WriteIp(uint8_t* out, uint8_t protocol, uint8_t ecn,
               uint16_t bytes) const;
  // Where the IP header ends. REQUIRES: not a GRH.
  size_t ip_end() const { return size_ - sizeof(Udp); }

  MacAddress dst_mac() const {
    MacAddress mac;
    std::memcpy(&mac, bytes_.data() + offsetof(Ethernet, dst), sizeof(mac));
    return mac;
  }
  // Changes the neighbour that frames go to. The ICRC covers neither this nor
  // the tag.
  void set_dst_mac(const MacAddress& mac) {
    std::memcpy(bytes_.data() + offsetof(Ethernet, dst), &mac, sizeof(mac));
  }

  bool is_tagged() const { return ip_offset_ > sizeof(Ethernet); }
  // The 802.1Q tag (VlanTag::MakeTci). REQUIRES: is_tagged()
  uint16_t vlan_tci() const {
    Be<uint16_t> tci;
    std::memcpy(&tci, bytes_.data() + sizeof(Ethernet), sizeof(tci));
    return tci.value();
  }

  Gid src() const {
    const uint8_t* ip = bytes_.data() + ip_offset_;
    Gid gid;
    if (framing_ == Framing::kIpv4) {
      Be<uint32_t> address;
      std::memcpy(&address, ip + offsetof(Ipv4, src), sizeof(address));
      return Gid::FromIpv4(address);
    }
    // A GRH has its addresses where IPv6 has them.
    std::memcpy(gid.bytes.data(), ip + offsetof(Ipv6, src), sizeof(gid.bytes));
    return gid;
  }

 private:
  static constexpr size_t kFirstCopy = 48;

  static void StoreBe16(uint8_t* p, uint16_t v) {
    const Be<uint16_t> wire(v);
    std::memcpy(p, &wire, sizeof(wire));
  }
  void StoreUdpLength(uint8_t* out, uint16_t bytes) const {
    StoreBe16(out + size_ - sizeof(Udp) + offsetof(Udp, length), bytes);
  }
  // Adds the length to the sum of the other fields.
  uint16_t Ipv4Checksum(uint16_t total_length) const {
    const uint32_t sum = ipv4_sum_ + total_length;  // at most 0x1fffe
    return static_cast<uint16_t>(~((sum & 0xffff) + (sum >> 16)));
  }

  // Before the bytes, so that all of untagged IPv4 is in one cache line.
  uint16_t ipv4_sum_ = 0;  // of the IPv4 header without length and checksum
  uint8_t size_ = 0;
  uint8_t ip_offset_ = 0;
  Framing framing_ = Framing::kIpv4;
  std::array<uint8_t, kMaxBytes> bytes_ = {};
};

}  // namespace urnic::wire
