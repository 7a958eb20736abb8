#pragma once

// A whole RNIC without verbs for tests: a port, its engine without a helper
// thread, one queue pair with its rings, one completion queue for both
// directions and a megabyte of registered memory. One thread.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "datapath/nic/nic.h"
#include "tests/support/fake_rings.h"

namespace urnic::testing {

inline constexpr uint32_t kNodePd = 7;
inline constexpr uint32_t kNodeRights = mem::kLocalWrite | mem::kRemoteWrite |
                                        mem::kRemoteRead | mem::kRemoteAtomic |
                                        mem::kFlushGlobal;

// Opens the port `dev` (port_spec.h) and waits until it has started. (Without a
// peer it may still be down then.) Aborts the program if it cannot.
std::unique_ptr<Port> OpenTestPort(const std::string& dev);

class EngineNode : private EngineEvents, private QpEvents {
 public:
  static constexpr size_t kMemoryBytes = 1 << 20;
  static constexpr uint32_t kSendEntries = 64;
  static constexpr uint32_t kReceiveEntries = 64;

  // `ip` is the RNIC's address, in a network of 24 bits.
  EngineNode(const std::string& dev, uint32_t ip);
  ~EngineNode();
  EngineNode(const EngineNode&) = delete;
  EngineNode& operator=(const EngineNode&) = delete;

  Nic& nic() { return *nic_; }
  Engine& engine() { return nic_->engine(); }
  Network& network() { return nic_->network(); }
  RoceQp& qp() { return *qp_; }
  Port& port() { return nic_->port(); }
  FakeRings& rings() { return rings_; }
  wire::Gid gid() const { return gid_; }
  uint8_t* memory() { return memory_.get(); }
  uint64_t address(size_t offset) const {
    return reinterpret_cast<uint64_t>(memory_.get()) + offset;
  }
  uint32_t key() const { return key_; }
  urnic_sge Sge(size_t offset, uint32_t bytes) const {
    return {address(offset), bytes, key_};
  }
  uint64_t count(RxVerdict verdict) const {
    return nic_->engine().counters().verdicts[static_cast<size_t>(verdict)];
  }

  // Brings the queue pair to RTS along `path`, which ResolvePath() found.
  void Connect(const net::Path& path, const QpConfig& config);

  // Its queue pair, once.
  void DestroyQp();
  // Ends queue pair, engine and port; its memory and rings stay.
  void End();

  // Posts what is already in the send ring, and more of what the receive ring
  // was filled with: both without touching the entries.
  void RingSend(uint32_t count);
  void RingReceive(uint32_t count);
  // The next completion, if there is one. Allocates nothing.
  bool Poll(urnic_cqe& out);

 private:
  void OnCompletionEvent(CompletionQueue&) override {}
  void OnCqOverflow(CompletionQueue&) override;
  void OnQpEvent(EngineQp&, QpEvent) override {}

  const wire::Gid gid_;
  FakeRings rings_;
  std::vector<urnic_cqe> cq_ring_;
  urnic_queue_indices cq_indices_ = {};
  CompletionQueue cq_;
  std::unique_ptr<uint8_t[]> memory_;
  std::unique_ptr<Nic> nic_;
  RoceQp* qp_ = nullptr;
  uint32_t key_ = 0;
};

// Two connected nodes at `ring:NAME`: 10.1.0.1 and 10.1.0.2.
struct NodePair {
  explicit NodePair(const std::string& name);
  EngineNode a;
  EngineNode b;
};

}  // namespace urnic::testing
