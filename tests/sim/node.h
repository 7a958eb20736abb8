#pragma once

// Drives one queue pair as an engine would: takes what has arrived in bursts,
// fires the timer, transmits in bursts of changing size, and lets lonely
// acknowledgements wait for company now and then.

#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tests/sim/order_rule.h"
#include "tests/sim/wire_rules.h"
#include "tests/sim/world.h"
#include "tests/support/endpoint.h"

namespace urnic::sim {

using testing::Endpoint;
using testing::Packet;

class Node {
 public:
  Node(World& world, Endpoint& end, const QpConfig& config, uint64_t seed,
       std::function<void(Packet)> send)
      : world_(world),
        end_(end),
        rules_(config),
        random_(seed),
        send_(std::move(send)) {}

  void OnPacket(Packet packet) {
    if (!testing::SealIntact(packet)) {
      ++corrupt_dropped_;
      return;
    }
    arrived_.push_back(std::move(packet));
    Kick();
  }

  // An engine that is always there, takes what it can, and never hesitates.
  void MakeSteady() { steady_ = true; }

  // The queue pair begins a new life.
  void Restart(const QpConfig& config) {
    Require(arrived_.empty(), "packets of an earlier life");
    rules_ = WireRules(config);
    order_ = OrderRule();
  }

  // The program has posted, or has modified the queue pair.
  void Kick() {
    if (scheduled_) return;
    scheduled_ = true;
    // Now and then the thread was busy with something else.
    const uint64_t busy_ns = steady_ ? 1 : random_.OneIn(100) ? 400000 : 2000;
    world_.After(Duration::Nanoseconds(
                     200 + static_cast<int64_t>(random_.Below(busy_ns))),
                 [this] { Step(); });
  }

  // What is posted is entered here, unless the node is steady.
  OrderRule& order() { return order_; }
  uint64_t corrupt_dropped() const { return corrupt_dropped_; }

 private:
  void Step() {
    scheduled_ = false;
    Receive();
    FireTimer();
    TransmitSome();
    end_.Poll();
    end_.qp().CheckInvariants();
    if (!arrived_.empty() || end_.qp().HasWork()) Kick();
    WatchDeadline();
  }

  void Receive() {
    std::vector<Packet> burst;
    const uint64_t limit = steady_ ? kRunMax : 1 + random_.Below(kRunMax);
    while (!arrived_.empty() && burst.size() < limit) {
      burst.push_back(std::move(arrived_.front()));
      arrived_.pop_front();
    }
    std::vector<wire::RocePacket> parsed;
    // The wire has a congested moment now and then.
    const uint64_t marked = !steady_ && random_.OneIn(8) ? random_.Next() : 0;
    for (size_t i = 0; i < burst.size(); ++i) {
      const Packet& packet = burst[i];
      wire::RocePacket p;
      if (wire::ParseRoce(packet.data(), static_cast<uint32_t>(packet.size()),
                          p) == RxVerdict::kAccept) {
        parsed.push_back(p);
        if ((marked >> i & 1) != 0 && p.info->request()) {
          rules_.OnMarked(world_.now());
        }
      }
    }
    const size_t before = end_.completions().size();
    const std::vector<RxVerdict> verdicts =
        end_.Deliver(burst, world_.now(), marked);
    Require(verdicts.size() == parsed.size(), "a packet without a verdict");
    if (!steady_) {
      order_.OnBurst(parsed, verdicts,
                     std::span(end_.completions()).subspan(before));
    }
    for (size_t i = 0; i < parsed.size(); ++i) {
      rules_.OnReceived(parsed[i], verdicts[i]);
    }
    end_.qp().CheckInvariants();
  }

  void TransmitSome() {
    if (!steady_ && end_.qp().OnlyAckWaits() && random_.OneIn(4)) return;
    // HasWork() may be wrong once in one place: a request that turns out to
    // have to wait.
    for (int futile = 0; end_.qp().HasWork();) {
      const auto slots =
          steady_ ? 32u : static_cast<uint32_t>(1 + random_.Below(32));
      const uint64_t moves = end_.moves();
      std::vector<Packet> packets = end_.Transmit(world_.now(), slots);
      futile = packets.empty() && moves == end_.moves() ? futile + 1 : 0;
      Require(futile < 4, "HasWork() but nothing to transmit");
      for (Packet& packet : packets) Send(std::move(packet));
      end_.qp().CheckInvariants();
      if (!steady_ && random_.OneIn(8))
        return;  // the port is full; the rest later
    }
  }

  void Send(Packet packet) {
    wire::RocePacket parsed;
    Require(wire::ParseRoce(packet.data(), static_cast<uint32_t>(packet.size()),
                            parsed) == RxVerdict::kAccept,
            "a malformed packet is sent");
    rules_.OnSent(parsed, world_.now());
    send_(std::move(packet));
  }

  void FireTimer() {
    const Time due = end_.NextDeadline();
    if (due > world_.now()) return;
    end_.AdvanceTo(world_.now());
    Require(end_.NextDeadline() > world_.now(),
            "OnTimer() leaves a deadline that has passed");
  }

  // One event per deadline. It is exact: when it comes and still stands,
  // OnTimer() must have something to do.
  void WatchDeadline() {
    const Time due = end_.NextDeadline();
    if (due.IsInfinite() || due == watched_) return;
    watched_ = due;
    world_.At(due, [this, due] {
      if (watched_ == due) watched_ = Time::Infinite();
      if (end_.NextDeadline() != due) return WatchDeadline();
      FireTimer();
      Kick();
    });
  }

  World& world_;
  Endpoint& end_;
  WireRules rules_;
  OrderRule order_;
  Random random_;
  std::function<void(Packet)> send_;
  std::deque<Packet> arrived_;
  bool scheduled_ = false;
  bool steady_ = false;
  Time watched_ = Time::Infinite();
  uint64_t corrupt_dropped_ = 0;
};

}  // namespace urnic::sim
