// Joins two kernel interfaces by an impaired wire (transport/impair): a cable
// between two network namespaces, for all traffic, including the kernel's.
//
//   impair_bridge IF_A IF_B SPEC_AB SPEC_BA
//
// A SPEC is as in transport/impair/fault_spec.h, without a direction; "" is a
// perfect wire. Prints "ready", then on SIGUSR1 and at its end (SIGTERM,
// SIGINT) a line of JSON: {"ab": {"offered": 1, ..}, "ba": {..}} with the
// counts of transport/impair/counts.h, and "missed": frames that the kernel
// dropped for lack of room before we saw them.
//
// Needs CAP_NET_RAW. The interfaces' offloads (checksums, TSO, GRO) must be
// off, because a wire carries the bytes of a frame and nothing else.

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <span>
#include <string>

#include "transport/impair/fault_spec.h"
#include "transport/impair/line.h"

namespace {

using urnic::Duration;
using urnic::Time;
using urnic::impair::FaultSpec;
using urnic::impair::Line;

constexpr uint32_t kFramesUnderWay = 16384;
constexpr uint32_t kFrameBytesMax = 9100;
constexpr size_t kVlanTagBytes = 4;
constexpr size_t kMacBytes = 12;
constexpr int kSocketBuffer = 16 << 20;
// The most frames of one side before the other side's turn.
constexpr int kBurst = 64;
// Between two looks, as a NIC moderates its interrupts. Frames are late by up
// to this, but half of the time of a fast wire would be spent on going to
// sleep, and the ends need the CPUs.
constexpr Duration kRest = Duration::Microseconds(30);
// When a side that accepted nothing is tried again.
constexpr Duration kTryAgain = Duration::Microseconds(100);

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "impair_bridge: %s\n", what.c_str());
  std::exit(2);
}

[[noreturn]] void DieOfErrno(const std::string& what) {
  Die(what + ": " + std::strerror(errno));
}

Time Now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Time::FromNs(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

// A packet socket on an interface. It receives only what arrives from the wire.
class Side {
 public:
  explicit Side(const char* name) : name_(name) {
    const unsigned index = if_nametoindex(name);
    if (index == 0) DieOfErrno(name_);
    // No protocol until it is bound, so that it receives nothing from other
    // interfaces.
    fd_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0) DieOfErrno("a packet socket");
    SetOption(SOL_SOCKET, SO_RCVBUFFORCE, kSocketBuffer);
    SetOption(SOL_SOCKET, SO_SNDBUFFORCE, kSocketBuffer);
    SetOption(SOL_PACKET, PACKET_AUXDATA, 1);
    SetOption(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    SetOption(SOL_PACKET, PACKET_QDISC_BYPASS, 1);
    packet_mreq all = {};
    all.mr_ifindex = static_cast<int>(index);
    all.mr_type = PACKET_MR_PROMISC;
    sockaddr_ll address = {};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(index);
    if (setsockopt(fd_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) !=
            0 ||
        bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      DieOfErrno(name_);
  }

  int fd() const { return fd_; }

  // The next frame, in `buffer`; empty: none. A VLAN tag that the kernel has
  // removed is put back.
  std::span<uint8_t> Receive(std::span<uint8_t> buffer) {
    iovec part = {buffer.data() + kVlanTagBytes, buffer.size() - kVlanTagBytes};
    alignas(cmsghdr) std::array<uint8_t, 256> control;
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(fd_, &message, MSG_TRUNC);
    if (got <= 0) return {};
    const auto bytes = static_cast<size_t>(got);
    if (bytes > part.iov_len)
      Die(name_ + ": a frame of " + std::to_string(bytes) +
          " bytes: its offloads (GRO, TSO) must be off");
    uint8_t* const frame = buffer.data() + kVlanTagBytes;
    const tpacket_auxdata* tag = FindAuxdata(message);
    if (tag == nullptr || (tag->tp_status & TP_STATUS_VLAN_VALID) == 0)
      return {frame, bytes};
    std::memmove(buffer.data(), frame, kMacBytes);
    const uint16_t type = (tag->tp_status & TP_STATUS_VLAN_TPID_VALID) != 0
                              ? tag->tp_vlan_tpid
                              : uint16_t{ETH_P_8021Q};
    const uint16_t words[] = {htons(type), htons(tag->tp_vlan_tci)};
    std::memcpy(buffer.data() + kMacBytes, words, sizeof(words));
    return {buffer.data(), bytes + kVlanTagBytes};
  }

  // False: there is no room now. `line` counts frames that the interface
  // refuses.
  bool Send(std::span<const uint8_t> frame, Line& line) {
    if (send(fd_, frame.data(), frame.size(), 0) >= 0) {
      line.OnDelivered(1);
      return true;
    }
    if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) return false;
    line.OnFailed(1);  // down, or the frame is longer than its MTU
    return true;
  }

  // Frames that the kernel dropped because we did not read them in time.
  uint64_t missed() {
    tpacket_stats stats = {};
    socklen_t size = sizeof(stats);
    getsockopt(fd_, SOL_PACKET, PACKET_STATISTICS, &stats, &size);
    missed_ += stats.tp_drops;  // since the last call
    return missed_;
  }

 private:
  void SetOption(int level, int option, int value) {
    if (setsockopt(fd_, level, option, &value, sizeof(value)) != 0)
      DieOfErrno(name_ + ": socket option " + std::to_string(option));
  }

  static const tpacket_auxdata* FindAuxdata(msghdr& message) {
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr;
         c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA)
        return reinterpret_cast<const tpacket_auxdata*>(CMSG_DATA(c));
    }
    return nullptr;
  }

  std::string name_;
  int fd_ = -1;
  uint64_t missed_ = 0;
};

