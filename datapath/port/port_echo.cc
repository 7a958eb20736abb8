// The other side of port tests: opens a port and sends back what it receives,
// until it is killed. port_echo DEV [MTU]

#include <rte_mbuf.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "datapath/guest/eal.h"
#include "datapath/port/port_factory.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  urnic::PortConfig config;
  config.dev = argv[1];
  config.mtu = static_cast<uint16_t>(argc > 2 ? std::atoi(argv[2]) : 0);
  auto port = urnic::CreatePort(config);
  if (!port.ok()) {
    std::fprintf(stderr, "%s\n", port.status().ToString().c_str());
    return 1;
  }
  urnic::TakeLcore((*port)->lcore());
  for (;;) {
    rte_mbuf* frames[urnic::kBurstMax];
    const uint16_t n = (*port)->Receive(frames, urnic::kBurstMax);
    const uint16_t sent = n == 0 ? 0 : (*port)->Transmit(frames, n);
    rte_pktmbuf_free_bulk(frames + sent, n - sent);
  }
}
