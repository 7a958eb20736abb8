#pragma once

// A port for simulators, in which the caller acts as the wire: frames leave and
// arrive as bytes, without buffers or DPDK. One thread.

#include <cstdint>
#include <deque>
#include <span>

#include "datapath/port/port.h"

namespace urnic {

struct FramePortConfig {
  wire::MacAddress mac;
  uint16_t mtu = 1500;
  uint16_t rx_ring = 256;  // frames that wait to be received
  // Ports that are used by one thread may share these two.
  rte_mempool* pool = nullptr;
  unsigned lcore = 0;
};

class FramePort : public Port {
 public:
  explicit FramePort(const FramePortConfig& config);
  ~FramePort() override;

  uint16_t Receive(rte_mbuf** out, uint16_t max) override;
  uint16_t Transmit(rte_mbuf** packets, uint16_t count) override;

  // No thread sleeps on this port.
  bool ArmWakeup() override { return false; }
  void DisarmWakeup() override {}
  int wait_fd() const override { return -1; }
  PortCounters counters() const override { return {}; }
  PortInfo info() const override {
    return {.state = PortState::kUp, .text = "up"};
  }

  // Delivers a frame from the wire. False: it is lost because the ring is full,
  // or because it is longer than the port carries.
  bool Deliver(std::span<const uint8_t> frame);

 protected:
  // Sends a frame to the wire. False: there is no room, and the engine keeps
  // it.
  virtual bool Send(std::span<const uint8_t> frame) = 0;

 private:
  const uint16_t rx_ring_;
  std::deque<rte_mbuf*> rx_;
};

}  // namespace urnic
