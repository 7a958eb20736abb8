// Our TCP against the kernel's: both exchange a pattern through a TUN interface
// in a network namespace of this process, and check every byte.
//
//   against_kernel [role=client|server|cookies] [up=BYTES] [down=BYTES]
//                  [fault=SPEC] [flip=N] [mtu=BYTES]
//                  [narrow=BYTES|silent=BYTES] [window=BYTES] [seed=N]
//                  [seconds=N] [pcap=FILE] [sysctl=NAME=VALUE]..
//
// role: ours; "cookies" is a server that answers with SYN cookies. up: from us
// to the kernel; down: the other way; both at the same time.
// fault: as for `urnic run --fault`, on the way in both directions. flip: a bit
// of one packet in N is wrong, which a checksum always finds. narrow: after a
// quarter of the bytes, this is the MTU; a router says so of each packet of
// ours that is larger, or, with silent, says nothing. pcap: what was on the
// wire, as we saw it. Needs root. Status 0: all bytes were right, and both ends
// have closed the connection.

#include <poll.h>
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/tcp/kernel_end.h"
#include "tests/tcp/our_end.h"
#include "tests/tcp/tun_port.h"
#include "transport/impair/fault_spec.h"
#include "transport/impair/line.h"

namespace urnic::testing {
namespace {

constexpr char kKernelAddress[] = "10.77.0.1";
constexpr uint32_t kKernel = 0x0a4d0001;
constexpr uint32_t kOurs = 0x0a4d0002;
constexpr uint16_t kPort = 7777;
constexpr uint32_t kUnderWay = 8192;
constexpr int kGraceMs = 5000;
// Exit statuses.
constexpr int kUsage = 2;
constexpr int kSkipped = 77;

Time Now() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return Time::FromNs(int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec);
}

struct Options {
  std::string role = "client";
  uint64_t up = 1 << 20;
  uint64_t down = 1 << 20;
  std::string fault;
  uint64_t flip = 0;  // 0: none
  uint32_t mtu = 1500;
  uint32_t narrow = 0;  // 0: it does not change
  bool silent = false;
  uint64_t seed = 1;
  uint32_t window = 1 << 20;
  int seconds = 60;
  std::string pcap;
  std::vector<std::pair<std::string, std::string>> sysctls;
};

// Returns false on an unknown option.
bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t at = word.find('=');
    if (at == std::string::npos) return false;
    const std::string key = word.substr(0, at);
    const std::string value = word.substr(at + 1);
    const uint64_t number = std::strtoull(value.c_str(), nullptr, 0);
    if (key == "role") {
      options.role = value;
    } else if (key == "up") {
      options.up = number;
    } else if (key == "down") {
      options.down = number;
    } else if (key == "fault") {
      options.fault = value;
    } else if (key == "mtu") {
      options.mtu = static_cast<uint32_t>(number);
    } else if (key == "flip") {
      options.flip = number;
    } else if (key == "narrow" || key == "silent") {
      options.narrow = static_cast<uint32_t>(number);
      options.silent = key == "silent";
    } else if (key == "seed") {
      options.seed = number;
    } else if (key == "window") {
      options.window = static_cast<uint32_t>(number);
    } else if (key == "seconds") {
      options.seconds = static_cast<int>(number);
    } else if (key == "pcap") {
      options.pcap = value;
    } else if (key == "sysctl") {
      const size_t equals = value.find('=');
      if (equals == std::string::npos) return false;
      options.sysctls.emplace_back(value.substr(0, equals),
                                   value.substr(equals + 1));
    } else {
      return false;
    }
  }
  return true;
}

