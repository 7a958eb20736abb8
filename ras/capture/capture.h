#pragma once

// Frames of an engine, copied while someone asks for them: `urnic capture`.
//
// A capture belongs to a reader, who takes frames again and again. If none
// comes before a deadline, the capture ends by itself. It has a fixed number of
// places; frames that find none are counted.
//
// Thread: the holder of the engine's token.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transport/base/time.h"

namespace urnic {

struct CapturedFrame {
  Time at;
  bool outbound = false;
  uint32_t qpn = 0;               // 0: of no queue pair
  const char* verdict = nullptr;  // lives as long as the program; null: sent
  uint32_t frame_bytes = 0;       // of the whole frame
  std::span<const uint8_t> bytes;
};

class Capture {
 public:
  struct Config {
    // Bytes of each frame that are kept.
    uint32_t snap_bytes = 0;
    // Which frames are kept; `bytes` are those of the whole frame. Empty: all.
    std::function<bool(const CapturedFrame&)> wants;
  };
  // Memory of a capture.
  static constexpr size_t kBytes = size_t{16} << 20;
  // The longest frame that is kept whole.
  static constexpr uint32_t kSnapMax = 9216;

  // `clock`: the engine's; outlives this object.
  explicit Capture(std::function<Time()> clock) : clock_(std::move(clock)) {}

  // REQUIRES: !active(); 0 < config.snap_bytes <= kSnapMax.
  void Start(Config config, Time deadline);
  void Extend(Time deadline) { deadline_ = deadline; }
  // Frees the memory.
  void Stop();
  // True until Stop(), even if the deadline has passed since.
  // IsUnderWay() looks at the deadline, too.
  bool active() const { return active_; }
  bool IsUnderWay(Time now) const { return active_ && now <= deadline_; }

  // `bytes`: the whole frame.
  void Add(bool outbound, uint32_t qpn, const char* verdict,
           std::span<const uint8_t> bytes);

  // Calls visit(const CapturedFrame&) for the oldest frames, as long as it
  // returns true, and forgets them.
  template <typename F>
  void Take(F&& visit) {
    for (; first_ != next_; ++first_) {
      if (!visit(FrameAt(first_))) return;
    }
  }
  uint64_t lost() const { return lost_; }

 private:
  struct Place {
    Time at;
    bool outbound;
    uint32_t qpn;
    const char* verdict;
    uint32_t frame_bytes;
    uint32_t kept_bytes;
  };

  CapturedFrame FrameAt(uint64_t number) const;

  const std::function<Time()> clock_;
  bool active_ = false;
  Config config_;
  Time deadline_;
  uint64_t first_ = 0;  // the oldest frame
  uint64_t next_ = 0;
  uint64_t lost_ = 0;
  std::vector<Place> places_;
  std::unique_ptr<uint8_t[]> bytes_;  // of all places
};

}  // namespace urnic
