#include "tests/sim/congestion.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <numeric>
#include <optional>
#include <utility>

#include "tests/sim/crowd_meter.h"

namespace urnic::sim {

namespace {

constexpr uint64_t kGigabit = 1'000'000'000;
// Within this time all flows start that start together.
constexpr uint64_t kStartNs = 1'000'000;

// What is asked of a row. Other figures are only shown.
struct Bounds {
  // At least.
  std::optional<double> goodput_percent = {};
  std::optional<double> jain = {};
  std::optional<double> window_jain = {};
  // At most.
  std::optional<double> resent_percent = {};
  std::optional<uint64_t> failed = {};
  std::optional<uint64_t> starved = {};
};

constexpr Bounds kIncastBounds = {.goodput_percent = 90,
                                  .jain = 0.9,
                                  .resent_percent = 5,
                                  .failed = 0,
                                  .starved = 0};
// Windows of TCP follow losses: more is lost, and shares are less even. Where
// the buffer has two packets for each connection, or fewer, they end in
// time-outs.
constexpr Bounds kIwarpBounds = {
    .goodput_percent = 90, .jain = 0.8, .failed = 0, .starved = 0};
constexpr Bounds kManyIwarpBounds = {.goodput_percent = 90, .failed = 0};
constexpr uint32_t kMany = 100;
constexpr Bounds kLongBounds = [] {
  Bounds bounds = kIncastBounds;
  bounds.goodput_percent = 80;
  bounds.resent_percent = 2;
  return bounds;
}();
constexpr Bounds kMarksBounds = [] {
  Bounds bounds = kIncastBounds;
  bounds.resent_percent = 0.1;
  return bounds;
}();
constexpr Bounds kSharingBounds = {
    .goodput_percent = 90, .jain = 0.9, .window_jain = 0.9, .failed = 0};
// Jain's index is 1 if nobody gets anything, too.
constexpr Bounds kLaterBounds = {.goodput_percent = 90, .jain = 0.9};
constexpr Bounds kNoDeadPeerBounds = {.goodput_percent = 90, .failed = 0};
constexpr Bounds kDeadPeerBounds = {.goodput_percent = 90, .failed = 1};
// A small message beside others: the 99th percentile, in times of that of a
// small message alone; and the goodput of the others, in percent.
constexpr double kSmallBound = 5;
constexpr double kBesideSmallBound = 90;
// Beside TCP: what the queue pair of RC gets, in times of the mean of those of
// iWARP; and the goodput of all, in percent.
constexpr double kShareLeast = 0.5;
constexpr double kShareMost = 1.5;
constexpr double kBesideTcpBound = 90;

// --- The table ---------------------------------------------------------------

std::string Line(const std::string& name, const CrowdOutcome& o) {
  char windows[16] = "    -     -";  // the run is shorter than one
  if (o.windows != 0) {
    std::snprintf(windows, sizeof(windows), "%.3f %.3f", o.window_jain,
                  o.window_jain_min);
  }
  char text[160];
  std::snprintf(text, sizeof(text),
                "%-26s %6.1f %5.1f %4.1f %4.1f %4.1f %6" PRIu64 " %5" PRIu64
                " %.3f %s %6.1f %7" PRIu64 " %5.0f",
                name.c_str(), o.goodput_percent, o.resent_percent,
                o.dropped_percent, o.duplicate_percent, o.not_held_percent,
                o.timeouts, o.failed, o.jain, windows,
                static_cast<double>(o.stall.ns()) / 1e6, o.starved,
                static_cast<double>(o.queue.ns()) / 1e3);
  return text;
}

// Compares figures with bounds, and notes in the line those that miss them.
class Judge {
 public:
  explicit Judge(std::string line) : result_{.line = std::move(line)} {}

  void AtLeast(const char* what, double value, std::optional<double> bound) {
    if (bound && value < *bound) Miss(what, value, '<', *bound);
  }
  void AtMost(const char* what, double value, std::optional<double> bound) {
    if (bound && value > *bound) Miss(what, value, '>', *bound);
  }
  CongestionResult Result() const { return result_; }

 private:
  void Miss(const char* what, double value, char sign, double bound) {
    char text[80];
    std::snprintf(text, sizeof(text), "%s %s %.4g %c %.4g",
                  result_.missed ? "," : "  MISSED:", what, value, sign, bound);
    result_.line += text;
    result_.missed = true;
  }

