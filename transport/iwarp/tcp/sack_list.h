#pragma once

// Chooses the blocks that the next acknowledgement reports, and their order.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/fields.h"
#include "transport/base/seq_num.h"
#include "transport/wire/tcp.h"

namespace urnic::tcp {

class SackList {
 public:
  //= RFC 2018 4: the first SACK block contains the segment that arrived last;
  //= the most recently reported blocks follow
  // `block`: the contiguous bytes around the latest segment.
  void OnBlock(wire::SackBlock block) {
    std::array<wire::SackBlock, wire::kMaxSackBlocks> old = recent_;
    const size_t old_count = count_;
    recent_[0] = block;
    count_ = 1;
    for (size_t i = 0; i < old_count && count_ < recent_.size(); ++i) {
      const bool apart =
          old[i].begin - block.end > 0 || block.begin - old[i].end > 0;
      if (apart) recent_[count_++] = old[i];
    }
  }

  //= RFC 2883 4: a D-SACK block reports bytes of the most recent segment that
  //= had arrived before, and is sent once
  void OnDuplicate(wire::SackBlock block) {
    duplicate_ = block;
    has_duplicate_ = true;
  }

  // Everything before `next` is delivered. A block that begins there waits in
  // custody for room in the layer above: the peer must send it again.
  void OnDelivered(SeqNum next) {
    size_t kept = 0;
    for (size_t i = 0; i < count_; ++i) {
      if (recent_[i].begin - next > 0) recent_[kept++] = recent_[i];
    }
    count_ = kept;
  }

  bool empty() const { return count_ == 0 && !has_duplicate_; }

  //= RFC 2883 4: the D-SACK block is the first; if a block above the
  //= acknowledgement contains it, that block is the second
  // Writes as many blocks as fit, and returns their number.
  size_t Take(std::span<wire::SackBlock> out) {
    size_t written = 0;
    if (has_duplicate_ && written < out.size()) {
      out[written++] = duplicate_;
      has_duplicate_ = false;
    }
    for (size_t i = 0; i < count_ && written < out.size(); ++i) {
      out[written++] = recent_[i];
    }
    return written;
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  std::array<wire::SackBlock, wire::kMaxSackBlocks> recent_ = {};
  size_t count_ = 0;
  wire::SackBlock duplicate_;
  bool has_duplicate_ = false;
};

}  // namespace urnic::tcp
