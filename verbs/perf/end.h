#pragma once

// One end of a test: an endpoint over all devices of the program, its memory,
// and its peer.

#include <infiniband/verbs.h>
#include <urnic/urnic_ep.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

namespace urnic::perf {

struct EndOptions {
  uint32_t paths = 0;  // 0: the default
  uint32_t lanes = 0;
};

class End {
 public:
  static absl::StatusOr<std::unique_ptr<End>> Open(const EndOptions& options);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  // Call it once, before the ends are introduced.
  absl::Status ProvideMemory(uint64_t bytes);
  // For the other end: address and PVO of the memory.
  absl::StatusOr<std::vector<uint8_t>> Introduction() const;
  absl::Status Meet(const std::vector<uint8_t>& introduction);

  urnic_ep* endpoint() const { return endpoint_; }
  uint32_t peer() const { return peer_; }
  uint64_t pvo() const { return pvo_; }
  uint64_t peers_pvo() const { return peers_pvo_; }
  uint8_t* memory() { return memory_.get(); }
  uint64_t memory_bytes() const { return memory_bytes_; }
  size_t nics() const { return contexts_.size(); }

 private:
  End() = default;

  std::vector<ibv_context*> contexts_;
  urnic_ep* endpoint_ = nullptr;
  std::unique_ptr<uint8_t[]> memory_;
  uint64_t memory_bytes_ = 0;
  uint64_t pvo_ = 0;
  uint32_t peer_ = 0;
  uint64_t peers_pvo_ = 0;
};

}  // namespace urnic::perf