  CongestionResult result_;
};

CongestionResult Judged(const std::string& name, const CrowdOutcome& o,
                        const Bounds& bounds) {
  Judge judge(Line(name, o));
  judge.AtLeast("goodput", o.goodput_percent, bounds.goodput_percent);
  judge.AtLeast("Jain", o.jain, bounds.jain);
  judge.AtLeast("mean", o.window_jain, bounds.window_jain);
  judge.AtMost("again", o.resent_percent, bounds.resent_percent);
  judge.AtMost("fail", static_cast<double>(o.failed), bounds.failed);
  judge.AtMost("starved", static_cast<double>(o.starved), bounds.starved);
  return judge.Result();
}

Duration StartOf(Random& random) {
  return Duration::Nanoseconds(static_cast<int64_t>(random.Below(kStartNs)));
}

// A Violation leaves the crowd as it is.
template <typename F>
auto WithCrowd(const CrowdBuffers& buffers, const CrowdConfig& path,
               uint64_t seed, F&& run) {
  auto* crowd = new Crowd(buffers, path, seed);
  auto result = run(*crowd);
  delete crowd;
  return result;
}

// --- Rows --------------------------------------------------------------------

struct Busy {
  std::string name;
  CrowdConfig path;
  uint32_t qps = 1;  // of each sender
  uint32_t bytes = 65536;
  uint32_t posted = 4;
  Duration time = Duration::Seconds(1);
  Bounds bounds;
};

// All flows are busy from the beginning.
CongestionResult RunBusy(const CrowdBuffers& buffers, const Busy& busy,
                         uint64_t seed) {
  CrowdConfig path = busy.path;
  path.qps = path.senders * busy.qps;
  path.requests = busy.qps * busy.posted;
  Random random(seed);
  return WithCrowd(buffers, path, random.Next(), [&](Crowd& crowd) {
    for (uint32_t i = 0; i < path.qps; ++i) {
      crowd.Add({.sender = i % path.senders,
                 .iwarp = path.iwarp,
                 .bytes = busy.bytes,
                 .posted = busy.posted,
                 .start = StartOf(random)});
    }
    CrowdMeter meter(crowd, path, crowd.flows());
    meter.Run(busy.time);
    return Judged(busy.name, meter.Result(), busy.bounds);
  });
}

CongestionRow BusyRow(bool quick, Busy busy) {
  return {busy.name, quick, [busy](const CrowdBuffers& buffers, uint64_t seed) {
            return RunBusy(buffers, busy, seed);
          }};
}

// So many hosts with so many busy queue pairs each send to one.
CongestionRow ManyToOneRow(bool quick, uint32_t senders, uint32_t qps,
                           Busy busy) {
  busy.name +=
      " " + std::to_string(senders) + ":1, QPs each: " + std::to_string(qps);
  busy.path.senders = senders;
  busy.qps = qps;
  if (senders >= 100) busy.time = Duration::Seconds(2);
  return BusyRow(quick, std::move(busy));
}

CongestionRow IncastRow(bool quick, uint32_t senders, uint32_t qps) {
  return ManyToOneRow(quick, senders, qps,
                      {.name = "incast", .path = {}, .bounds = kIncastBounds});
}

CongestionRow IwarpRow(bool quick, uint32_t senders, uint32_t qps) {
  const bool many = senders * qps >= kMany;
  return ManyToOneRow(quick, senders, qps,
                      {.name = "iWARP",
                       .path = {.iwarp = true},
                       .bounds = many ? kManyIwarpBounds : kIwarpBounds});
}

// So many hosts with one busy queue pair each, on another path.
CongestionRow HostsRow(uint32_t senders, Busy busy) {
  busy.name += ", hosts: " + std::to_string(senders);
  busy.path.senders = senders;
  return BusyRow(true, std::move(busy));
}

// A path of 2 ms whose buffer is a quarter of what the path holds.
CongestionRow LongRow(uint32_t senders) {
  return HostsRow(senders, {.name = "long",
                            .path = {.bits_per_second = 4 * kGigabit,
                                     .hop_delay = Duration::Microseconds(500)},
                            .bytes = kCrowdBytes,
                            .bounds = kLongBounds});
}

// The slow link marks packets before it drops them.
CongestionRow MarksRow(uint32_t senders) {
  return HostsRow(senders,
                  {.name = "marks",
                   .path = {.red = {.min_bytes = 20'000, .max_bytes = 80'000}},
                   .bounds = kMarksBounds});
}

// One packet of twenty takes a longer way.
CongestionRow ReorderedRow(uint32_t senders) {
  return HostsRow(senders, {.name = "reordered",
                            .path = {.reorder_ppm = 50'000},
                            .bounds = kIncastBounds});
}

// A flow is alone for a while.
CongestionResult RunLater(const CrowdBuffers& buffers, uint64_t seed) {
  const CrowdConfig path{.senders = 16, .qps = 16};
  Random random(seed);
  return WithCrowd(buffers, path, random.Next(), [&](Crowd& crowd) {
    crowd.Add({});
    for (uint32_t i = 1; i < path.senders; ++i) {
      crowd.Add({.sender = i,
                 .start = Duration::Milliseconds(100) + StartOf(random)});
    }
    crowd.RunFor(Duration::Milliseconds(500));
    CrowdMeter meter(crowd, path, crowd.flows());
    meter.Run(Duration::Milliseconds(500));
    return Judged("later, flows: 1 + 15", meter.Result(), kLaterBounds);
  });
}

CongestionRow DeadPeerRow(bool dead) {
  const std::string name =
      std::string("dead peer, QPs: 3") + (dead ? " + 1" : "");
  return {name, true, [=](const CrowdBuffers& buffers, uint64_t seed) {
            constexpr uint32_t kAlive = 3;
            const CrowdConfig path{.qps = kAlive + 1};
            Random random(seed);
            return WithCrowd(buffers, path, random.Next(), [&](Crowd& crowd) {
              for (uint32_t i = 0; i < kAlive; ++i) {
                crowd.Add({.start = StartOf(random)});
              }
              if (dead) crowd.Add({.start = StartOf(random), .dead = true});
              CrowdMeter meter(crowd, path, kAlive);
              meter.Run(Duration::Seconds(1));
              return Judged(name, meter.Result(),
                            dead ? kDeadPeerBounds : kNoDeadPeerBounds);
            });
          }};
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
  busy.bounds = kSharingBounds;
  return BusyRow(quick, std::move(busy));
}

struct SmallOutcome {
  double goodput_percent = 0;   // of the long writes
  std::vector<Duration> times;  // of the single sends, sorted

  double Us(size_t percent) const {
    return static_cast<double>(times[times.size() * percent / 100].ns()) / 1e3;
  }
};

// Single sends beside so many flows with long writes.
SmallOutcome RunSmall(const CrowdBuffers& buffers, uint32_t bulk,
                      uint64_t seed) {
  CrowdConfig path = SharedPath();
  path.qps = bulk + 1;
  path.requests = 4 * path.qps;
  Random random(seed);
  return WithCrowd(buffers, path, random.Next(), [&](Crowd& crowd) {
    for (uint32_t i = 0; i < bulk; ++i) {
      crowd.Add({.bytes = kCrowdBytes, .start = StartOf(random)});
    }
    crowd.RunFor(Duration::Milliseconds(20));
    crowd.Add({.opcode = URNIC_WR_SEND, .bytes = 64, .posted = 1});
    CrowdMeter meter(crowd, path, bulk);
    meter.Run(Duration::Milliseconds(180));
    SmallOutcome out{.goodput_percent = meter.Result().goodput_percent,
                     .times = crowd.times(bulk)};
    Require(!out.times.empty(), "no small message was sent");
    std::ranges::sort(out.times);
    return out;
  });
}

CongestionResult JudgeSmall(const CrowdBuffers& buffers,
                            const std::string& name, uint32_t bulk,
                            uint64_t seed) {
  const SmallOutcome small = RunSmall(buffers, bulk, seed);
  char text[160];
  std::snprintf(text, sizeof(text),
                "%-26s %6.1f  64 B: %zu sends, median %.1f us, p99 %.1f us",
                name.c_str(), small.goodput_percent, small.times.size(),
                small.Us(50), small.Us(99));
  Judge judge(text);
  if (bulk != 0) {
    judge.AtLeast("goodput", small.goodput_percent, kBesideSmallBound);
    const SmallOutcome alone = RunSmall(buffers, 0, seed);
    judge.AtMost("p99", small.Us(99), kSmallBound * alone.Us(99));
  }
  return judge.Result();
}

CongestionRow SmallRow(uint32_t bulk) {
  const std::string name =
      "small, QPs: 1" + (bulk == 0 ? "" : " + " + std::to_string(bulk));
  return {name, true, [=](const CrowdBuffers& buffers, uint64_t seed) {
            return JudgeSmall(buffers, name, bulk, seed);
          }};
}

struct BesideTcp {
  std::string name;
  CrowdConfig path = {};
  uint32_t tcp = 1;      // hosts with a queue pair of iWARP, beside one of RC
  Duration before = {};  // the measurement
  Duration time = {};
};

CongestionResult RunBesideTcp(const CrowdBuffers& buffers,
                              const BesideTcp& beside, uint64_t seed) {
  CrowdConfig path = beside.path;
  path.senders = path.qps = 1 + beside.tcp;
  path.iwarp = true;
  Random random(seed);
  return WithCrowd(buffers, path, random.Next(), [&](Crowd& crowd) {
    for (uint32_t i = 0; i < path.qps; ++i) {
      crowd.Add({.sender = i, .iwarp = i != 0, .start = StartOf(random)});
    }
    crowd.RunFor(beside.before);
    CrowdMeter meter(crowd, path, path.qps);
    meter.Run(beside.time);
    const CrowdOutcome outcome = meter.Result();
    const uint64_t of_tcp = std::accumulate(outcome.bytes.begin() + 1,
                                            outcome.bytes.end(), uint64_t{0}) /
                            beside.tcp;
    const double share =
        static_cast<double>(outcome.bytes[0]) / static_cast<double>(of_tcp);
    char text[24];
    std::snprintf(text, sizeof(text), "  share %.2f", share);
    Judge judge(Line(beside.name, outcome) + text);
    judge.AtLeast("goodput", outcome.goodput_percent, kBesideTcpBound);
    judge.AtLeast("share", share, kShareLeast);
    judge.AtMost("share", share, kShareMost);
    judge.AtMost("fail", static_cast<double>(outcome.failed), 0);
    return judge.Result();
  });
}

CongestionRow BesideTcpRow(BesideTcp beside) {
  beside.name += ", QPs: 1 + " + std::to_string(beside.tcp);
  return {beside.name, true,
          [beside](const CrowdBuffers& buffers, uint64_t seed) {
            return RunBesideTcp(buffers, beside, seed);
          }};
}

CongestionRow BesideTcpRow(uint32_t tcp) {
  return BesideTcpRow({.name = "beside TCP",
                       .tcp = tcp,
                       .before = Duration::Seconds(3),
                       .time = Duration::Seconds(3)});
}

// The path of the bench (bench/wires.py).
CongestionRow BesideTcpFarRow(uint32_t tcp) {
  return BesideTcpRow({.name = "beside TCP far",
                       .path = {.bits_per_second = kGigabit / 5,
                                .hop_delay = Duration::Microseconds(2500)},
                       .tcp = tcp,
                       .time = Duration::Seconds(12)});
}

}  // namespace

std::string CongestionHead() {
  return R"(Real engines, MTU 1024, 5 us each way and link, 256 KB of drop-tail
buffer, local_ack_timeout 14 (67 ms), retry_cnt 7.
incast: hosts with 10 Gb/s send to one with 1 Gb/s, 4 writes of 64 KB posted on
  each QP; 1 s, with 100 hosts 2 s
sharing: a host with 100 Gb/s sends to one with 10 Gb/s, 32 writes of 4 KB
  posted on each QP; 200 ms, 1000 QPs 1 s, 20 000 QPs 4 s
later: as incast 16:1, but 15 of the 16 flows begin after 100 ms; from 500 ms to
  1 s
long: 2 ms round trip, 4 Gb/s, 4 writes of 1 MB: the buffer is a quarter of what
  the path holds
marks: as incast with 1 QP each, but packets support ECN, and the link marks
  some from 20 KB on, all from 80 KB
reordered: as incast with 1 QP each, but 5 % of packets are up to 100 us late
dead peer: as incast 1:1, QPs: 3, but there may be one more QP, whose peer is in
  RESET; goodput, Jain and stall are those of the three
small: the path of sharing, a QP sends 64 bytes at a time, and there may be
  others with 4 writes of 1 MB; 200 ms, without the first 20 ms
iWARP: as incast, with CUBIC
beside TCP: a host with a QP of RC, and others with one of iWARP each, on the
  path of incast, from 3 s to 6 s; far: 10 ms round trip, 200 Mb/s, the first
  12 s; share: goodput of the QP of RC, in times of the mean of the others (of
  iWARP: what TCP carries, with the headers of MPA and DDP)

goodput: payload acknowledged, % of what the slow link carries of it in full
  packets (of RC 1024 bytes in 1148, of iWARP 1032 in 1164: link.h counts 42 too
  many)
again: sent again, % of request packets. drop: % of packets at the slow link
dup, gap: % of packets that the receiver got before, and that it could not hold
  behind a gap
timer: expired acknowledgement timers. fail: QPs, by "retry exceeded"
Jain: of the bytes of each QP; mean and minimum over windows of 100 packets of
  each QP
stall: the longest time in which a QP got nothing acknowledged, ms. starved:
  whole seconds of that, of all QPs
queue: mean time at the slow link, us

)"
         "row                       goodput again drop  dup  gap  timer  fail"
         "  Jain  mean   min   stall starved queue\n";
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
      {"later, flows: 1 + 15", true, RunLater},
      LongRow(1),
      LongRow(4),
      MarksRow(4),
      MarksRow(16),
      ReorderedRow(1),
      ReorderedRow(4),
      DeadPeerRow(false),
      DeadPeerRow(true),
      SmallRow(0),
      SmallRow(1),
      SmallRow(16),
      IwarpRow(true, 4, 1),
      IwarpRow(true, 16, 1),
      IwarpRow(false, 16, 16),
      IwarpRow(false, 100, 1),
      BesideTcpRow(1),
      BesideTcpRow(4),
      BesideTcpFarRow(2),
  };
}

}  // namespace urnic::sim
