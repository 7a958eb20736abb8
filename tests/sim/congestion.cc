#include "tests/sim/congestion.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <span>
#include <utility>

namespace urnic::sim {

namespace {

constexpr uint64_t kGigabit = 1'000'000'000;
constexpr int64_t kWindowPackets = 100;  // of a queue pair, on average
// How often queue pairs are looked at.
constexpr Duration kTick = Duration::Milliseconds(1);
// Within this time all flows start that start together.
constexpr uint64_t kStartNs = 1'000'000;

struct Outcome {
  double goodput_percent = 0;
  double resent_percent = 0;
  double dropped_percent = 0;  // at the slow link
  uint64_t timeouts = 0;
  uint64_t failed = 0;
  double jain = 1;
  double window_jain = 1;  // mean and minimum of the windows
  double window_jain_min = 1;
  Duration stall;        // the longest time without progress of a flow
  uint64_t starved = 0;  // seconds without progress, of all flows
  Duration queue;        // mean time in the buffer and on the wire
};

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

// Measures the first `flows` flows of a crowd while it runs.
class Meter {
 public:
  Meter(Crowd& crowd, const CrowdConfig& config, size_t flows)
      : crowd_(crowd),
        config_(config),
        flows_(flows),
        first_(crowd.Read()),
        last_(first_),
        window_begin_(first_),
        silent_(flows) {}

  void Run(Duration time) {
    const Duration window = Window();
    const int64_t ticks = (window.ns() + kTick.ns() - 1) / kTick.ns();
    const Duration tick = Duration::Nanoseconds(window.ns() / ticks);
    for (int64_t i = 1; i <= time.ns() / tick.ns(); ++i) {
      crowd_.RunFor(tick);
      OnTick(tick);
      if (i % ticks == 0) OnWindow();
    }
  }

  Outcome Result() {
    for (Duration& silent : silent_) EndSilence(silent);
    uint64_t bytes = 0;
    for (size_t i = 0; i < flows_; ++i) {
      bytes += last_.bytes[i] - first_.bytes[i];
    }
    const double link_bytes = static_cast<double>(config_.bits_per_second) / 8 *
                              static_cast<double>(time_.ns()) / 1e9 *
                              Crowd::PayloadShare();
    Outcome out;
    out.goodput_percent = 100 * static_cast<double>(bytes) / link_bytes;
    out.resent_percent =
        Percent(last_.resent - first_.resent, last_.sent - first_.sent);
    out.dropped_percent =
        Percent(last_.dropped - first_.dropped, last_.offered - first_.offered);
    out.timeouts = last_.timeouts - first_.timeouts;
    out.failed = last_.failed - first_.failed;
    out.jain = Jain(first_, last_, flows_);
    if (windows_ != 0) {
      out.window_jain = jain_sum_ / static_cast<double>(windows_);
      out.window_jain_min = jain_min_;
    }
    out.stall = stall_;
    out.starved = starved_;
    const auto passed =
        static_cast<int64_t>(last_.offered - last_.dropped -
                             (first_.offered - first_.dropped));
    out.queue = Duration::Nanoseconds((last_.queued - first_.queued).ns() /
                                      std::max<int64_t>(passed, 1));
    return out;
  }

 private:
  // The time that the slow link takes for kWindowPackets of each flow.
  Duration Window() const {
    const double packet_bytes = kCrowdMtu / Crowd::PayloadShare();
    const double bits =
        8 * packet_bytes * static_cast<double>(kWindowPackets * flows_);
    return Duration::Nanoseconds(static_cast<int64_t>(
        bits * 1e9 / static_cast<double>(config_.bits_per_second)));
  }

