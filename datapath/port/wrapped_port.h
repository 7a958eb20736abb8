#pragma once

// The base of ports that stand in front of another port. It has the same MTU,
// MAC, pool and numbers, and passes all calls on that a subclass does not
// override. Only checksums are not offloaded: a subclass may change frames, and
// then their checksums are wrong.

#include <cstdint>
#include <memory>
#include <utility>

#include "datapath/port/port.h"

namespace urnic {

class WrappedPort : public Port {
 public:
  uint16_t Receive(rte_mbuf** out, uint16_t max) override {
    return port_->Receive(out, max);
  }
  uint16_t Transmit(rte_mbuf** packets, uint16_t count) override {
    return port_->Transmit(packets, count);
  }
  bool ArmWakeup() override { return port_->ArmWakeup(); }
  void DisarmWakeup() override { port_->DisarmWakeup(); }
  int wait_fd() const override { return port_->wait_fd(); }
  bool ReplaceDevice(const char* why) override {
    return port_->ReplaceDevice(why);
  }
  uint32_t frames_held() const override { return port_->frames_held(); }
  FaultCounts fault_counts() const override { return port_->fault_counts(); }
  PortCounters counters() const override { return port_->counters(); }
  PortInfo info() const override { return port_->info(); }
  uint32_t link_mtu() const override { return port_->link_mtu(); }

 protected:
  explicit WrappedPort(std::unique_ptr<Port> port) : port_(std::move(port)) {
    mtu_ = port_->mtu();
    mac_ = port_->mac();
    pool_ = port_->pool();
    lcore_ = port_->lcore();
    ordinal_ = port_->ordinal();
  }

  const std::unique_ptr<Port> port_;
};

}  // namespace urnic
