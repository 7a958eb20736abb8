#include "datapath/port/loop_port.h"

#include <rte_mbuf.h>

#include <utility>

#include "datapath/guest/eal.h"
#include "datapath/memory/packet_pool.h"

namespace urnic {

LoopPort::LoopPort(PortClaim claim, uint16_t mtu, const wire::MacAddress& mac,
                   rte_mempool* pool, unsigned lcore)
    : claim_(std::move(claim)) {
  mtu_ = mtu;
  mac_ = mac;
  pool_ = pool;
  lcore_ = lcore;
  ordinal_ = claim_.ordinal();
}

LoopPort::~LoopPort() {
  if (!EalUsable()) return;
  ReturnPool(pool_);
  FreeLcore(lcore_);
}

uint16_t LoopPort::Transmit(rte_mbuf** packets, uint16_t count) {
  rte_pktmbuf_free_bulk(packets, count);
  tx_dropped_down_.Add(count);
  return count;
}

PortCounters LoopPort::counters() const {
  PortCounters sum;
  sum.tx_dropped_down = tx_dropped_down_.value();
  return sum;
}

PortInfo LoopPort::info() const {
  return {.state = PortState::kUp,
          .text = "no wire: this RNIC can only talk to itself",
          .rx_ring = 0,
          .tx_ring = 0};
}

}  // namespace urnic
