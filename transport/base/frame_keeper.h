#pragma once

// Custody of received frames. A core that cannot execute a packet yet keeps the
// frame itself: nothing is copied, and the bytes stay where they are. All other
// frames are freed after the burst that they came in.

#include <cstdint>
#include <span>

namespace urnic {

// A frame during the call that hands it to a core.
struct ReceivedFrame {
  std::span<const uint8_t> bytes;
  void* buffer = nullptr;  // what the FrameKeeper knows it by
};

// One who keeps frames: a flow, or the reassembly of a network.
struct FrameHolder {
  uint32_t limit = 256;
  uint32_t kept = 0;  // for the FrameKeeper to change
};

// Not called per packet of a flow without holes, hence virtual.
class FrameKeeper {
 public:
  static constexpr uint32_t kRefused = UINT32_MAX;

  // Keeps the frame until Release(), which takes the returned number. kRefused:
  // the holder has as many as it may have, or all holders together have. That
  // is counted here; the core must say what became of the packet (a verdict).
  virtual uint32_t Keep(const ReceivedFrame& frame, FrameHolder& holder) = 0;
  virtual void Release(uint32_t number, FrameHolder& holder) = 0;

 protected:
  ~FrameKeeper() = default;
};

}  // namespace urnic
