#include "tests/sim/goodput.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/sim/link.h"
#include "tests/sim/wire_rules.h"
#include "tests/sim/world.h"
#include "tests/support/endpoint.h"
#include "tests/support/packet_builder.h"
#include "transport/work/timers.h"

namespace urnic::sim {
namespace {

using testing::Endpoint;
using testing::FakeHost;
using testing::Packet;

constexpr uint64_t kBitsPerSecond = 10'000'000'000;
constexpr uint32_t kMtu = 4096;
// With BTH, ICRC, the headers before the BTH, and the gap.
constexpr uint32_t kPacketBytes = kMtu + 12 + 4 + 42 + 24;
constexpr uint32_t kDeepQueue = 1024;
constexpr uint32_t kMessageBytes = 1024 * 1024;
constexpr uint32_t kMessagesPosted = 16;
constexpr Duration kRunTime = Duration::Milliseconds(20);
constexpr Duration kForgedEvery = Duration::Microseconds(25);

struct Outcome {
  double goodput_percent = 0;
  double resent_percent = 0;
  uint64_t timeouts = 0;
  uint64_t requests = 0;
};

// A core without an engine, so that the figures are the transport's: it is
// called 200 ns after each event, takes and gives all that there is, and its
// timer is exact.
class Driver {
 public:
  Driver(World& world, Endpoint& end, const QpConfig& config,
         std::function<void(Packet)> send)
      : world_(world), end_(end), rules_(config), send_(std::move(send)) {
    end.on_packet = [this](const RxPacket& packet, RxVerdict verdict) {
      rules_.OnReceived(packet, verdict);
    };
  }

  void OnPacket(Packet packet) {
    arrived_.push_back(std::move(packet));
    Kick();
  }
  // From now on all packets that arrive were marked on their way.
  void MarkAll() { marked_ = true; }
  // The program has posted.
  void Kick() {
    if (scheduled_) return;
    scheduled_ = true;
    world_.After(Duration::Nanoseconds(200), [this] { Step(); });
  }

 private:
  void Step() {
    scheduled_ = false;
    Receive();
    end_.AdvanceTo(world_.now());
    Transmit();
    end_.Poll();
    if (!arrived_.empty() || end_.qp().HasWork()) Kick();
    WatchDeadline();
  }

  void Receive() {
    const auto count =
        static_cast<std::ptrdiff_t>(std::min<size_t>(arrived_.size(), kRunMax));
    const std::vector<Packet> burst(arrived_.begin(), arrived_.begin() + count);
    arrived_.erase(arrived_.begin(), arrived_.begin() + count);
    if (marked_) rules_.OnMarked(world_.now());
    (void)end_.Deliver(burst, world_.now(), marked_ ? UINT64_MAX : 0);
  }

  void Transmit() {
    // HasWork() may be wrong once, for a request that turns out to have to
    // wait.
    for (int futile = 0; end_.qp().HasWork();) {
      std::vector<Packet> packets = end_.Transmit(world_.now());
      futile = packets.empty() ? futile + 1 : 0;
      Require(futile < 4, "HasWork() but nothing to transmit");
      for (Packet& packet : packets) {
        rules_.OnSent(Parse(packet), world_.now());
        send_(std::move(packet));
      }
    }
  }

  static wire::RocePacket Parse(const Packet& packet) {
    wire::RocePacket parsed;
    Require(wire::ParseRoce(packet.data(), static_cast<uint32_t>(packet.size()),
                            parsed) == RxVerdict::kAccept,
            "a malformed packet");
    return parsed;
  }

  void WatchDeadline() {
    const Time due = end_.NextDeadline();
    if (due.IsInfinite() || due == watched_) return;
    watched_ = due;
    world_.At(due, [this, due] {
      if (watched_ == due) watched_ = Time::Infinite();
      if (end_.NextDeadline() != due) return WatchDeadline();
      end_.AdvanceTo(due);
      Require(end_.NextDeadline() > due,
              "OnTimer() leaves a deadline that has passed");
      Kick();
    });
  }

