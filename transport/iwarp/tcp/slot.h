#pragma once

#include <cstdint>

#include "transport/wire/tcp.h"

namespace urnic::tcp {

// A segment to be sent: its header, and where its payload comes from.
struct TcpSlot {
  wire::TcpFields fields;
  uint64_t source = 0;
  uint32_t offset = 0;
  uint32_t bytes = 0;  // 0: no payload
  bool ect = false;    // the IP header says ECT(0)
};

}  // namespace urnic::tcp
