// What a port can do by itself: the baseline that uRNIC is compared with.
//
// clang-format off
//   raw_port MODE DEV [key=value ..]
//   MODE  tx      sends as fast as the port takes frames
//         rx      receives and frees
//         duplex  both
//         echo    sends back what it receives
//         ping    `turn` frames there and back at a time, against an echo
//   size=82       frame bytes, Ethernet header included, no FCS
//   burst=32      frames per call
//   turn=1        frames at a time, ping
//   seconds=5     from the first frame on
//   wait=30       seconds to wait for the port and the first frame
//   fill=header   what a sender writes: the first 64 bytes, or with "frame"
//                 all; what is not written stays in the receiver's cache
//   mtu=0         of the port; 0: its default
//   cpu=-1        to run on; -1: as started
//   through=device  call the driver itself, or with "port" through
//                 datapath/port/port.h: the difference is what the seam costs
// clang-format on
//
// The port is opened by the same code as uRNIC's: same device arguments,
// descriptors, buffer sizes and huge pages. So a driver loop that does nothing
// else is the upper limit for everything above it. Prints one line of JSON.

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "datapath/guest/eal.h"
#include "datapath/port/dpdk_port.h"
#include "datapath/port/port_factory.h"

namespace urnic {
namespace {

constexpr uint16_t kHeaderBytes = 64;
constexpr uint16_t kSequenceOffset = 16;
constexpr size_t kSamplesMax = 8'000'000;
constexpr double kLostAfterSeconds = 0.01;
constexpr int kSettledMs = 100;

volatile std::sig_atomic_t g_stop = 0;

struct Options {
  std::string mode;
  std::string dev;
  uint16_t size = 82;
  uint16_t burst = 32;
  uint16_t turn = 1;
  double seconds = 5;
  double wait = 30;
  uint16_t mtu = 0;
  int cpu = -1;
  bool through_port = false;
  bool fill_frame = false;
};

struct Result {
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t foreign = 0;  // not from a raw_port
  uint64_t polls = 0;
  uint64_t idle_polls = 0;
  uint64_t lost = 0;  // ping
  double seconds = 0;
  std::vector<float> rtt_us;
};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "raw_port: %s\n", what.c_str());
  std::exit(1);
}

Options ParseOptions(int argc, char** argv) {
  if (argc < 3)
    Die("usage: raw_port tx|rx|duplex|echo|ping DEV [key=value ..]");
  Options o;
  o.mode = argv[1];
  o.dev = argv[2];
  for (int i = 3; i < argc; ++i) {
    const std::string_view word = argv[i];
    const size_t equals = word.find('=');
    if (equals == word.npos) Die("not key=value: " + std::string(word));
    const std::string_view key = word.substr(0, equals);
    const std::string value(word.substr(equals + 1));
    const int number = std::atoi(value.c_str());
    if (key == "size") {
      o.size = static_cast<uint16_t>(number);
    } else if (key == "burst") {
      o.burst = static_cast<uint16_t>(number);
    } else if (key == "turn") {
      o.turn = static_cast<uint16_t>(number);
    } else if (key == "seconds") {
      o.seconds = std::atof(value.c_str());
    } else if (key == "wait") {
      o.wait = std::atof(value.c_str());
    } else if (key == "mtu") {
      o.mtu = static_cast<uint16_t>(number);
    } else if (key == "cpu") {
      o.cpu = number;
    } else if (key == "through" && (value == "device" || value == "port")) {
      o.through_port = value == "port";
    } else if (key == "fill" && (value == "header" || value == "frame")) {
      o.fill_frame = value == "frame";
    } else {
      Die("unknown: " + std::string(word));
    }
  }
  if (o.size < kSequenceOffset + 8 || o.burst < 1 || o.burst > kBurstMax ||
      o.turn < 1 || o.turn > kBurstMax) {
    Die("size must be at least 24, burst and turn 1 to 32");
  }
  return o;
}

// The two ways to call the driver, so that both loops are the same code.
struct DeviceIo {
  uint16_t id;
  uint16_t Receive(rte_mbuf** out, uint16_t max) const {
    return rte_eth_rx_burst(id, 0, out, max);
  }
  uint16_t Transmit(rte_mbuf** packets, uint16_t count) const {
    return rte_eth_tx_burst(id, 0, packets, count);
  }
};
struct PortIo {
  Port& port;
  uint16_t Receive(rte_mbuf** out, uint16_t max) const {
    return port.Receive(out, max);
  }
  uint16_t Transmit(rte_mbuf** packets, uint16_t count) const {
    return port.Transmit(packets, count);
  }
};