  World& world_;
  Endpoint& end_;
  WireRules rules_;
  std::function<void(Packet)> send_;
  std::deque<Packet> arrived_;
  bool marked_ = false;
  bool scheduled_ = false;
  Time watched_ = Time::Infinite();
};

// What a stream is, and the path that it takes.
struct StreamConfig {
  uint32_t loss_ppm = 0;
  uint32_t window = 128;
  bool longer_windows = false;
  uint8_t opcode = URNIC_WR_RDMA_WRITE;
  uint32_t queue_packets = kDeepQueue;
  Duration delay = Duration::Microseconds(5);
  uint32_t bytes = kMessageBytes;  // of a request
  uint32_t posted = kMessagesPosted;
  Duration time = kRunTime;
  uint8_t timeout = 8;  // local_ack_timeout
  uint32_t mtu = kMtu;
  uint64_t bits_per_second = kBitsPerSecond;  // of a path
  uint32_t reorder_ppm = 0;  // held back by up to the path's delay
  // Of the paths that its packets take in turn; empty: one, of `delay`.
  std::span<const Duration> delays = {};
};

// What an attacker sends, who knows addresses, ports and queue pair numbers,
// but not the PSNs under way.
enum class Forgery : uint8_t {
  kFuturePsns,     // requests that are not due yet
  kNotifications,  // of congestion
  kMarks,          // "congestion experienced" on all requests
  kAnswers,        // of every kind, to what is not under way
};

// One queue pair with so many requests posted at any time.
class Stream {
 public:
  explicit Stream(const StreamConfig& stream)
      : posted_(stream.posted),
        time_(stream.time),
        mtu_(stream.mtu),
        rate_(stream.bits_per_second *
              std::max<size_t>(stream.delays.size(), 1)) {
    const uint32_t rights =
        mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;
    const uint32_t key = hosts_[0].Register(1, 0, kMessageBytes, rights);
    wr_.opcode = stream.opcode;
    wr_.sges = {{hosts_[0].address(0), stream.bytes, key}};
    wr_.remote_addr = hosts_[1].address(0);
    wr_.rkey = hosts_[1].Register(1, 0, kMessageBytes, rights);
    QpConfig config;
    config.dest_qpn = 0x11;
    config.mtu = stream.mtu;
    config.access = rights;
    config.timeout = AckTimeout(stream.timeout);
    config.max_rd_atomic = config.max_dest_rd_atomic = 4;
    config.window_packets = stream.window;
    config.window_bytes = stream.window * stream.mtu;
    config.longer_windows = stream.longer_windows;
    LinkConfig link;
    link.loss_ppm = stream.loss_ppm;
    link.reorder_ppm = stream.reorder_ppm;
    link.bits_per_second = stream.bits_per_second;
    // The packets that wait, and the one that arrives.
    link.buffer_bytes = uint64_t{stream.queue_packets + 1} * kPacketBytes;
    const std::span<const Duration> delays =
        stream.delays.empty() ? std::span(&stream.delay, 1) : stream.delays;
    for (int i = 0; i < 2; ++i) {
      for (const Duration delay : delays) {
        link.delay = link.reorder_by = delay;
        links_[i].push_back(std::make_unique<Link>(
            world_, 1 + i + 2 * links_[i].size(), link,
            [this, i](Packet p) { drivers_[1 - i]->OnPacket(std::move(p)); }));
      }
      drivers_[i] = std::make_unique<Driver>(
          world_, *ends_[i], config, [this, i](Packet p) {
            links_[i][sent_++ % links_[i].size()]->Send(std::move(p));
          });
      ends_[i]->Connect(config);
    }
    ends_[0]->on_completion = [this](const testing::Completion& done) {
      Require(done.status == URNIC_WC_SUCCESS, "a request has failed");
      ++requests_;
      Post();
      drivers_[0]->Kick();
    };
  }

  // From now on an attacker sends forged packets.
  void Forge(Forgery what) {
    const Psn una = ends_[0]->qp().send_state().una_psn;
    switch (what) {
      case Forgery::kFuturePsns:
        drivers_[1]->OnPacket(testing::Send(ends_[1]->qp().recv_psn() + 1000));
        break;
      case Forgery::kNotifications:
        drivers_[0]->OnPacket(
            testing::PacketBuilder(wire::Opcode::kCnp, Psn()));
        break;
      case Forgery::kMarks:
        return drivers_[1]->MarkAll();
      case Forgery::kAnswers: {
        // Beyond what was sent, and before what is under way.
        const Psn psns[] = {una + 5000, una + -5000};
        const Psn psn = psns[++forged_ / 4 % 2];
        constexpr uint8_t kSyndromes[] = {
            wire::kAethAck | wire::kAethCreditsInvalid,
            wire::kNakPsnSequenceError, wire::kNakRemoteAccessError,
            wire::kAethRnrNak | 1};
        drivers_[0]->OnPacket(testing::Nak(psn, kSyndromes[forged_ % 4]));
        break;
      }
    }
    world_.After(kForgedEvery, [this, what] { Forge(what); });
  }

  Outcome Run() {
    const Time begin = world_.now();
    for (uint32_t i = 0; i < posted_; ++i) Post();
    drivers_[0]->Kick();
    world_.RunUntil(begin + time_);
    const rc::SendState& s = ends_[0]->qp().send_state();
    const auto acked = static_cast<double>(s.una_psn - Psn());
    const double link_bytes =
        static_cast<double>(rate_) / 8 * static_cast<double>(time_.ns()) / 1e9;
    Outcome outcome;
    outcome.goodput_percent = 100 * acked * mtu_ / link_bytes;
    const RequesterCounters& counted = s.counters;
    outcome.resent_percent = 100 *
                             static_cast<double>(counted.requests_resent) /
                             static_cast<double>(counted.requests_sent);
    outcome.timeouts = counted.timeouts;
    outcome.requests = requests_;
    return outcome;
  }

