#pragma once

// The RDMA IP CM service: how rdma_cm puts IP addresses and ports into the
// messages of the InfiniBand CM.

#include <cstddef>
#include <cstdint>

#include "transport/wire/address.h"
#include "transport/wire/be.h"
#include "transport/wire/mad.h"

namespace urnic::wire {

//= IBTA A11.3: the private data of a REQ or SIDR_REQ begins with IP version,
//= source port and both IP addresses
// An IPv4 address lies in the last four bytes of its field, zeros before it.
struct IpCmHeader {
  uint8_t cm_version = 0;  // major (4), minor (4): 0.0
  uint8_t ip_version = 0;  // 4 or 6 (4), reserved (4)
  Be<uint16_t> source_port;
  uint8_t source[16] = {};
  uint8_t destination[16] = {};

  uint8_t major_version() const { return GetBits<4, 4>(cm_version); }
  uint8_t ip() const { return GetBits<4, 4>(ip_version); }
  void set_ip(uint8_t v) { SetBits<4, 4>(ip_version, v); }

  // Both addresses are of one family, as GIDs hold them.
  static IpCmHeader Make(const Gid& source, const Gid& destination,
                         uint16_t source_port) {
    IpCmHeader header;
    header.set_ip(source.is_ipv4() ? 4 : 6);
    header.source_port = Be<uint16_t>(source_port);
    Put(source, header.source);
    Put(destination, header.destination);
    return header;
  }
  // REQUIRES: ip() is 4 or 6
  Gid source_gid() const { return Get(source); }
  Gid destination_gid() const { return Get(destination); }

 private:
  static void Put(const Gid& gid, uint8_t out[16]) {
    if (gid.is_ipv4()) {
      std::memcpy(out + 12, &gid.bytes[12], 4);
    } else {
      std::memcpy(out, gid.bytes.data(), 16);
    }
  }
  Gid Get(const uint8_t in[16]) const {
    if (ip() != 4) return Gid::FromIpv6(in);
    Be<uint32_t> address;
    std::memcpy(&address, in + 12, sizeof(address));
    return Gid::FromIpv4(address);
  }
};
static_assert(sizeof(IpCmHeader) == 36 && alignof(IpCmHeader) == 1);
static_assert(offsetof(IpCmHeader, source) == 4);
static_assert(offsetof(IpCmHeader, destination) == 20);

}  // namespace urnic::wire
