#pragma once

// DPDK's af_packet (22.11) puts its sockets into a fanout group (packet(7),
// PACKET_FANOUT), even if there is only one. The group's number is derived from
// the process id and the interface's index, and is unique per network
// namespace. Two programs on two interfaces may get the same number; then the
// second one fails. The group also makes the kernel reassemble IPv4 fragments,
// into packets longer than the MTU. An RNIC reassembles pings itself and drops
// all other fragments (RxVerdict::kIpFragment). A port has one queue, so it
// needs no group.

#include <linux/if_packet.h>

namespace urnic {

// While it exists, requests of this thread for a fanout group succeed without
// creating one. The linker redirects setsockopt(2) here (--wrap, BUILD.bazel).
// Other options, and calls by other threads, are passed on. One at a time in a
// thread.
class WithoutFanout {
 public:
  WithoutFanout();
  ~WithoutFanout();
  WithoutFanout(const WithoutFanout&) = delete;
  WithoutFanout& operator=(const WithoutFanout&) = delete;

  // The geometry of the transmit ring that this thread has requested since the
  // object exists; zero: none.
  static tpacket_req transmit_ring();
};

}  // namespace urnic
