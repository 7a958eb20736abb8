#pragma once

// A port that injects faults of the wire (transport/impair). It wraps another
// port and delays, drops, duplicates or corrupts frames. It also freezes the
// device; the keeper injects the other faults of a device
// (device_fault_clock.h).
//
// Delayed frames are copied and their buffers freed, so that a slow wire does
// not empty the pool. There is room for kFramesUnderWay of them in each
// direction; further frames are lost (counted, no_room). The hot functions pass
// the frames on when they are due, and a thread that sleeps on wait_fd() wakes
// up then.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "datapath/guest/monotonic_clock.h"
#include "datapath/port/wrapped_port.h"
#include "transport/base/time.h"
#include "transport/impair/fault_spec.h"
#include "transport/impair/line.h"

namespace urnic {

class FaultPort final : public WrappedPort {
 public:
  static constexpr uint32_t kFramesUnderWay = 4096;

  using Clock = Time (*)();

  // `note` is appended to the text of the port (PortInfo::text). The times of
  // the faults count from this call. RESOURCE_EXHAUSTED: no descriptors.
  static absl::StatusOr<std::unique_ptr<FaultPort>> Create(
      std::unique_ptr<Port> port, const impair::FaultSpec& spec,
      std::string note, Clock clock = MonotonicNow);

  // First sends the delayed frames to the peer, within kLastFrames of the last
  // Transmit().
  ~FaultPort() override;
  static constexpr Duration kLastFrames = Duration::Seconds(2);

  uint16_t Receive(rte_mbuf** out, uint16_t max) override;
  uint16_t Transmit(rte_mbuf** packets, uint16_t count) override;
  bool ArmWakeup() override;
  void DisarmWakeup() override;
  int wait_fd() const override { return wait_fd_; }
  bool ReplaceDevice(const char* why) override;
  uint32_t frames_held() const override {
    return held_.load(std::memory_order_relaxed);
  }
  FaultCounts fault_counts() const override;
  PortInfo info() const override;

  // The `text` of a port, followed by `note`; an empty text stays empty.
  static std::string WithNote(const std::string& text, const std::string& note);

 private:
  FaultPort(std::unique_ptr<Port> port, const impair::FaultSpec& spec,
            std::string note, Clock clock);
  bool OpenDescriptors();
  // Copies up to `max` due frames of the line into buffers.
  uint16_t TakeDue(impair::Line& line, Time now, rte_mbuf** out, uint16_t max);
  uint16_t ReceiveThrough(Time now, rte_mbuf** out, uint16_t max);
  // Sends the frames that are due; those for which the port has no room stay in
  // ready_.
  void SendDue(Time now);
  bool IsBlocked(Time now) const {
    return ready_count_ != 0 || out_->NextDue() <= now;
  }
  // Whether `spell` lasts now, and the device was not replaced since it began.
  bool IsIn(const impair::Spell& spell, Time now) const;
  // At the end of each hot function.
  void Finish(Time now);
  void SetTimer(Time when);

  const std::string note_;
  const Clock clock_;
  const impair::DeviceFaults device_faults_;
  const Time start_;
  Duration replaced_at_;  // an age
  // Null: no faults in that direction.
  std::unique_ptr<impair::Line> out_;
  std::unique_ptr<impair::Line> in_;

  // Frames in buffers that are due, but for which the port had no room.
  rte_mbuf* ready_[kBurstMax] = {};
  uint16_t ready_first_ = 0;
  uint16_t ready_count_ = 0;
  std::atomic<uint32_t> held_{0};
  Time last_given_;  // of MonotonicNow()

  int timer_fd_ = -1;
  int wait_fd_ = -1;  // an epoll of timer_fd_ and the port's
  bool armed_ = false;
  Time timer_ = Time::Infinite();  // as timer_fd_ is set
};

}  // namespace urnic
