#pragma once

// A stranger at the switch of a run (device_run.h) who floods listeners with
// SYNs, and sends segments that pretend to belong to the connections of others,
// but does not see these: it must guess their numbers.

#include <cstdint>
#include <functional>
#include <utility>

#include "tests/sim/session.h"
#include "tests/sim/sim_port.h"
#include "tests/sim/world.h"
#include "tests/support/tcp_frame.h"

namespace urnic::sim {

class Flood {
 public:
  static constexpr wire::MacAddress kMac = {{2, 7, 7, 7, 7, 7}};
  static constexpr uint8_t kNumber = 200;  // of its first address

  Flood(bool ipv6, uint64_t seed, std::function<void(Frame)> send)
      : ipv6_(ipv6), random_(seed), send_(std::move(send)) {}

  // A SYN to a host's listener.
  void Syn(const wire::NeighborSelf& host) {
    wire::TcpFields fields;
    fields.src_port = static_cast<uint16_t>(random_.Next());
    fields.dst_port = Session::kPort;
    fields.seq = SeqNum(static_cast<uint32_t>(random_.Next()));
    fields.flags = wire::kTcpSyn;
    fields.window = static_cast<uint16_t>(random_.Next());
    if (random_.OneIn(2)) fields.options.mss = 1460;
    if (random_.OneIn(2)) fields.options.sack_permitted = true;
    if (random_.OneIn(2)) fields.options.window_shift = random_.Below(16);
    if (random_.OneIn(2)) fields.options.timestamps = {Word(), 0};
    fields.options.urnic = random_.OneIn(2);
    const auto number = static_cast<uint8_t>(kNumber + random_.Below(50));
    Send(testing::SelfOf(kMac, testing::GidOf(number, ipv6_)), host, fields);
    ++sent_;
  }
  // Anything but a SYN, in the name of `peer`, with the ports of a session.
  void Forge(const wire::NeighborSelf& peer, const wire::NeighborSelf& host,
             uint32_t ports) {
    wire::TcpFields fields;
    fields.src_port = Session::kPort;
    fields.dst_port =
        static_cast<uint16_t>(Session::kFirstPort + random_.Below(ports));
    if (random_.OneIn(2)) std::swap(fields.src_port, fields.dst_port);
    fields.seq = SeqNum(Word());
    fields.ack = SeqNum(Word());
    fields.flags = static_cast<uint8_t>(random_.Next() & ~wire::kTcpSyn);
    fields.window = static_cast<uint16_t>(random_.Next());
    if (random_.OneIn(2)) fields.options.timestamps = {Word(), Word()};
    uint8_t payload[32];
    for (uint8_t& byte : payload) byte = random_.Byte();
    Send(peer, host, fields, std::span(payload).first(random_.Below(33)));
    ++sent_;
  }
  uint64_t sent() const { return sent_; }

 private:
  uint32_t Word() { return static_cast<uint32_t>(random_.Next()); }
  void Send(const wire::NeighborSelf& from, const wire::NeighborSelf& to,
            const wire::TcpFields& fields,
            std::span<const uint8_t> payload = {}) {
    send_(testing::TcpFrame({from, to}, fields, payload));
  }

  const bool ipv6_;
  Random random_;
  const std::function<void(Frame)> send_;
  uint64_t sent_ = 0;
};

}  // namespace urnic::sim
