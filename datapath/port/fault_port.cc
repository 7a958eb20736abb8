#include "datapath/port/fault_port.h"

#include <rte_mbuf.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/guest/eal.h"
#include "datapath/guest/give_way.h"
#include "datapath/guest/monotonic_clock.h"
#include "ras/errors/refusal.h"
#include "verbs/libc/high_fd.h"

namespace urnic {
namespace {

// How soon a full port is tried again, because it does not report when it has
// room.
constexpr Duration kTryAgain = Duration::Milliseconds(1);

std::span<uint8_t> Bytes(rte_mbuf* frame) {
  return {rte_pktmbuf_mtod(frame, uint8_t*), frame->data_len};
}

std::unique_ptr<impair::Line> MakeLine(const impair::FaultSpec& spec,
                                       impair::Direction direction, Time start,
                                       const Port& port) {
  if (spec.direction != impair::Direction::kBoth &&
      spec.direction != direction) {
    return nullptr;
  }
  const uint64_t seed =
      2 * spec.seed + (direction == impair::Direction::kIn ? 1 : 0);
  return std::make_unique<impair::Line>(
      spec.config, seed, start, FaultPort::kFramesUnderWay,
      uint32_t{port.mtu()} + kL2HeaderBytesMax);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FaultPort>> FaultPort::Create(
    std::unique_ptr<Port> port, const impair::FaultSpec& spec, std::string note,
    Clock clock) {
  std::unique_ptr<FaultPort> faulty(
      new FaultPort(std::move(port), spec, std::move(note), clock));
  if (faulty->OpenDescriptors()) return faulty;
  return Refusal(ErrorCode::kNoDescriptors,
                 absl::StrCat("no timer for the faults of the port: ",
                              std::strerror(errno)));
}

FaultPort::FaultPort(std::unique_ptr<Port> port, const impair::FaultSpec& spec,
                     std::string note, Clock clock)
    : WrappedPort(std::move(port)),
      note_(std::move(note)),
      clock_(clock),
      device_faults_(spec.device),
      start_(clock()),
      out_(MakeLine(spec, impair::Direction::kOut, clock(), *port_)),
      in_(MakeLine(spec, impair::Direction::kIn, clock(), *port_)) {}

bool FaultPort::OpenDescriptors() {
  timer_fd_ = urnic_move_fd_high(
      timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  wait_fd_ = urnic_move_fd_high(epoll_create1(EPOLL_CLOEXEC));
  if (timer_fd_ < 0 || wait_fd_ < 0) return false;
  for (const int fd : {timer_fd_, port_->wait_fd()}) {
    epoll_event event = {.events = EPOLLIN, .data = {}};
    if (fd >= 0 && epoll_ctl(wait_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
      return false;
    }
  }
  return true;
}

FaultPort::~FaultPort() {
  if (EalUsable()) {
    TakeLcore(lcore_);
    const Time end = last_given_ + kLastFrames;
    while (frames_held() != 0 && MonotonicNow() < end) {
      const Time now = clock_();
      SendDue(now);
      Finish(now);
      GiveWay();
    }
    rte_pktmbuf_free_bulk(ready_ + ready_first_, ready_count_);
    ReleaseLcore();
  }
  if (wait_fd_ >= 0) close(wait_fd_);
  if (timer_fd_ >= 0) close(timer_fd_);
}

uint16_t FaultPort::TakeDue(impair::Line& line, Time now, rte_mbuf** out,
                            uint16_t max) {
  uint16_t n = 0;
  for (; n < max; ++n) {
    const std::span<const uint8_t> due = line.Due(now);
    if (due.empty()) break;
    // Without a buffer it waits for the next call.
    rte_mbuf* frame = rte_pktmbuf_alloc(pool_);
    if (frame == nullptr) break;
    const auto bytes = static_cast<uint16_t>(due.size());
    std::memcpy(rte_pktmbuf_append(frame, bytes), due.data(), bytes);
    line.Pop();
    out[n] = frame;
  }
  return n;
}

uint16_t FaultPort::ReceiveThrough(Time now, rte_mbuf** out, uint16_t max) {
  uint16_t n = TakeDue(*in_, now, out, max);
  if (n < max && in_->NextDue() > now) {
    rte_mbuf* got[kBurstMax];
    const uint16_t count =
        port_->Receive(got, std::min<uint16_t>(max - n, kBurstMax));
    for (uint16_t i = 0; i < count; ++i) {
      // The driver has checked the frame before the wire has.
      got[i]->ol_flags &= ~RTE_MBUF_F_RX_L4_CKSUM_MASK;
      if (in_->Enter(now, Bytes(got[i]))) {
        out[n++] = got[i];
      } else {
        rte_pktmbuf_free(got[i]);
      }
    }
  }
  in_->OnDelivered(n);
  return n;
}

bool FaultPort::IsIn(const impair::Spell& spell, Time now) const {
  const Duration age = now - start_;
  return spell.Covers(age) && *spell.LastBegin(age) >= replaced_at_;
}

bool FaultPort::ReplaceDevice(const char* why) {
  if (!port_->ReplaceDevice(why)) return false;
  replaced_at_ = clock_() - start_;
  return true;
}

uint16_t FaultPort::Receive(rte_mbuf** out, uint16_t max) {
  const Time now = clock_();
  if (IsIn(device_faults_.frozen, now)) return 0;
  if (out_ != nullptr) SendDue(now);
  const uint16_t n =
      in_ == nullptr ? port_->Receive(out, max) : ReceiveThrough(now, out, max);
  Finish(now);
  return n;
}

void FaultPort::SendDue(Time now) {
  for (;;) {
    if (ready_count_ == 0) {
      ready_first_ = 0;
      ready_count_ = TakeDue(*out_, now, ready_, kBurstMax);
      if (ready_count_ == 0) return;
    }
    const uint16_t sent = port_->Transmit(ready_ + ready_first_, ready_count_);
    out_->OnDelivered(sent);
    ready_first_ += sent;
    ready_count_ -= sent;
    if (ready_count_ != 0) return;
  }
}

uint16_t FaultPort::Transmit(rte_mbuf** packets, uint16_t count) {
  const Time now = clock_();
  if (IsIn(device_faults_.frozen, now) || IsIn(device_faults_.stuck, now)) {
    return 0;
  }
  if (out_ == nullptr) return port_->Transmit(packets, count);
  last_given_ = MonotonicNow();
  SendDue(now);
  // While the port below is full, the caller keeps its frames.
  const uint16_t taken =
      IsBlocked(now) ? 0 : std::min<uint16_t>(count, kBurstMax);
  rte_mbuf* passing[kBurstMax];
  uint16_t n = 0;
  for (uint16_t i = 0; i < taken; ++i) {
    if (out_->Enter(now, Bytes(packets[i]))) {
      passing[n++] = packets[i];
    } else {
      rte_pktmbuf_free(packets[i]);
    }
  }
  const uint16_t sent = n == 0 ? 0 : port_->Transmit(passing, n);
  out_->OnDelivered(sent);
  for (uint16_t i = sent; i < n; ++i) {
    out_->TakeBack(now, Bytes(passing[i]));
    rte_pktmbuf_free(passing[i]);
  }
  Finish(now);
  return taken;
}

void FaultPort::Finish(Time now) {
  if (out_ != nullptr) {
    held_.store(out_->under_way() + ready_count_, std::memory_order_relaxed);
  }
  if (!armed_) return;
  Time next = in_ == nullptr ? Time::Infinite() : in_->NextDue();
  if (out_ != nullptr) {
    next = std::min(next, IsBlocked(now) ? now + kTryAgain : out_->NextDue());
  }
  SetTimer(next);
}

void FaultPort::SetTimer(Time when) {
  if (when == timer_) return;
  timer_ = when;
  itimerspec spec = {};
  if (!when.IsInfinite()) {  // 0 would be "never"
    const int64_t ns = std::max<int64_t>(when.ns(), 1);
    spec.it_value = {.tv_sec = ns / 1'000'000'000,
                     .tv_nsec = ns % 1'000'000'000};
  }
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &spec, nullptr);
}

bool FaultPort::ArmWakeup() {
  armed_ = true;
  const bool can_wake = port_->ArmWakeup();
  Finish(clock_());
  return can_wake;
}

void FaultPort::DisarmWakeup() {
  armed_ = false;
  SetTimer(Time::Infinite());
  port_->DisarmWakeup();
}

FaultCounts FaultPort::fault_counts() const {
  FaultCounts counts;
  if (out_ != nullptr) counts.out = out_->Read();
  if (in_ != nullptr) counts.in = in_->Read();
  return counts;
}

PortInfo FaultPort::info() const {
  PortInfo info = port_->info();
  info.text = WithNote(info.text, note_);
  return info;
}

std::string FaultPort::WithNote(const std::string& text,
                                const std::string& note) {
  return text.empty() ? text : absl::StrCat(text, "; ", note);
}

}  // namespace urnic
