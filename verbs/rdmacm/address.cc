#include "verbs/rdmacm/address.h"

#include <algorithm>
#include <cstring>

namespace urnic::rdmacm {

SocketAddress SocketAddress::FromBytes(std::span<const uint8_t> bytes) {
  SocketAddress address;
  std::memcpy(address.storage_.bytes, bytes.data(),
              std::min(bytes.size(), sizeof(address.storage_.family)));
  const size_t size = address.size();
  std::memcpy(address.storage_.bytes, bytes.data(),
              std::min(bytes.size(), size));
  return address;
}

SocketAddress SocketAddress::FromGid(const wire::Gid& gid, uint16_t port,
                                     uint32_t scope) {
  SocketAddress address;
  if (gid.is_ipv4()) {
    address.storage_.in.sin_family = AF_INET;
    std::memcpy(&address.storage_.in.sin_addr, &gid.bytes[12], 4);
  } else {
    address.storage_.in6.sin6_family = AF_INET6;
    address.set_ipv6(gid);
    address.storage_.in6.sin6_scope_id = gid.is_link_local() ? scope : 0;
  }
  address.set_port(port);
  return address;
}

size_t SocketAddress::size() const {
  switch (family()) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    case kAfIb:
      return sizeof(SockaddrIb);
    default:
      return 0;
  }
}

uint16_t SocketAddress::port() const {
  switch (family()) {
    case AF_INET:
      return ntohs(storage_.in.sin_port);
    case AF_INET6:
      return ntohs(storage_.in6.sin6_port);
    case kAfIb:
      return static_cast<uint16_t>(storage_.ib.service_id.value() &
                                   storage_.ib.service_id_mask.value());
    default:
      return 0;
  }
}

void SocketAddress::set_port(uint16_t port) {
  switch (family()) {
    case AF_INET:
      storage_.in.sin_port = htons(port);
      break;
    case AF_INET6:
      storage_.in6.sin6_port = htons(port);
      break;
    case kAfIb: {
      SockaddrIb& ib = storage_.ib;
      const uint64_t fixed =
          ib.service_id.value() & ib.service_id_mask.value() & ~0xffffull;
      ib.service_id = wire::Be<uint64_t>(fixed | port);
      ib.service_id_mask = wire::Be<uint64_t>(~0ull);
      break;
    }
    default:
      break;
  }
}

bool SocketAddress::is_zero() const {
  switch (family()) {
    case AF_INET:
      return (ntohl(storage_.in.sin_addr.s_addr) >> 24) == 0;
    case AF_INET6:
      return IN6_IS_ADDR_UNSPECIFIED(&storage_.in6.sin6_addr);
    case kAfIb:
      return storage_.ib.address == wire::Gid{};
    default:
      return false;
  }
}

bool SocketAddress::is_loopback() const {
  switch (family()) {
    case AF_INET:
      return (ntohl(storage_.in.sin_addr.s_addr) >> 24) == 127;
    case AF_INET6:
      return IN6_IS_ADDR_LOOPBACK(&storage_.in6.sin6_addr);
    case kAfIb: {
      wire::Gid one;
      one.bytes[15] = 1;
      return storage_.ib.address == one;
    }
    default:
      return false;
  }
}

bool SocketAddress::is_link_local() const {
  return family() == AF_INET6 && gid().is_link_local();
}

bool SocketAddress::is_multicast() const {
  return is_ip() && gid().is_multicast();
}

void SocketAddress::set_scope(uint32_t scope) {
  if (family() == AF_INET6) storage_.in6.sin6_scope_id = scope;
}

void SocketAddress::set_ipv6(const wire::Gid& gid) {
  std::memcpy(&storage_.in6.sin6_addr, gid.bytes.data(), 16);
}

wire::Gid SocketAddress::gid() const {
  switch (family()) {
    case AF_INET:
      return wire::Gid::FromIpv4(ntohl(storage_.in.sin_addr.s_addr));
    case AF_INET6:
      return wire::Gid::FromIpv6(storage_.in6.sin6_addr.s6_addr);
    case kAfIb:
      return storage_.ib.address;
    default:
      return {};
  }
}

}  // namespace urnic::rdmacm
