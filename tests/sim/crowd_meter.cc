#include "tests/sim/crowd_meter.h"

#include <algorithm>
#include <utility>

namespace urnic::sim {

namespace {

constexpr uint64_t kWindowPackets = 100;  // of a flow, on average
// How often flows are looked at.
constexpr Duration kTick = Duration::Milliseconds(1);

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0
             ? 0
             : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

// Jain's index of what each of the first `flows` got; 1 if nobody got anything.
double Jain(const CrowdReading& from, const CrowdReading& to, size_t flows) {
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < flows; ++i) {
    const auto got = static_cast<double>(to.bytes[i] - from.bytes[i]);
    sum += got;
    squares += got * got;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(flows) * squares);
}

}  // namespace

CrowdMeter::CrowdMeter(Crowd& crowd, const CrowdConfig& config, size_t flows)
    : crowd_(crowd),
      config_(config),
      flows_(flows),
      first_(crowd.Read()),
      last_(first_),
      window_begin_(first_),
      silent_(flows) {}

void CrowdMeter::Run(Duration time) {
  const Duration window = Window();
  const int64_t ticks = (window.ns() + kTick.ns() - 1) / kTick.ns();
  const Duration tick = Duration::Nanoseconds(window.ns() / ticks);
  for (int64_t i = 1; i <= time.ns() / tick.ns(); ++i) {
    crowd_.RunFor(tick);
    OnTick(tick);
    if (i % ticks == 0) OnWindow();
  }
}

CrowdOutcome CrowdMeter::Result() {
  CrowdOutcome out;
  double on_link = 0;  // bytes that took the link's time
  for (size_t i = 0; i < flows_; ++i) {
    out.bytes.push_back(last_.bytes[i] - first_.bytes[i]);
    const FullPacket packet = crowd_.full_packet(i);
    on_link += static_cast<double>(out.bytes.back() * packet.on_link_bytes) /
               packet.payload_bytes;
  }
  const double link_bytes = static_cast<double>(config_.bits_per_second) / 8 *
                            static_cast<double>(time_.ns()) / 1e9;
  out.goodput_percent = 100 * on_link / link_bytes;
  out.resent_percent =
      Percent(last_.resent - first_.resent, last_.sent - first_.sent);
  out.dropped_percent =
      Percent(last_.dropped - first_.dropped, last_.offered - first_.offered);
  const uint64_t arrived = last_.arrived - first_.arrived;
  out.duplicate_percent =
      Percent(last_.duplicates - first_.duplicates, arrived);
  out.not_held_percent = Percent(last_.not_held - first_.not_held, arrived);
  out.timeouts = last_.timeouts - first_.timeouts;
  out.failed = last_.failed - first_.failed;
  out.jain = Jain(first_, last_, flows_);
  out.windows = windows_;
  if (windows_ != 0) {
    out.window_jain = jain_sum_ / static_cast<double>(windows_);
    out.window_jain_min = jain_min_;
  }
  for (Duration& silent : silent_) EndSilence(silent);
  out.stall = stall_;
  out.starved = starved_;
  const auto passed = static_cast<int64_t>(last_.offered - last_.dropped -
                                           (first_.offered - first_.dropped));
  out.queue = Duration::Nanoseconds((last_.queued - first_.queued).ns() /
                                    std::max<int64_t>(passed, 1));
  return out;
}

// The time that the slow link takes for kWindowPackets of each flow.
Duration CrowdMeter::Window() const {
  // Without flows, any time will do.
  if (flows_ == 0) return kTick;
  uint64_t bits = 0;
  for (size_t i = 0; i < flows_; ++i) {
    bits += 8 * kWindowPackets * crowd_.full_packet(i).on_link_bytes;
  }
  return Duration::Nanoseconds(
      static_cast<int64_t>(static_cast<double>(bits) * 1e9 /
                           static_cast<double>(config_.bits_per_second)));
}

void CrowdMeter::OnTick(Duration tick) {
  CrowdReading now = crowd_.Read();
  for (size_t i = 0; i < flows_; ++i) {
    if (now.bytes[i] == last_.bytes[i]) {
      silent_[i] = silent_[i] + tick;
    } else {
      EndSilence(silent_[i]);
    }
  }
  last_ = std::move(now);
  time_ = time_ + tick;
}

void CrowdMeter::EndSilence(Duration& silent) {
  stall_ = std::max(stall_, silent);
  starved_ += static_cast<uint64_t>(silent.ns() / 1'000'000'000);
  silent = Duration();
}

void CrowdMeter::OnWindow() {
  const double jain = Jain(window_begin_, last_, flows_);
  jain_sum_ += jain;
  jain_min_ = windows_ == 0 ? jain : std::min(jain_min_, jain);
  ++windows_;
  window_begin_ = last_;
}

}  // namespace urnic::sim
