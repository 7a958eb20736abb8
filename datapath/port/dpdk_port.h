#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "datapath/port/port.h"
#include "datapath/port/port_claim.h"
#include "datapath/port/port_keeper.h"
#include "datapath/port/port_spec.h"

namespace urnic {

// A port over a DPDK device. The hot functions call the driver's burst
// functions directly. In addition they only check that the device is present
// (two stores and a load), and that each frame is a single segment of allowed
// length.
class DpdkPort final : public Port {
 public:
  // Receive() calls `warn_of_long` once, when it first drops a frame for `mac`
  // that is too long. May be null.
  DpdkPort(PortClaim claim, const PortSpec& spec, const wire::MacAddress& mac,
           rte_mempool* pool, unsigned lcore,
           std::shared_ptr<PortKeeper> keeper, PortWarning warn_of_long);
  ~DpdkPort() override;

  uint16_t Receive(rte_mbuf** out, uint16_t max) override;
  uint16_t Transmit(rte_mbuf** packets, uint16_t count) override;
  bool finishes_tcp_checksums() const override {
    return keeper_->finishes_tcp_checksums();
  }
  bool ArmWakeup() override { return keeper_->Arm(); }
  void DisarmWakeup() override { keeper_->Disarm(); }
  int wait_fd() const override { return keeper_->wait_fd(); }
  bool ReplaceDevice(const char* why) override {
    return keeper_->ReplaceDevice(why);
  }
  PortCounters counters() const override;
  PortInfo info() const override { return keeper_->info(); }
  uint32_t link_mtu() const override {
    const uint32_t now = keeper_->interface_mtu();
    return now == 0 ? mtu() : std::min<uint32_t>(now, mtu());
  }

  // For a benchmark that calls the driver itself. Between Enter() and Leave()
  // the device stays, whatever its peer does.
  DeviceGate& gate() { return gate_; }

 private:
  uint16_t DropUnfit(rte_mbuf** frames, uint16_t count);
  void WarnOfLong(const rte_mbuf& frame);

  DeviceGate& gate_;  // of *keeper_
  const uint16_t frame_bytes_max_;
  const std::string interface_;  // of the kernel, or empty
  PortWarning warn_of_long_;
  HotCounter rx_truncated_;
  HotCounter rx_barred_;
  HotCounter tx_dropped_down_;
  std::shared_ptr<PortKeeper> keeper_;
  PortClaim claim_;
};

}  // namespace urnic
