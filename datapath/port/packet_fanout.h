#pragma once

// DPDK's af_packet (22.11) puts its sockets into a fanout group (packet(7),
// PACKET_FANOUT), even if there is only one. The group's number is made of the
// process's id and the interface's index, and belongs to the network namespace:
// two programs on two interfaces may arrive at the same number, and the second
// one is refused. The group also makes the kernel reassemble IPv4 fragments.
// RoCE has none: an RNIC drops and counts those that it sees
// (RxVerdict::kIpFragment), and with the group it saw none. A port has one
// queue, so it needs no group.

namespace urnic {

// While it lives, calls of the same thread that ask for a fanout group succeed
// without making one. The linker sends setsockopt(2) here (--wrap,
// BUILD.bazel); whatever else is set, or set by another thread, is passed on.
class WithoutFanout {
 public:
  WithoutFanout();
  ~WithoutFanout();
  WithoutFanout(const WithoutFanout&) = delete;
  WithoutFanout& operator=(const WithoutFanout&) = delete;
};

}  // namespace urnic
