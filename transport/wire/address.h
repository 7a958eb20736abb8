#pragma once

// MAC addresses and GIDs as values. The bytes are as on the wire.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "transport/wire/be.h"

namespace urnic::wire {

struct MacAddress {
  std::array<uint8_t, 6> bytes = {};

  static constexpr MacAddress Broadcast() {
    return {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
  }
  bool is_group() const { return (bytes[0] & 1) != 0; }
  friend bool operator==(const MacAddress&, const MacAddress&) = default;
};
static_assert(sizeof(MacAddress) == 6 && alignof(MacAddress) == 1);

//= IBTA A17.4.5: a GID is an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d
// Compares as two words.
struct Gid {
  std::array<uint8_t, 16> bytes = {};

  // `address` in host byte order: 10.0.0.1 is 0x0a000001.
  static Gid FromIpv4(uint32_t address) {
    return FromIpv4(Be<uint32_t>(address));
  }
  static Gid FromIpv4(Be<uint32_t> address) {
    const uint32_t prefix = kIpv4Prefix;
    Gid gid;
    std::memcpy(&gid.bytes[8], &prefix, sizeof(prefix));
    std::memcpy(&gid.bytes[12], &address, sizeof(address));
    return gid;
  }
  static Gid FromIpv6(const uint8_t address[16]) {
    Gid gid;
    std::memcpy(gid.bytes.data(), address, sizeof(gid.bytes));
    return gid;
  }

  bool is_ipv4() const {
    return word(0) == 0 && (word(1) & 0xffffffff) == kIpv4Prefix;
  }
  // REQUIRES: is_ipv4()
  uint32_t ipv4() const {
    Be<uint32_t> wire;
    std::memcpy(&wire, &bytes[12], sizeof(wire));
    return wire.value();
  }
  bool is_link_local() const {
    return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  }
  // The unspecified address of either family.
  bool is_unspecified() const { return *this == Gid() || *this == FromIpv4(0); }
  bool is_multicast() const {
    return is_ipv4() ? (bytes[12] & 0xf0) == 0xe0 : bytes[0] == 0xff;
  }
  // Half of the address in memory order: only for hashing and comparing.
  uint64_t word(size_t i) const {
    uint64_t w;
    std::memcpy(&w, &bytes[8 * i], sizeof(w));
    return w;
  }
  friend bool operator==(const Gid& a, const Gid& b) {
    return ((a.word(0) ^ b.word(0)) | (a.word(1) ^ b.word(1))) == 0;
  }

 private:
  static constexpr uint32_t kIpv4Prefix = 0xffff0000;  // 00 00 ff ff
};
static_assert(sizeof(Gid) == 16 && alignof(Gid) == 1);

//= RFC 4291 A: a link-local GID that was made from a MAC contains it as EUI-64
inline std::optional<MacAddress> MacOfLinkLocal(const Gid& gid) {
  const auto& b = gid.bytes;
  if (!gid.is_link_local() || b[11] != 0xff || b[12] != 0xfe) {
    return std::nullopt;
  }
  return MacAddress{
      {static_cast<uint8_t>(b[8] ^ 2), b[9], b[10], b[13], b[14], b[15]}};
}

//= RFC 1112 6.4: the MAC of an IPv4 group ends with the lower 23 bits of its
//= address
//= RFC 2464 7: the MAC of an IPv6 group ends with the last four bytes of its
//= address
inline MacAddress MulticastMac(const Gid& group) {
  const auto& b = group.bytes;
  if (group.is_ipv4()) {
    return {
        {0x01, 0x00, 0x5e, static_cast<uint8_t>(b[13] & 0x7f), b[14], b[15]}};
  }
  return {{0x33, 0x33, b[12], b[13], b[14], b[15]}};
}

}  // namespace urnic::wire
