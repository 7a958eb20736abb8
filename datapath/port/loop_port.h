#pragma once

#include <cstdint>

#include "datapath/port/port.h"
#include "datapath/port/port_claim.h"

namespace urnic {

// The `loop` port, which has no wire. The engine delivers packets to its own
// device before they reach the port, so usually the port gets none. Frames that
// it gets all the same (packets to an unknown address) are dropped and counted.
class LoopPort final : public Port {
 public:
  LoopPort(PortClaim claim, uint16_t mtu, const wire::MacAddress& mac,
           rte_mempool* pool, unsigned lcore);
  ~LoopPort() override;

  uint16_t Receive(rte_mbuf**, uint16_t) override { return 0; }
  uint16_t Transmit(rte_mbuf** packets, uint16_t count) override;
  bool ArmWakeup() override { return true; }
  void DisarmWakeup() override {}
  int wait_fd() const override { return -1; }
  PortCounters counters() const override;
  PortInfo info() const override;

 private:
  PortClaim claim_;
  HotCounter tx_dropped_down_;
};

}  // namespace urnic
