#include "verbs/rdmacm/private_header.h"

#include <cstring>

#include "transport/wire/be.h"

namespace urnic::rdmacm {

namespace {

//= IBTA A11.6: the header of the RDMA IP CM service
struct Layout {
  uint8_t version;     // major and minor, 0
  uint8_t ip_version;  // in the upper four bits
  wire::Be<uint16_t> source_port;
  uint8_t source[16];  // an IPv4 address is in the last four bytes
  uint8_t destination[16];
};
static_assert(sizeof(Layout) == kPrivateHeaderBytes && alignof(Layout) == 1);

constexpr size_t kIpv4Offset = 12;

void WriteAddress(const SocketAddress& address, uint8_t out[16]) {
  const wire::Gid gid = address.gid();
  const size_t from = address.family() == AF_INET ? kIpv4Offset : 0;
  std::memcpy(out + from, &gid.bytes[from], 16 - from);
}

SocketAddress ReadAddress(const uint8_t bytes[16], bool is_ipv4,
                          uint16_t port) {
  if (!is_ipv4) {
    SocketAddress address;
    address.set_family(AF_INET6);
    address.set_ipv6(wire::Gid::FromIpv6(bytes));
    address.set_port(port);
    return address;
  }
  wire::Be<uint32_t> ipv4;
  std::memcpy(&ipv4, bytes + kIpv4Offset, sizeof(ipv4));
  return SocketAddress::FromGid(wire::Gid::FromIpv4(ipv4), port, 0);
}

}  // namespace

void WritePrivateHeader(const SocketAddress& source,
                        const SocketAddress& destination,
                        std::span<uint8_t, kPrivateHeaderBytes> out) {
  Layout header = {};
  header.ip_version = source.family() == AF_INET ? 4 << 4 : 6 << 4;
  header.source_port = wire::Be<uint16_t>(source.port());
  WriteAddress(source, header.source);
  WriteAddress(destination, header.destination);
  std::memcpy(out.data(), &header, sizeof(header));
}

std::optional<PrivateHeader> ReadPrivateHeader(std::span<const uint8_t> bytes,
                                               uint16_t destination_port) {
  Layout header;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const int ip_version = header.ip_version >> 4;
  if (header.version != 0 || (ip_version != 4 && ip_version != 6)) {
    return std::nullopt;
  }
  const bool is_ipv4 = ip_version == 4;
  return PrivateHeader{
      .source = ReadAddress(header.source, is_ipv4, header.source_port.value()),
      .destination =
          ReadAddress(header.destination, is_ipv4, destination_port)};
}

}  // namespace urnic::rdmacm