// One direction.
class Way {
 public:
  Way(Side& from, Side& to, const char* spec, uint64_t number)
      : from_(from),
        to_(to),
        spec_(Parse(spec)),
        line_(spec_.config, 2 * spec_.seed + number, Now(), kFramesUnderWay,
              kFrameBytesMax) {}

  // Sends the frames that are due. Returns when to call it again.
  Time Pump() {
    const Time now = Now();
    for (auto frame = line_.Due(now); !frame.empty(); frame = line_.Due(now)) {
      if (!to_.Send(frame, line_)) return now + kTryAgain;
      line_.Pop();
    }
    return line_.NextDue();
  }

  void Receive() {
    for (int i = 0; i < kBurst; ++i) {
      const std::span<uint8_t> frame = from_.Receive(buffer_);
      if (frame.empty()) return;
      const Time now = Now();
      if (!line_.Enter(now, frame)) continue;
      if (!to_.Send(frame, line_)) line_.TakeBack(now, frame);
    }
  }

  std::string Json() {
    const urnic::impair::CountValues counts = line_.Read();
    std::string text = "{";
    for (size_t i = 0; i < urnic::impair::kCounts; ++i) {
      text += '"' + std::string(urnic::impair::kCountNames[i]) +
              "\": " + std::to_string(counts.values[i]) + ", ";
    }
    return text + "\"under_way\": " + std::to_string(line_.under_way()) +
           ", \"missed\": " + std::to_string(from_.missed()) + "}";
  }

 private:
  static FaultSpec Parse(const char* text) {
    if (*text == '\0') return {};
    const auto spec = urnic::impair::ParseFaultSpec(text);
    if (!spec.ok()) Die(std::string(spec.status().message()));
    if (spec->direction != urnic::impair::Direction::kBoth)
      Die("direction= is for ports: the bridge has a SPEC for either way");
    return *spec;
  }

  Side& from_;
  Side& to_;
  const FaultSpec spec_;
  Line line_;
  std::array<uint8_t, kFrameBytesMax> buffer_;
};

volatile sig_atomic_t g_report = 0;
volatile sig_atomic_t g_end = 0;

void OnSignal(int number) {
  g_report = 1;
  if (number != SIGUSR1) g_end = 1;
}

// Signals arrive only inside ppoll(), with the mask that is returned.
sigset_t CatchSignals() {
  sigset_t ours;
  sigset_t before;
  sigemptyset(&ours);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) {
    sigaddset(&ours, number);
    sigaction(number, &action, nullptr);
  }
  sigprocmask(SIG_BLOCK, &ours, &before);
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) {
    sigdelset(&before, number);
  }
  return before;
}

void Wait(const Side& a, const Side& b, Time until, const sigset_t& mask) {
  pollfd fds[] = {{a.fd(), POLLIN, 0}, {b.fd(), POLLIN, 0}};
  const int64_t ns = std::max<int64_t>((until - Now()).ns(), 0);
  const timespec timeout = {ns / 1'000'000'000, ns % 1'000'000'000};
  ppoll(fds, 2, until.IsInfinite() ? nullptr : &timeout, &mask);
}

void Rest() {
  const timespec time = {0, kRest.ns()};
  nanosleep(&time, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) Die("usage: impair_bridge IF_A IF_B SPEC_AB SPEC_BA");
  prctl(PR_SET_TIMERSLACK, 1);  // due frames should not wait another 50 us
  const sigset_t mask = CatchSignals();
  Side a(argv[1]);
  Side b(argv[2]);
  static Way ab(a, b, argv[3], 0);
  static Way ba(b, a, argv[4], 1);
  std::puts("ready");
  std::fflush(stdout);
  while (g_end == 0) {
    const Time due = std::min(ab.Pump(), ba.Pump());
    Rest();
    Wait(a, b, due, mask);
    ab.Receive();
    ba.Receive();
    if (g_report == 0) continue;
    g_report = 0;
    std::printf("{\"ab\": %s, \"ba\": %s}\n", ab.Json().c_str(),
                ba.Json().c_str());
    std::fflush(stdout);
  }
  return 0;
}
