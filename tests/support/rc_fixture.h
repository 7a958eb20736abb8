#pragma once

// A queue pair in RTS with memory and keys, for unit tests of the RC core. The
// peer is the test: it delivers packets and looks at what is sent.

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/endpoint.h"
#include "tests/support/packet_builder.h"
#include "transport/work/timers.h"

namespace urnic::testing {

class RcFixture : public ::testing::Test {
 protected:
  static constexpr uint32_t kAll = mem::kLocalWrite | mem::kRemoteWrite |
                                   mem::kRemoteRead | mem::kRemoteAtomic;
  static constexpr uint64_t kPeer = 0x10000;  // an address of the peer
  static constexpr uint32_t kPeerKey = 0x55;

  RcFixture() {
    config_.dest_qpn = 0x22;
    config_.mtu = 256;
    config_.sq_psn = Psn(100);
    config_.rq_psn = Psn(200);
    config_.access = kAll;
    config_.timeout = AckTimeout(14);
    config_.max_rd_atomic = config_.max_dest_rd_atomic = 4;
    key_ = host_.Register(1, 0, host_.size(), kAll);
  }

  // Call once, after changes to config_.
  void Connect() { end_.Connect(config_); }

  uint64_t At(size_t offset) const { return host_.address(offset); }
  urnic_sge Sge(size_t offset, uint32_t length) const {
    return {At(offset), length, key_};
  }
  bool Post(uint8_t opcode, uint64_t wr_id, uint32_t length,
            uint8_t flags = URNIC_SEND_SIGNALED) {
    return end_.PostSend({.opcode = opcode,
                          .flags = flags,
                          .wr_id = wr_id,
                          .sges = {Sge(0, length)},
                          .remote_addr = kPeer,
                          .rkey = kPeerKey});
  }

  RxVerdict Deliver(const Packet& packet) {
    return end_.Deliver(packet, now_).at(0);
  }
  std::vector<Packet> Transmit() {
    std::vector<Packet> all;
    while (end_.qp().HasWork()) {
      std::vector<Packet> some = end_.Transmit(now_);
      if (some.empty()) break;
      all.insert(all.end(), some.begin(), some.end());
    }
    end_.qp().CheckInvariants();
    return all;
  }

  Time now_ = Time::FromNs(1000000);
  FakeHost host_{64 * 1024};
  uint32_t key_ = 0;
  QpConfig config_;
  Endpoint end_{host_, {}};
};

}  // namespace urnic::testing
