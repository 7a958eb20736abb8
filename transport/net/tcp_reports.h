#pragma once

// What routers report about TCP segments of ours. Only the connection of the
// segment can tell whether the report is genuine.

#include <cstdint>

#include "transport/base/time.h"
#include "transport/wire/address.h"

namespace urnic::net {

// A router has refused a segment because of its size.
struct TcpTooBig {
  wire::Gid local;  // an address of ours
  wire::Gid remote;
  uint16_t local_port = 0;
  uint16_t remote_port = 0;
  uint32_t seq = 0;  // of the segment
  // The largest IP packet that the path carries, in bytes: what the router has
  // said, as PathMtuCache::ReportedMtu() reads it.
  uint32_t mtu = 0;
};

// Gets the reports. Thread: the holder of the engine's token.
class TcpReports {
 public:
  // The connection may not exist. If it has sent the segment and waits for its
  // acknowledgement, it uses smaller segments, and calls
  // Network::LearnPathMtu().
  virtual void OnTooBig(const TcpTooBig& report, Time now) = 0;

 protected:
  ~TcpReports() = default;
};

}  // namespace urnic::net
