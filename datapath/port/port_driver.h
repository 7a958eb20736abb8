#pragma once

// Parses the text of a DPDK virtual device: "net_memif0,role=server,id=3". Does
// not need DPDK, so that programs can check the text before they start
// anything.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace urnic {

enum class PortKind : uint8_t {
  kLoop,
  kRing,        // ring:NAME:a|b
  kAfPacket,    // iface:NAME and net_af_packet
  kVirtioUser,  // net_virtio_user, virtio_user
  kVhost,
  kMemif,
  kOther,  // a driver without special needs: net_ring, net_tap, net_null
};

struct PortDriver {
  const char* name;
  const char* dpdk_name;
  PortKind kind;
  std::string_view keys;  // separated by blanks
};

struct DriverText {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  const PortDriver* driver = nullptr;
  Pairs pairs;
};

// UNIMPLEMENTED: no such driver in this build. INVALID_ARGUMENT: not a list of
// key=value, an unknown key, or a value that DPDK would ignore.
absl::StatusOr<DriverText> ParseDriverText(std::string_view dev);

}  // namespace urnic
