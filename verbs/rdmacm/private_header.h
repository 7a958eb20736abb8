#pragma once

// The header that the RDMA IP CM service puts in front of a request's private
// data: who calls, and whom (IBTA volume 1, annex A11, table 164). Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbs/rdmacm/address.h"

namespace urnic::rdmacm {

inline constexpr size_t kPrivateHeaderBytes = 36;

struct PrivateHeader {
  SocketAddress source;       // with its port
  SocketAddress destination;  // the port is in the service id
};

// REQUIRES: two addresses of the same family, IPv4 or IPv6.
void WritePrivateHeader(const SocketAddress& source,
                        const SocketAddress& destination,
                        std::span<uint8_t, kPrivateHeaderBytes> out);

// Nothing if the bytes are too few, or of another version of the service or of
// IP: then the request is not for a listener of ours.
std::optional<PrivateHeader> ReadPrivateHeader(std::span<const uint8_t> bytes,
                                               uint16_t destination_port);

}  // namespace urnic::rdmacm
