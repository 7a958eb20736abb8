#pragma once

// Custody of received frames. A core that cannot execute a packet yet keeps the
// frame itself: nothing is copied, and the bytes stay where they are. All other
// frames are freed after the burst that they came in.

#include <algorithm>
#include <cstdint>
#include <span>

namespace urnic {

// A frame during the call that hands it to a core.
struct ReceivedFrame {
  std::span<const uint8_t> bytes;
  void* buffer = nullptr;  // identifies the frame to the FrameKeeper
};

// A user of the FrameKeeper: a flow, or the reassembly of a network.
struct FrameHolder {
  uint32_t limit = 256;
  uint32_t kept = 0;  // changed by the FrameKeeper only
};

// Not called for the packets of a flow without gaps, hence virtual.
class FrameKeeper {
 public:
  static constexpr uint32_t kRefused = UINT32_MAX;
  // No holder may have more than so many times what is left: a peer that never
  // fills its gap leaves room for others.
  static constexpr uint32_t kGreed = 4;

  // How many more frames all holders together may keep; or kNoLimit.
  static constexpr uint32_t kNoLimit = UINT32_MAX;
  uint32_t free() const { return free_; }
  bool HasRoomFor(const FrameHolder& holder) const {
    return holder.kept <
           std::min<uint64_t>(holder.limit, uint64_t{kGreed} * free_);
  }

  // Keeps the frame until Release(), which takes the returned number. kRefused:
  // the holder has reached its limit, or all holders together have reached
  // theirs. That is counted here; the core returns a verdict for the packet.
  virtual uint32_t Keep(const ReceivedFrame& frame, FrameHolder& holder) = 0;
  virtual void Release(uint32_t number, FrameHolder& holder) = 0;

 protected:
  ~FrameKeeper() = default;
  uint32_t free_ = kNoLimit;
};

// Makes frames of bytes that did not arrive here, but were in custody where a
// flow comes from (transport/work/image.h).
class FrameMaker {
 public:
  // A frame with a copy of these bytes, as if it had just arrived: it lives
  // until the next call, or longer if it is kept. A null buffer: no memory is
  // left.
  virtual ReceivedFrame Make(std::span<const uint8_t> bytes) = 0;

 protected:
  ~FrameMaker() = default;
};

}  // namespace urnic
