#pragma once

// A stranger at the switch of a run (engine_run.h) pings the hosts in
// fragments, and sends some fragments that make no packet. The rule: an answer
// has the bytes of its ping, although frames are kept and buffers reused
// meanwhile.

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "tests/sim/sim_port.h"
#include "tests/sim/world.h"
#include "tests/support/fragments.h"

namespace urnic::sim {

class Pings {
 public:
  static constexpr wire::MacAddress kMac = {{2, 7, 7, 7, 7, 7}};

  Pings(bool ipv6, uint64_t seed, std::function<void(Frame)> send)
      : random_(seed),
        gid_(testing::GidOf(200, ipv6)),
        send_(std::move(send)) {}

  void Ping(const wire::MacAddress& mac, const wire::Gid& host) {
    const auto sequence = static_cast<uint16_t>(++last_);
    std::vector<uint8_t> data(1 + random_.Below(6000));
    for (uint8_t& byte : data) byte = random_.Byte();
    answers_[sequence] = testing::EchoMessage(host, gid_, sequence, data, true);
    const auto bytes = static_cast<uint32_t>(8 * (20 + random_.Below(160)));
    auto frames = testing::FragmentFrames(
        {.from = testing::SelfOf(kMac, gid_),
         .to = testing::SelfOf(mac, host),
         .identification = sequence},
        testing::EchoMessage(gid_, host, sequence, data), bytes);
    if (random_.OneIn(4)) frames.pop_back();
    for (Frame& frame : frames) send_(std::move(frame));
  }

  // A frame for the stranger.
  void OnFrame(const Frame& frame) {
    const auto message = together_.Add(frame);
    if (!message.has_value() || message->size() < 8) return;
    // Fragments of different answers may share one identification.
    if (gid_.is_ipv4() && wire::ChecksumReference(*message) != 0) return;
    const auto at = answers_.find(
        static_cast<uint16_t>((*message)[6] << 8 | (*message)[7]));
    if (at == answers_.end()) return;
    Require(*message == at->second, "the answer to another ping");
    answers_.erase(at);
    ++answered_;
  }
  uint64_t answered() const { return answered_; }

 private:
  Random random_;
  const wire::Gid gid_;
  const std::function<void(Frame)> send_;
  std::map<uint16_t, std::vector<uint8_t>> answers_;  // expected ones
  testing::Answers together_;
  uint32_t last_ = 0;
  uint64_t answered_ = 0;
};

}  // namespace urnic::sim
