#pragma once

// Datagrams between all hosts of a run (engine_run.h): each host has one UD
// queue pair and sends some to hosts of its choice, by address handles. The
// rules: each received datagram is whole, and from the host that it names;
// sends complete once each, in order; on a wire that loses nothing each
// datagram arrives, once.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tests/sim/engine_host.h"
#include "tests/support/fake_rings.h"

namespace urnic::sim {

class Mail;

// The datagrams of one host.
class Mailbox final : private EngineEvents {
 public:
  Mailbox(World& world, Mail& mail, EngineHost& host, uint32_t number,
          uint64_t seed);
  ~Mailbox();

  void Start();
  bool done() const {
    return sent_.size() == kLetters && completed_ == kLetters;
  }
  uint64_t received() const { return received_; }
  EngineHost& host() { return host_; }
  uint32_t qpn() const { return qp_->qpn(); }

 private:
  static constexpr uint32_t kLetters = 12;
  static constexpr uint32_t kSlots = 16;
  static constexpr uint32_t kSlotBytes = 1024;
  static constexpr uint32_t kHeaderBytes = 40;  // room for a GRH

  struct Letter {
    uint32_t to = 0;
    uint32_t bytes = 0;
    uint32_t times = 0;  // received
  };

  void OnCompletionEvent(CompletionQueue&) override;
  void OnCqOverflow(CompletionQueue&) override {
    Violate("a completion queue has overflowed");
  }

  void Write();
  void Post(uint32_t to);
  void Read();
  void OnReceived(const urnic_cqe& cqe);
  void PostReceive(uint64_t slot);
  static uint8_t ByteOf(uint32_t from, uint32_t index, uint32_t at) {
    const uint32_t x = (from * 4096 + index) * 2654435761u + at * 40503u;
    return static_cast<uint8_t>(x >> 11);
  }

  World& world_;
  Mail& mail_;
  EngineHost& host_;
  const uint32_t number_;
  Random random_;
  testing::FakeRings rings_;
  std::vector<urnic_cqe> ring_;
  urnic_queue_indices indices_ = {};
  CompletionQueue cq_;
  std::vector<uint8_t> memory_;
  uint32_t key_ = 0;
  EngineQp* qp_ = nullptr;
  std::map<uint32_t, uint32_t> handles_;  // of hosts
  std::vector<Letter> sent_;
  uint64_t completed_ = 0;
  uint64_t received_ = 0;
};

class Mail {
 public:
  // `whole`: nothing is lost or duplicated.
  Mail(World& world, const std::vector<EngineHost*>& hosts, bool whole,
       uint64_t seed);
  void Start();
  // Everything that will arrive has arrived, if that can be known.
  bool over() const;
  uint64_t received() const;

  bool whole() const { return whole_; }
  Mailbox& box(uint32_t number) { return *boxes_[number]; }
  uint32_t boxes() const { return static_cast<uint32_t>(boxes_.size()); }
  uint64_t expected = 0;  // letters that were sent

 private:
  const bool whole_;
  std::vector<std::unique_ptr<Mailbox>> boxes_;
};

}  // namespace urnic::sim