  void OnTick(Duration tick) {
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

  void EndSilence(Duration& silent) {
    stall_ = std::max(stall_, silent);
    starved_ += static_cast<uint64_t>(silent.ns() / 1'000'000'000);
    silent = Duration();
  }

  void OnWindow() {
    const double jain = Jain(window_begin_, last_, flows_);
    jain_sum_ += jain;
    jain_min_ = windows_ == 0 ? jain : std::min(jain_min_, jain);
    ++windows_;
    window_begin_ = last_;
  }

  Crowd& crowd_;
  const CrowdConfig config_;
  const size_t flows_;
  const CrowdReading first_;
  CrowdReading last_;
  CrowdReading window_begin_;
  Duration time_;
  std::vector<Duration> silent_;  // since when each flow makes no progress
  Duration stall_;
  uint64_t starved_ = 0;
  uint64_t windows_ = 0;
  double jain_sum_ = 0;
  double jain_min_ = 1;
};

// --- The table ---------------------------------------------------------------

std::string Line(const std::string& name, const Outcome& o) {
  char text[160];
  std::snprintf(text, sizeof(text),
                "%-30s %5.1f %6.2f %7.2f %8" PRIu64 " %6" PRIu64
                "  %.3f  %.3f %.3f %8.1f %7" PRIu64 " %6.0f",
                name.c_str(), o.goodput_percent, o.resent_percent,
                o.dropped_percent, o.timeouts, o.failed, o.jain, o.window_jain,
                o.window_jain_min, static_cast<double>(o.stall.ns()) / 1e6,
                o.starved, static_cast<double>(o.queue.ns()) / 1e3);
  return text;
}

Duration StartOf(Random& random) {
  return Duration::Nanoseconds(static_cast<int64_t>(random.Below(kStartNs)));
}

// A Violation leaves the crowd as it is.
template <typename F>
std::string WithCrowd(const CrowdBuffers& buffers, const CrowdConfig& path,
                      uint64_t seed, F&& run) {
  auto* crowd = new Crowd(buffers, path, seed);
  std::string line = run(*crowd);
  delete crowd;
  return line;
}

// --- Rows --------------------------------------------------------------------

struct Busy {
  std::string name;
  CrowdConfig path;
  uint32_t qps = 1;  // of each sender
  uint32_t bytes = 65536;
  uint32_t posted = 4;
  Duration time = Duration::Seconds(1);
};

// All flows are busy from the beginning.
std::string RunBusy(const CrowdBuffers& buffers, const Busy& busy,
                    uint64_t seed) {
  CrowdConfig path = busy.path;
  path.qps = path.senders * busy.qps;
  path.requests = busy.qps * busy.posted;
  Random random(seed);
  return WithCrowd(buffers, path, random.Next(), [&](Crowd& crowd) {
    for (uint32_t i = 0; i < path.qps; ++i) {
      crowd.Add({.sender = i % path.senders,
                 .bytes = busy.bytes,
                 .posted = busy.posted,
                 .start = StartOf(random)});
    }
    Meter meter(crowd, path, crowd.flows());
    meter.Run(busy.time);
    return Line(busy.name, meter.Result());
  });
}

CongestionRow BusyRow(bool quick, Busy busy) {
  return {busy.name, quick,
          [busy](const CrowdBuffers& buffers, uint64_t seed) {
            return RunBusy(buffers, busy, seed);
          }};
}

CongestionRow IncastRow(bool quick, uint32_t senders, uint32_t qps) {
  Busy busy;
  busy.name = "incast " + std::to_string(senders) + ":1, QPs each: " +
              std::to_string(qps);
  busy.path.senders = senders;
  busy.qps = qps;
  if (senders >= 100) busy.time = Duration::Seconds(2);
  return BusyRow(quick, std::move(busy));
}

CrowdConfig SharedPath() {
  return {.port_bits_per_second = 100 * kGigabit,
          .bits_per_second = 10 * kGigabit};
}

CongestionRow SharingRow(bool quick, uint32_t qps, Duration time) {
  Busy busy;
  busy.name = "sharing, QPs: " + std::to_string(qps);
  busy.path = SharedPath();
  busy.qps = qps;
  busy.bytes = 4096;
  busy.posted = 32;
  busy.time = time;
  return BusyRow(quick, std::move(busy));
}

}  // namespace

std::string CongestionHead() {
  return R"(Real engines, MTU 1024, 5 us each way and link, 256 KB drop-tail buffer,
local_ack_timeout 14 (67 ms), retry_cnt 7.
incast: hosts with 10 Gb/s send to one with 1 Gb/s, 4 writes of 64 KB posted on
  each QP; 1 s, with 100 hosts 2 s.
sharing: a host with 100 Gb/s sends to one with 10 Gb/s, 32 writes of 4 KB
  posted on each QP; 200 ms, 1000 QPs 1 s, 20 000 QPs 4 s.

goodput: payload acknowledged, % of what the slow link carries of it in full
  packets (1024 bytes in 1148: link.h counts 42 too many)
resent: % of request packets. dropped: % of packets at the slow link
timeouts: expired acknowledgement timers. failed: QPs, by "retry exceeded"
Jain: of the bytes of each QP; mean and minimum over windows of 100 packets of
  each QP (1.000 if the run is shorter)
stall: the longest time in which a QP got nothing acknowledged, ms. starved:
  whole seconds of that, of all QPs
queue: mean time at the slow link, us

)"
         "                             goodput resent dropped timeouts failed"
         "   Jain   mean   min    stall starved  queue\n";
}

std::vector<CongestionRow> CongestionRows() {
  const auto ms = [](int64_t n) { return Duration::Milliseconds(n); };
  return {
      IncastRow(true, 4, 1),
      IncastRow(true, 4, 16),
      IncastRow(true, 16, 1),
      IncastRow(true, 16, 16),
      IncastRow(true, 100, 1),
      IncastRow(false, 100, 16),
      SharingRow(true, 1, ms(200)),
      SharingRow(true, 16, ms(200)),
      SharingRow(true, 1000, ms(1000)),
      SharingRow(false, 20000, ms(4000)),
  };
}

}  // namespace urnic::sim
