#pragma once

// The socket addresses of rdma_cm: IPv4, IPv6, and AF_IB, which librdmacm uses
// only to find out whether it exists. Pure values.

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/wire/address.h"

namespace urnic::rdmacm {

// AF_IB of Linux, and its sockaddr (include/rdma/ib.h): 48 bytes.
inline constexpr uint16_t kAfIb = 27;
struct SockaddrIb {
  uint16_t family;
  wire::Be<uint16_t> pkey;
  wire::Be<uint32_t> flow_info;
  wire::Gid address;
  wire::Be<uint64_t> service_id;
  wire::Be<uint64_t> service_id_mask;
  uint8_t scope_id[8];
};
static_assert(sizeof(SockaddrIb) == 48);

class SocketAddress {
 public:
  SocketAddress() : storage_{} {}

  // Reads an address of a program. The family determines how many bytes are
  // used. Bytes beyond `bytes` read as zero. An unknown family is kept, with
  // size() 0.
  static SocketAddress FromBytes(std::span<const uint8_t> bytes);
  static SocketAddress FromGid(const wire::Gid& gid, uint16_t port,
                               uint32_t scope);

  uint16_t family() const { return storage_.family; }
  // Sets the family of an address that has none yet.
  void set_family(uint16_t family) { storage_.family = family; }
  bool is_ip() const { return family() == AF_INET || family() == AF_INET6; }

  // The size of the family's sockaddr; 0 for families that rdma_cm does not
  // know.
  size_t size() const;
  const uint8_t* data() const { return storage_.bytes; }

  // 0 if the family has none. In an AF_IB address, the service id's free bits.
  uint16_t port() const;
  void set_port(uint16_t port);

  // All zero (IPv4: any of 0.0.0.0/8, as in Linux).
  bool is_zero() const;
  bool is_loopback() const;
  // "Any" as in Linux: neither identifies a device.
  bool is_any() const { return is_zero() || is_loopback(); }
  bool is_link_local() const;  // IPv6 only
  bool is_multicast() const;
  uint32_t scope() const {
    return family() == AF_INET6 ? storage_.in6.sin6_scope_id : 0;
  }
  void set_scope(uint32_t scope);

  // REQUIRES: family AF_INET6. Stores an IPv4-mapped address without a change.
  void set_ipv6(const wire::Gid& gid);

  // Zero without a family.
  wire::Gid gid() const;
  // The address without port and scope.
  bool SameAddress(const SocketAddress& other) const {
    return family() == other.family() && gid() == other.gid();
  }

  const SockaddrIb& ib() const { return storage_.ib; }
  SockaddrIb& ib() { return storage_.ib; }

 private:
  union {
    uint8_t bytes[sizeof(SockaddrIb)];  // the first: {} zeroes all of it
    uint16_t family;
    sockaddr_in in;
    sockaddr_in6 in6;
    SockaddrIb ib;
  } storage_;
};

}  // namespace urnic::rdmacm