// Packets without a link layer, for tshark.
class PcapWriter {
 public:
  explicit PcapWriter(const std::string& path) {
    if (path.empty()) return;
    file_.open(path, std::ios::binary);
    constexpr uint32_t kLinkTypeRaw = 101;
    const uint32_t header[6] = {0xa1b23c4d, 0x00040002, 0,
                                0,          65535,      kLinkTypeRaw};
    file_.write(reinterpret_cast<const char*>(header), sizeof(header));
  }
  void Write(Time now, std::span<const uint8_t> packet) {
    if (!file_.is_open()) return;
    const auto bytes = static_cast<uint32_t>(packet.size());
    const uint32_t header[4] = {static_cast<uint32_t>(now.ns() / 1'000'000'000),
                                static_cast<uint32_t>(now.ns() % 1'000'000'000),
                                bytes, bytes};
    file_.write(reinterpret_cast<const char*>(header), sizeof(header));
    file_.write(reinterpret_cast<const char*>(packet.data()),
                static_cast<std::streamsize>(packet.size()));
  }

 private:
  std::ofstream file_;
};

// The kernel and our end, and the wire between them.
class Exchange {
 public:
  // `tun` outlives this object.
  Exchange(const Options& options, const impair::Config& faults, TunPort* tun)
      : options_(options),
        random_(options.seed),
        tun_(tun),
        start_(Now()),
        end_(start_ + Duration::Seconds(options.seconds)),
        out_(faults, options.seed, start_, kUnderWay, kFrameBytes),
        in_(faults, options.seed + 1, start_, kUnderWay, kFrameBytes),
        pcap_(options.pcap),
        ours_({.local = kOurs,
               .remote = kKernel,
               .remote_port = options.role == "client" ? kPort : uint16_t{0},
               .cookies = options.role == "cookies",
               .mtu = options.mtu,
               .window = options.window,
               .send = options.up,
               .receive = options.down,
               .seed = options.seed},
              start_),
        buffer_(kFrameBytes) {}

  // Until our end is done, or the time is over.
  void Run() {
    while (!ours_.done() && Now() < end_) {
      MayNarrow();
      Receive();
      Send();
      Wait();
    }
  }
  const OurEnd& ours() const { return ours_; }
  // Whether the wire has done what it was asked to.
  bool was_bad() const {
    return (options_.flip == 0 || flipped_ != 0) &&
           (options_.narrow == 0 || too_big_ != 0);
  }
  double seconds() const {
    return static_cast<double>((Now() - start_).ns()) / 1e9;
  }

 private:
  // At most so many packets before our end may answer.
  static constexpr int kBurst = 64;

  void MayNarrow() {
    if (options_.narrow == 0 || narrowed_ ||
        ours_.moved() < (options_.up + options_.down) / 4) {
      return;
    }
    narrowed_ = true;
    URNIC_CHECK(tun_->SetMtu(options_.narrow));
  }
  // A router between our end and the wire. False: the packet goes no further.
  bool Routes(std::span<const uint8_t> packet, Time now) {
    if (!narrowed_ || packet.size() <= options_.narrow) return true;
    ++too_big_;
    if (options_.silent) return false;
    wire::Be<uint32_t> seq;
    std::memcpy(&seq, &packet[sizeof(wire::Ipv4) + offsetof(wire::Tcp, seq)],
                sizeof(seq));
    ours_.OnTooBig(options_.narrow, SeqNum(seq.value()), now);
    return false;
  }
  void MayFlip(std::span<uint8_t> packet) {
    if (options_.flip == 0 || random_.Below(options_.flip) != 0) return;
    ++flipped_;
    packet[random_.Below(packet.size())] ^=
        static_cast<uint8_t>(1 << random_.Below(8));
  }

  void Receive() {
    const Time now = Now();
    for (int i = 0; i < kBurst; ++i) {
      const size_t bytes = tun_->Read(std::span(buffer_).subspan(kLinkBytes));
      if (bytes == 0) break;
      const auto frame = std::span(buffer_).first(kLinkBytes + bytes);
      WriteLink(frame);
      MayFlip(frame.subspan(kLinkBytes));
      if (in_.Enter(now, frame)) Deliver(frame, now);
    }
    for (auto due = in_.Due(now); !due.empty(); due = in_.Due(now)) {
      Deliver(due, now);
      in_.Pop();
    }
  }
  void Deliver(std::span<const uint8_t> frame, Time now) {
    pcap_.Write(now, frame.subspan(kLinkBytes));
    ours_.OnFrame(frame, now);
    in_.OnDelivered(1);
  }
  void Send() {
    const Time now = Now();
    const auto pass = [&](std::span<const uint8_t> frame) {
      tun_->Write(frame.subspan(kLinkBytes));
      out_.OnDelivered(1);
    };
    ours_.OnTimer(now);
    ours_.Transmit(now, [&](std::span<uint8_t> frame) {
      if (!Routes(frame.subspan(kLinkBytes), now)) return;
      MayFlip(frame.subspan(kLinkBytes));
      pcap_.Write(now, frame.subspan(kLinkBytes));
      if (out_.Enter(now, frame)) pass(frame);
    });
    for (auto due = out_.Due(now); !due.empty(); due = out_.Due(now)) {
      pass(due);
      out_.Pop();
    }
  }
  void Wait() {
    const Time next =
        std::min({ours_.deadline(), in_.NextDue(), out_.NextDue(), end_});
    const Time now = Now();
    if (ours_.has_work() || ours_.done() || next <= now) return;
    const Duration wait = next - now;
    const timespec timeout = {wait.ns() / 1'000'000'000,
                              wait.ns() % 1'000'000'000};
    pollfd ready = {tun_->fd(), POLLIN, 0};
    ppoll(&ready, 1, &timeout, nullptr);
  }

  const Options& options_;
  Random random_;
  TunPort* const tun_;
  bool narrowed_ = false;
  uint64_t too_big_ = 0;
  uint64_t flipped_ = 0;
  const Time start_;
  const Time end_;
  impair::Line out_;
  impair::Line in_;
  PcapWriter pcap_;
  OurEnd ours_;
  std::vector<uint8_t> buffer_;
};

int Run(const Options& options) {
  impair::FaultSpec fault;
  if (!options.fault.empty()) {
    const auto parsed = impair::ParseFaultSpec(options.fault);
    if (!parsed.ok()) {
      std::fprintf(stderr, "%s\n", parsed.status().ToString().c_str());
      return kUsage;
    }
    fault = *parsed;
  }
  TunPort tun(kKernelAddress, options.mtu);
  if (!tun.error().empty()) {
    std::fprintf(stderr, "no TUN interface: %s\n", tun.error().c_str());
    return kSkipped;
  }
  for (const auto& [name, value] : options.sysctls) {
    std::ofstream("/proc/sys/net/ipv4/" + name) << value;
  }
  const bool connects = options.role == "client";
  KernelEnd kernel(connects ? 0 : kOurs, connects ? kPort : OurEnd::kOurPort,
                   options.down, options.up, options.seed);
  std::thread thread([&] { kernel.Run(); });
  Exchange exchange(options, fault.config, &tun);
  exchange.Run();
  const OurEnd& ours = exchange.ours();
  const double seconds = exchange.seconds();
  // The last bytes may still be in the kernel's socket.
  for (int i = 0; ours.done() && !kernel.done() && i < kGraceMs; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kernel.Stop();
  thread.join();
  std::printf("%s\nkernel: %s\nours: %s\n%.3f s, %.1f MB/s\n",
              ours.done() ? "ended" : "NOT ENDED in time",
              kernel.Report().c_str(), ours.Report().c_str(), seconds,
              static_cast<double>(options.up + options.down) / seconds / 1e6);
  if (!exchange.was_bad()) std::printf("the wire was better than asked\n");
  return kernel.ok() && ours.ok() && exchange.was_bad() ? 0 : 1;
}

}  // namespace
}  // namespace urnic::testing

int main(int argc, char** argv) {
  urnic::testing::Options options;
  if (!urnic::testing::Parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: see the head of against_kernel.cc\n");
    return 2;
  }
  return urnic::testing::Run(options);
}