// Writes what every sender has to write: the headers, in one cache line. Or,
// like a sender of fresh data, the whole frame.
class FrameWriter {
 public:
  FrameWriter(const Port& port, const Options& o)
      : size_(o.size),
        written_(o.fill_frame ? o.size : std::min(o.size, kHeaderBytes)),
        frame_(std::max(o.size, kHeaderBytes)) {
    std::memset(frame_.data(), 0xff, 6);
    std::memcpy(frame_.data() + 6, port.mac().bytes.data(), 6);
    frame_[12] = 0x88;
    frame_[13] = 0xb5;  // for local experiments
  }
  void Write(rte_mbuf* m) const {
    m->data_len = size_;
    m->pkt_len = size_;
    std::memcpy(rte_pktmbuf_mtod(m, void*), frame_.data(), written_);
  }
  static bool IsOurs(const rte_mbuf* m) {
    const auto* data = rte_pktmbuf_mtod(m, const uint8_t*);
    return data[12] == 0x88 && data[13] == 0xb5;
  }

 private:
  const uint16_t size_;
  const uint16_t written_;
  std::vector<uint8_t> frame_;
};

// Counts and frees (or keeps, at the front of `frames`) what was received.
uint16_t Sort(rte_mbuf** frames, uint16_t n, bool keep, Result& result) {
  uint16_t kept = 0;
  for (uint16_t i = 0; i < n; ++i) {
    if (!FrameWriter::IsOurs(frames[i])) {
      ++result.foreign;
      rte_pktmbuf_free(frames[i]);
      continue;
    }
    ++result.received;
    if (keep) {
      frames[kept++] = frames[i];
    } else {
      rte_pktmbuf_free(frames[i]);
    }
  }
  return kept;
}

// A burst to send. The port may accept it in parts.
template <typename Io>
class Sender {
 public:
  Sender(const Port& port, const Options& o)
      : pool_(port.pool()), writer_(port, o), burst_(o.burst) {}
  ~Sender() { rte_pktmbuf_free_bulk(frames_ + first_, count_ - first_); }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  uint16_t Send(const Io& io) {
    if (first_ == count_) {
      first_ = count_ = 0;
      if (rte_pktmbuf_alloc_bulk(pool_, frames_, burst_) != 0) return 0;
      count_ = burst_;
      for (uint16_t i = 0; i < count_; ++i) writer_.Write(frames_[i]);
    }
    const uint16_t n =
        io.Transmit(frames_ + first_, static_cast<uint16_t>(count_ - first_));
    first_ = static_cast<uint16_t>(first_ + n);
    return n;
  }

 private:
  rte_mempool* const pool_;
  const FrameWriter writer_;
  const uint16_t burst_;
  uint16_t first_ = 0;
  uint16_t count_ = 0;
  rte_mbuf* frames_[kBurstMax];
};

template <typename Io>
Result Stream(const Io& io, const Port& port, const Options& o) {
  const bool tx = o.mode == "tx" || o.mode == "duplex";
  const bool echo = o.mode == "echo";
  const bool rx = o.mode != "tx";
  const auto hz = static_cast<double>(rte_get_tsc_hz());
  Sender<Io> sender(port, o);
  Result result;
  uint64_t start = rte_rdtsc();
  uint64_t end = start + static_cast<uint64_t>(o.wait * hz);
  bool begun = false;
  while (g_stop == 0) {
    const uint64_t now = rte_rdtsc();
    if (now > end) break;
    uint16_t work = 0;
    if (tx) {
      work = sender.Send(io);
      result.sent += work;
    }
    if (rx) {
      rte_mbuf* frames[kBurstMax];
      const uint16_t n = io.Receive(frames, o.burst);
      const uint16_t kept = Sort(frames, n, echo, result);
      uint16_t back = 0;
      if (kept != 0) back = io.Transmit(frames, kept);
      if (back < kept) rte_pktmbuf_free_bulk(frames + back, kept - back);
      result.sent += back;
      work = static_cast<uint16_t>(work + n);
    }
    if (!begun && work != 0) {
      begun = true;
      start = now;
      end = start + static_cast<uint64_t>(o.seconds * hz);
      result.polls = result.idle_polls = 0;
    }
    ++result.polls;
    result.idle_polls += work == 0;
  }
  const uint64_t stop = std::min(rte_rdtsc(), end);
  result.seconds = static_cast<double>(stop - start) / hz;
  return result;
}

