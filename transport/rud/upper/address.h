#pragma once

// The address of an endpoint. Programs exchange addresses by any means. An
// address is valid until the endpoint ends: after a restart there is another
// one.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transport/rud/upper/adapter.h"
#include "transport/rud/upper/types.h"

namespace urnic::rud::upper {

struct NicAddress {
  WindowAddress window;
  // The longest payload that this NIC can receive, also in the receive FIFO.
  uint32_t packet_bytes = 0;
};

struct EndpointAddress {
  static constexpr uint8_t kVersion = 1;

  uint64_t incarnation = 0;  // random, and not 0
  // Memory for partial messages of each peer, and how many there may be.
  uint64_t reassembly_bytes = 0;
  uint32_t open_messages = 0;
  std::vector<NicAddress> nics;

  std::vector<uint8_t> Encode() const;
  // Nullopt: another version, a wrong length, no NIC, or values that no
  // endpoint has.
  static std::optional<EndpointAddress> Decode(std::span<const uint8_t> bytes);
};

}  // namespace urnic::rud::upper
