#pragma once

// An RNIC without verbs for tests: a port, its engine without a helper thread,
// one completion queue and a megabyte of registered memory. One thread. What
// programs have besides is added by its users.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/nic/nic.h"
#include "transport/mem/mr_table.h"

namespace urnic::testing {

inline constexpr uint32_t kNodePd = 7;
inline constexpr uint32_t kNodeRights = mem::kLocalWrite | mem::kRemoteWrite |
                                        mem::kRemoteRead | mem::kRemoteAtomic |
                                        mem::kFlushGlobal;

// Opens the port `dev` (port_spec.h) and waits until it has started. (Without a
// peer it may still be down then.) Aborts the program if it cannot. `fault`:
// see docs/faults.md.
std::unique_ptr<Port> OpenTestPort(const std::string& dev,
                                   const std::string& fault = "");

class NicNode : private EngineEvents {
 public:
  static constexpr size_t kMemoryBytes = 1 << 20;

  Nic& nic() { return *nic_; }
  Engine& engine() { return nic_->engine(); }
  Network& network() { return nic_->network(); }
  Port& port() { return nic_->port(); }
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
  CompletionQueue& cq() { return cq_; }
  // Unread completions may be lost from now on; otherwise that is an error of
  // the test.
  void LetCqOverflow() { may_overflow_ = true; }
  // The next completion, if there is one. Allocates nothing.
  bool Poll(urnic_cqe& out);

 protected:
  // `gid`: the RNIC's address, in a network of 24 bits (IPv4) or 64.
  // `cq_entries`: a power of two.
  NicNode(std::unique_ptr<Port> port, const wire::Gid& gid, NicConfig config,
          uint32_t cq_entries);
  ~NicNode();
  NicNode(const NicNode&) = delete;
  NicNode& operator=(const NicNode&) = delete;

  bool ended() const { return nic_ == nullptr; }
  // Ends engine and port. REQUIRES: no queue pair is left.
  void EndNic() { nic_.reset(); }

 private:
  void OnCompletionEvent(CompletionQueue&) override {}
  void OnCqOverflow(CompletionQueue&) override;

  const wire::Gid gid_;
  std::vector<urnic_cqe> cq_ring_;
  urnic_queue_indices cq_indices_ = {};
  CompletionQueue cq_;
  std::unique_ptr<uint8_t[]> memory_;
  std::unique_ptr<Nic> nic_;
  uint32_t key_ = 0;
  bool may_overflow_ = false;
};

// Runs `to` until `from` knows the path to it. Aborts the program if it takes
// too long.
net::Path FindPath(NicNode& from, NicNode& to);

}  // namespace urnic::testing