 private:
  void Post() { (void)ends_[0]->PostSend(wr_); }

  World world_;
  FakeHost hosts_[2] = {FakeHost(kMessageBytes), FakeHost(kMessageBytes)};
  std::unique_ptr<Endpoint> ends_[2] = {
      std::make_unique<Endpoint>(hosts_[0], testing::EndpointOptions{}),
      std::make_unique<Endpoint>(hosts_[1], testing::EndpointOptions{})};
  std::vector<std::unique_ptr<Link>> links_[2];
  std::unique_ptr<Driver> drivers_[2];
  testing::SendWr wr_;
  const uint32_t posted_;
  const Duration time_;
  const uint32_t mtu_;
  const uint64_t rate_;
  size_t sent_ = 0;
  uint64_t requests_ = 0;
  uint32_t forged_ = 0;
};

std::string Format(const char* format, double a, double b, uint64_t c) {
  char text[64];
  std::snprintf(text, sizeof(text), format, a, b, c);
  return text;
}

std::string Show(const Outcome& o) {
  return Format("  %5.1f /%5.1f /%3" PRIu64, o.goodput_percent,
                o.resent_percent, o.timeouts);
}

// What writes must keep of their goodput without a loss.
struct Loss {
  uint32_t ppm;
  double percent_left;
};
constexpr Loss kLosses[] = {
    {0, 0}, {100, 95}, {1000, 90}, {10000, 70}, {50000, 30}};

// "", or what the program fails for.
std::string Judge(double percent, double least) {
  return percent >= least ? ""
                          : Format(" MISSED: %.1f < %.1f", percent, least, 0);
}
// Runs the stream on a path with this loss. `clean`: its goodput on the path
// without one, which comes first.
std::string ShowWith(const Loss& loss, StreamConfig stream, double& clean) {
  stream.loss_ppm = loss.ppm;
  const Outcome outcome = Stream(stream).Run();
  if (loss.ppm == 0) clean = outcome.goodput_percent;
  if (stream.opcode != URNIC_WR_RDMA_WRITE) return Show(outcome);
  return Show(outcome) +
         Judge(outcome.goodput_percent, clean * loss.percent_left / 100);
}

// `common`: of all streams, but for loss and window.
void AppendTable(const char* title, const StreamConfig& common,
                 std::string& table) {
  table += title;
  table += "\n  loss      window 8           window 32          window 128\n";
  double clean[3] = {};
  for (const Loss& loss : kLosses) {
    table += Format("%5.2f %% ", loss.ppm / 1e4, 0, 0);
    size_t column = 0;
    for (const uint32_t window : {8u, 32u, 128u}) {
      StreamConfig stream = common;
      stream.window = window;
      table += ShowWith(loss, stream, clean[column++]);
    }
    table += "\n";
  }
}

// A path of a millisecond, where the window follows the round trip.
constexpr StreamConfig kLongPath = {.window = 64,
                                    .longer_windows = true,
                                    .delay = Duration::Milliseconds(1),
                                    .time = Duration::Seconds(1),
                                    .timeout = 14};

void AppendLongTable(std::string& table) {
  table +=
      "\n1 ms each way, 1 s, local_ack_timeout 14\n  loss      write        "
      "      read\n";
  double clean[2] = {};
  for (const Loss& loss : kLosses) {
    table += Format("%5.2f %% ", loss.ppm / 1e4, 0, 0);
    size_t column = 0;
    for (const uint8_t opcode : {URNIC_WR_RDMA_WRITE, URNIC_WR_RDMA_READ}) {
      StreamConfig stream = kLongPath;
      stream.opcode = opcode;
      table += ShowWith(loss, stream, clean[column++]);
    }
    table += "\n";
  }
}

// The same path without losses, but with a buffer that is a small part of what
// the path holds.
void AppendShallowTable(std::string& table) {
  table += "\nThe same, no loss but what overflows a queue\n  packets\n";
  for (const uint32_t packets : {16u, 64u, 256u}) {
    table += Format("  %3.0f", packets, 0, 0);
    StreamConfig stream = kLongPath;
    stream.queue_packets = packets;
    table += Show(Stream(stream).Run());
    table += "\n";
  }
}

// A window that the queue before the slow link cannot hold.
void AppendQueueTable(std::string& table) {
  table += "\nRDMA write, no loss but what overflows a queue of 64 packets";
  table += "\n  window 32           window 64           window 128";
  table += "          window 512\n";
  for (const uint32_t window : {32u, 64u, 128u, 512u}) {
    table += Show(Stream({.window = window, .queue_packets = 64}).Run());
  }
  table += "\n";
}

void AppendForgeryTable(const char* title, uint8_t opcode, std::string& table) {
  table += title;
  table += ", forged requests with a future PSN, one each 25 us";
  table += "\n  loss      window 8           window 32          window 128\n";
  for (const uint32_t loss : {0u, 1000u, 10000u}) {
    table += Format("%5.2f %% ", loss / 1e4, 0, 0);
    for (const uint32_t window : {8u, 32u, 128u}) {
      Stream stream({.loss_ppm = loss, .window = window, .opcode = opcode});
      stream.Forge(Forgery::kFuturePsns);
      table += Show(stream.Run());
    }
    table += "\n";
  }
}

// What slows us down must not stop us.
void AppendOtherForgeriesTable(std::string& table) {
  struct Row {
    const char* name;
    Forgery what;
    double least;
  };
  table += "\nRDMA write, window 128, no loss, forged each 25 us\n";
  for (const auto& [name, what, least] :
       {Row{"notifications of congestion", Forgery::kNotifications, 1},
        Row{"marks, on each request     ", Forgery::kMarks, 1},
        Row{"answers                    ", Forgery::kAnswers, 90}}) {
    Stream stream({});
    stream.Forge(what);
    const Outcome outcome = stream.Run();
    table += std::string("  ") + name + Show(outcome) +
             Judge(outcome.goodput_percent, least) + "\n";
  }
}

// What tests/sim/rud/goodput_main.cc has for RUD.
void AppendPathsTable(std::string& table) {
  static constexpr Duration kDelays[] = {
      Duration::Microseconds(10), Duration::Microseconds(100),
      Duration::Microseconds(250), Duration::Microseconds(500)};
  struct Fault {
    uint32_t reorder_ppm;
    uint32_t loss_ppm;
  };
  constexpr Fault kFaults[] = {{0, 0}, {50'000, 0}, {0, 1000}, {0, 10'000}};
  StreamConfig common = {.window = 512,
                         .longer_windows = true,
                         .posted = 8,
                         .time = Duration::Milliseconds(400),
                         .timeout = 14,
                         .mtu = 1024,
                         .bits_per_second = 2'500'000'000};
  table +=
      "\nRDMA write over four paths, 10, 100, 250 and 500 us, 2.5 Gb/s each, "
      "MTU"
      "\n1024, 400 ms, local_ack_timeout 14; as % of all four"
      "\n                        no fault   5 % reordered   0.1 % lost   1 % "
      "lost\n";
  const auto percent = [](const StreamConfig& stream) {
    return Stream(stream).Run().goodput_percent;
  };
  std::string spread = "  packets in turn     ";
  std::string apart = "  a queue pair on each";
  for (const Fault& fault : kFaults) {
    common.reorder_ppm = fault.reorder_ppm;
    common.loss_ppm = fault.loss_ppm;
    common.delays = kDelays;
    spread += Format("      %5.1f", percent(common), 0, 0);
    double sum = 0;
    common.delays = {};
    for (const Duration delay : kDelays) {
      common.delay = delay;
      sum += percent(common) / static_cast<double>(std::size(kDelays));
    }
    apart += Format("      %5.1f", sum, 0, 0);
  }
  table += spread + "\n" + apart + "\n";
}

void AppendShortForgeryTable(std::string& table) {
  table += "\nWrites of 8 bytes that complete in 20 ms, one at a time\n";
  for (const bool forged : {false, true}) {
    Stream stream({.bytes = 8, .posted = 1});
    if (forged) stream.Forge(Forgery::kFuturePsns);
    table += forged ? "  with forged requests " : "  undisturbed ";
    table += std::to_string(stream.Run().requests) + "\n";
  }
}

}  // namespace

std::string GoodputTable() {
  std::string table =
      "One queue pair, 1 MB messages, MTU 4096, 10 Gb/s, 5 us each way, 20 ms,"
      "\nlocal_ack_timeout 8 (1 ms). Payload as % of the link's rate / packets"
      "\nresent as % of packets sent / timeouts.\n\n";
  AppendTable("RDMA write", {}, table);
  AppendTable("\nRDMA write, 64 KB", {.bytes = 65536}, table);
  AppendTable("\nRDMA read (resent: read requests)",
              {.opcode = URNIC_WR_RDMA_READ}, table);
  AppendLongTable(table);
  AppendShallowTable(table);
  AppendQueueTable(table);
  AppendForgeryTable("\nRDMA write", URNIC_WR_RDMA_WRITE, table);
  AppendForgeryTable("\nRDMA read", URNIC_WR_RDMA_READ, table);
  AppendOtherForgeriesTable(table);
  AppendShortForgeryTable(table);
  AppendPathsTable(table);
  return table;
}

}  // namespace urnic::sim