// True if all frames of turn `sequence` came back before the deadline.
template <typename Io>
bool AwaitAnswer(const Io& io, uint64_t sequence, uint16_t turn,
                 uint64_t deadline, Result& result) {
  rte_mbuf* frames[kBurstMax];
  for (uint16_t found = 0;;) {
    const uint16_t n = io.Receive(frames, kBurstMax);
    ++result.polls;
    result.idle_polls += n == 0;
    for (uint16_t i = 0; i < n; ++i) {
      uint64_t number;
      std::memcpy(&number,
                  rte_pktmbuf_mtod_offset(frames[i], void*, kSequenceOffset),
                  sizeof(number));
      found += FrameWriter::IsOurs(frames[i]) && number == sequence;
      rte_pktmbuf_free(frames[i]);
    }
    result.received += n;
    if (found == turn) return true;
    if (n == 0 && rte_rdtsc() > deadline) return false;
  }
}

template <typename Io>
Result Ping(const Io& io, const Port& port, const Options& o) {
  const auto hz = static_cast<double>(rte_get_tsc_hz());
  const FrameWriter writer(port, o);
  Result result;
  result.rtt_us.reserve(kSamplesMax);
  uint64_t start = rte_rdtsc();
  uint64_t end = start + static_cast<uint64_t>(o.wait * hz);
  for (uint64_t sequence = 1; g_stop == 0 && rte_rdtsc() < end; ++sequence) {
    rte_mbuf* frames[kBurstMax];
    if (rte_pktmbuf_alloc_bulk(port.pool(), frames, o.turn) != 0) continue;
    for (uint16_t i = 0; i < o.turn; ++i) {
      writer.Write(frames[i]);
      std::memcpy(rte_pktmbuf_mtod_offset(frames[i], void*, kSequenceOffset),
                  &sequence, sizeof(sequence));
    }
    const uint64_t sent_at = rte_rdtsc();
    const uint16_t sent = io.Transmit(frames, o.turn);
    result.sent += sent;
    if (sent < o.turn) {
      rte_pktmbuf_free_bulk(frames + sent, o.turn - sent);
      continue;
    }
    const auto patience = static_cast<uint64_t>(kLostAfterSeconds * hz);
    if (!AwaitAnswer(io, sequence, o.turn, sent_at + patience, result)) {
      ++result.lost;
      continue;
    }
    const uint64_t now = rte_rdtsc();
    if (result.rtt_us.empty()) {
      start = now;
      end = start + static_cast<uint64_t>(o.seconds * hz);
      result.lost = 0;
    }
    if (result.rtt_us.size() < kSamplesMax) {
      result.rtt_us.push_back(
          static_cast<float>(static_cast<double>(now - sent_at) * 1e6 / hz));
    }
  }
  result.seconds = static_cast<double>(std::min(rte_rdtsc(), end) - start) / hz;
  return result;
}

void PrintRoundTrips(std::vector<float>& us, uint64_t lost) {
  std::sort(us.begin(), us.end());
  const auto at = [&](double share) {
    return us.empty() ? 0.0
                      : static_cast<double>(us[static_cast<size_t>(
                            share * static_cast<double>(us.size() - 1))]);
  };
  const double sum = std::accumulate(us.begin(), us.end(), 0.0);
  const double average =
      us.empty() ? 0.0 : sum / static_cast<double>(us.size());
  std::printf(
      "\"rtt_us\":{\"n\":%zu,\"lost\":%lu,\"average\":%.3f,\"min\":%.3f,"
      "\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"p999\":%.3f,"
      "\"p9999\":%.3f,\"max\":%.1f},",
      us.size(), lost, average, at(0), at(0.5), at(0.9), at(0.99), at(0.999),
      at(0.9999), at(1));
}

