#pragma once

// For tests: a port whose link carries only smaller packets than its buffers
// hold, like a kernel interface whose MTU changes.

#include <rte_mbuf.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "datapath/port/wrapped_port.h"

namespace urnic {

class NarrowPort final : public WrappedPort {
 public:
  // `link_mtu` may change at any time, in the thread of the hot functions.
  // Larger packets are lost.
  NarrowPort(std::unique_ptr<Port> port, const uint32_t* link_mtu)
      : WrappedPort(std::move(port)), link_mtu_(link_mtu) {}

  uint16_t Transmit(rte_mbuf** packets, uint16_t count) override {
    for (uint16_t i = 0; i < count; ++i) {
      if (packets[i]->pkt_len > link_mtu() + kL2HeaderBytesMax) {
        rte_pktmbuf_free(packets[i]);
      } else if (port_->Transmit(&packets[i], 1) == 0) {
        return i;
      }
    }
    return count;
  }
  uint32_t link_mtu() const override {
    return std::min<uint32_t>(*link_mtu_, mtu());
  }

 private:
  const uint32_t* const link_mtu_;
};

}  // namespace urnic
