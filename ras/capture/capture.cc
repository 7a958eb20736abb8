#include "ras/capture/capture.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace urnic {

void Capture::Start(Config config, Time deadline) {
  config_ = std::move(config);
  deadline_ = deadline;
  first_ = next_ = lost_ = 0;
  places_.resize(kBytes / (sizeof(Place) + config_.snap_bytes));
  // Memory that was never used is not resident.
  bytes_ = std::make_unique_for_overwrite<uint8_t[]>(places_.size() *
                                                     config_.snap_bytes);
  active_ = true;
}

void Capture::Stop() {
  active_ = false;
  config_ = {};
  places_ = {};
  bytes_.reset();
  first_ = next_ = 0;
}

void Capture::Add(bool outbound, uint32_t qpn, const char* verdict,
                  std::span<const uint8_t> bytes) {
  const Time now = clock_();
  if (now > deadline_) return Stop();
  if (config_.wants) {
    CapturedFrame frame;
    frame.outbound = outbound;
    frame.qpn = qpn;
    frame.bytes = bytes;
    if (!config_.wants(frame)) return;
  }
  if (next_ - first_ == places_.size()) {
    ++lost_;
    return;
  }
  const size_t at = next_ % places_.size();
  const size_t kept = std::min<size_t>(bytes.size(), config_.snap_bytes);
  places_[at] = {now,
                 outbound,
                 qpn,
                 verdict,
                 static_cast<uint32_t>(bytes.size()),
                 static_cast<uint32_t>(kept)};
  std::memcpy(&bytes_[at * config_.snap_bytes], bytes.data(), kept);
  ++next_;
}

CapturedFrame Capture::FrameAt(uint64_t number) const {
  const size_t at = number % places_.size();
  const Place& place = places_[at];
  return {.at = place.at,
          .outbound = place.outbound,
          .qpn = place.qpn,
          .verdict = place.verdict,
          .frame_bytes = place.frame_bytes,
          .bytes = {&bytes_[at * config_.snap_bytes], place.kept_bytes}};
}

}  // namespace urnic