void Print(const Options& o, const Port& port, Result& r) {
  const PortInfo info = port.info();
  const PortCounters c = port.counters();
  const double seconds = std::max(r.seconds, 1e-9);
  const auto rate = [&](uint64_t n) {
    return static_cast<double>(n) / seconds / 1e6;
  };
  std::printf(
      "{\"mode\":\"%s\",\"dev\":\"%s\",\"through\":\"%s\",\"size\":%u,"
      "\"burst\":%u,\"seconds\":%.3f,\"mtu\":%u,\"huge_pages\":%s,"
      "\"rx_ring\":%u,\"tx_ring\":%u,",
      o.mode.c_str(), o.dev.c_str(), o.through_port ? "port" : "device", o.size,
      o.burst, r.seconds, port.mtu(), EalHasHugePages() ? "true" : "false",
      info.rx_ring, info.tx_ring);
  std::printf(
      "\"tx_mpps\":%.4f,\"tx_gbps\":%.3f,\"rx_mpps\":%.4f,"
      "\"rx_gbps\":%.3f,\"idle_polls_percent\":%.1f,\"foreign\":%lu,",
      rate(r.sent), rate(r.sent) * o.size * 8 / 1e3, rate(r.received),
      rate(r.received) * o.size * 8 / 1e3,
      100.0 * static_cast<double>(r.idle_polls) /
          static_cast<double>(std::max<uint64_t>(r.polls, 1)),
      r.foreign);
  if (o.mode == "ping") PrintRoundTrips(r.rtt_us, r.lost);
  std::printf(
      "\"port\":{\"rx_packets\":%lu,\"rx_bytes\":%lu,\"rx_truncated\":%lu,"
      "\"rx_missed\":%lu,\"rx_no_mbuf\":%lu,\"tx_packets\":%lu,"
      "\"tx_bytes\":%lu,\"tx_dropped_down\":%lu,\"tx_errors\":%lu}}\n",
      c.rx_packets, c.rx_bytes, c.rx_truncated, c.rx_missed, c.rx_no_mbuf,
      c.tx_packets, c.tx_bytes, c.tx_dropped_down, c.tx_errors);
}

void PinTo(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  if (sched_setaffinity(0, sizeof(mask), &mask) != 0) Die("cpu: unknown CPU");
}

template <typename Io>
Result Run(const Io& io, const Port& port, const Options& o) {
  return o.mode == "ping" ? Ping(io, port, o) : Stream(io, port, o);
}

// When the peer has left, the port's other threads remove what it shared, or
// the device. They wait at the gate for the whole run, so that the loop itself
// has no extra cost.
Result RunDevice(DpdkPort& port, const Options& o) {
  const DeviceGate::View device = port.gate().Enter();
  if (!device.present()) Die("the port went away");
  Result result = Run(DeviceIo{device.id()}, port, o);
  port.gate().Leave();
  return result;
}

// The driver's threads go on with the handshake when the link is up, and could
// not if RunDevice() closed the gate then.
void AwaitLink(const Port& port, double seconds) {
  for (int up = 0, ms = 0; up < kSettledMs && g_stop == 0; ++ms) {
    up = port.info().state == PortState::kUp ? up + 1 : 0;
    if (ms > kSettledMs + seconds * 1000)
      Die("the port did not come up: " + port.info().text);
    usleep(1000);
  }
}

int Main(int argc, char** argv) {
  const Options o = ParseOptions(argc, argv);
  for (const char* known : {"tx", "rx", "duplex", "echo", "ping", ""}) {
    if (*known == 0) Die("unknown mode: " + o.mode);
    if (o.mode == known) break;
  }
  if (o.cpu >= 0) PinTo(o.cpu);
  for (int signal : {SIGINT, SIGTERM}) {
    std::signal(signal, [](int) { g_stop = 1; });
  }
  PortConfig config;
  config.dev = o.dev;
  config.mtu = o.mtu;
  const auto created = CreatePort(config);
  if (!created.ok()) Die(std::string(created.status().message()));
  auto* port = dynamic_cast<DpdkPort*>(created->get());
  if (port == nullptr) Die("loop has no wire to measure");
  if (o.size > port->mtu() + kL2HeaderBytesMax)
    Die("size: larger than the MTU");
  AwaitLink(*port, o.wait);
  TakeLcore(port->lcore());
  Result result =
      o.through_port ? Run(PortIo{*port}, *port, o) : RunDevice(*port, o);
  ReleaseLcore();
  Print(o, *port, result);
  return 0;
}

}  // namespace
}  // namespace urnic

int main(int argc, char** argv) { return urnic::Main(argc, argv); }
