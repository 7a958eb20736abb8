#include "datapath/engine/helper_thread.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/guest/engine_thread.h"
#include "datapath/guest/give_way.h"
#include "ras/errors/refusal.h"

namespace urnic {

namespace {

// Polls closer together than kPollGap belong to one run of polling. A run as
// long as kPollRun means that the program waits by polling.
constexpr Duration kPollGap = Duration::Microseconds(5);
constexpr Duration kPollRun = Duration::Microseconds(50);
// If the helper listens to the port, watching costs no frame its time: then a
// short run is enough, and the frames that the program takes itself wake
// nobody.
constexpr Duration kPollRunListening = Duration::Microseconds(3);
// How often a watching helper checks.
constexpr Duration kLookFirst = Duration::Microseconds(200);
constexpr Duration kLookLast = Duration::Milliseconds(1);
// The longest sleep of an active helper on a port that wakes it, and on one
// that cannot.
constexpr Duration kSleepWoken = Duration::Milliseconds(100);
constexpr Duration kSleepPolled = Duration::Milliseconds(1);
// kSleepPolled when nothing has happened for kIdle: an idle RNIC then costs
// less than 1 % of a core (measured on memif: 2 % at 1 ms). This is still
// within the delay that local_ca_ack_delay announces.
constexpr Duration kSleepPolledIdle = Duration::Milliseconds(3);
constexpr Duration kIdle = Duration::Seconds(1);
// Directly after traffic an answer of the peer is likely: the set-up of a
// connection takes three messages.
constexpr Duration kSleepPolledFresh = Duration::Microseconds(100);
constexpr Duration kFresh = Duration::Milliseconds(5);

// How often the helper yields to a holder of the token before it waits longer.
constexpr int kRefusalsBeforeWait = 4;

Duration PolledSleep(Duration since_work) {
  if (since_work < kFresh) return kSleepPolledFresh;
  return since_work < kIdle ? kSleepPolled : kSleepPolledIdle;
}

int CpusInMask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return 1;
  return CPU_COUNT(&mask);
}

}  // namespace

absl::Status HelperThread::Start(Engine& engine) {
  const int fd = Sleeper::MakeEventFd();
  if (fd < 0) {
    return Refusal(
        ErrorCode::kNoDescriptors,
        absl::StrCat("no eventfd for the helper thread: ", strerror(errno)));
  }
  std::unique_ptr<HelperThread> helper(new HelperThread(engine, fd));
  auto thread =
      StartEngineThread("urnic-helper", [it = helper.get()] { it->Run(); });
  if (!thread.has_value()) {
    return Refusal(ErrorCode::kNoDescriptors,
                   "cannot create the helper thread");
  }
  helper->thread_ = *std::move(thread);
  engine.RunBy(std::move(helper));
  return absl::OkStatus();
}

HelperThread::HelperThread(Engine& engine, int event_fd)
    : Runner(/*active=*/false),
      engine_(engine),
      sleeper_(event_fd),
      spin_(/*alone=*/CpusInMask() > 1) {}

HelperThread::~HelperThread() {
  stop_.store(true);
  sleeper_.Wake();
  if (thread_.joinable()) thread_.join();
}

void HelperThread::TakeOver() {
  hand_over_.store(true, std::memory_order_release);
  sleeper_.Wake();
}

void HelperThread::OnProgramPoll(Time now, bool leaves) {
  polls_.store(polls_.load(std::memory_order_relaxed) + 1,
               std::memory_order_relaxed);
  if (!active()) {
    if (__builtin_expect(listen_.listens(), 0)) Listen(leaves);
    return;
  }
  if (now - last_poll_ > kPollGap) poll_run_start_ = now;
  last_poll_ = now;
  const Duration run = listen_.listens() ? kPollRunListening : kPollRun;
  if (now - poll_run_start_ < run) return;
  SetActive(false);
  Disarm();
  if (sleeper_.asleep()) sleeper_.Wake();
}

void HelperThread::Listen(bool leaves) {
  switch (listen_.OnPoll(leaves, armed_)) {
    case ListenPolicy::Act::kNothing:
      break;
    case ListenPolicy::Act::kArm:
      if (!port_wakes_) break;
      armed_ = port_wakes_ = engine_.port().ArmWakeup();
      // Frames that arrived before the port was armed raise no wake-up.
      engine_.AskForAnotherLook();
      break;
    case ListenPolicy::Act::kDisarm:
      Disarm();
      break;
  }
}

void HelperThread::Disarm() {
  if (!armed_) return;
  armed_ = false;
  engine_.port().DisarmWakeup();
}

bool HelperThread::Wait(int64_t timeout_ns, int port_fd) {
  pollfd fds[2] = {{sleeper_.fd(), POLLIN, 0}, {port_fd, POLLIN, 0}};
  const timespec timeout{timeout_ns / 1000000000, timeout_ns % 1000000000};
  const int ready = ppoll(fds, port_fd >= 0 ? 2 : 1, &timeout, nullptr);
  if (ready > 0 && fds[0].revents != 0) sleeper_.Clear();
  return ready > 0 && fds[1].revents != 0;
}

uint64_t HelperThread::packets_accepted() const {
  return engine_.counters().verdicts[static_cast<size_t>(RxVerdict::kAccept)];
}

void HelperThread::Run() {
  MakePrompt();
  while (!stop_.load()) Serve(Watch());
}

HelperThread::Cause HelperThread::Watch() {
  Cause cause = Cause::kAsked;
  uint64_t seen = UINT64_MAX;
  Duration look = kLookFirst;
  while (!stop_.load() && !hand_over_.exchange(false)) {
    const uint64_t polls = polls_.load(std::memory_order_relaxed);
    if (polls == seen) {
      cause = Cause::kNoPoll;
      break;
    }
    seen = polls;
    const bool listens = listen_.listens();
    if (Wait(look.ns(), listens ? engine_.port().wait_fd() : -1)) {
      cause = Cause::kWoken;
      break;
    }
    if (!listens) look = std::min(look * 2, kLookLast);
  }
  SetActive(true);
  return cause;
}

void HelperThread::Serve(Cause cause) {
  Time last_work = engine_.Now();
  Time last_look = last_work;
  int refusals = 0;
  while (!stop_.load() && active()) {
    bool worked = false;
    const bool mine = engine_.TakeTurn([&](Engine::Turn& turn) {
      sleeper_.Awake();
      const Cause first = std::exchange(cause, Cause::kAsked);
      const uint64_t before = packets_accepted();
      worked |= Iterate(turn);
      const uint64_t packets = packets_accepted() - before;
      if (first == Cause::kNoPoll) {
        engine_.mutable_counters()->packets_found_late += packets;
        listen_.OnLook(packets);
      }
      if (first == Cause::kWoken) listen_.OnWoken(packets);
      if (spin_.spinning()) Disarm();
    });
    if (!mine) {
      // This thread may have preempted the holder. Ask the holder to look once
      // more before it releases the token, and yield the CPU to it.
      engine_.AskForAnotherLook();
      if (++refusals < kRefusalsBeforeWait) {
        GiveWay();
      } else {
        refusals = 0;
        Wait(kLookFirst.ns(), -1);
      }
      last_look = engine_.Now();
      continue;
    }
    refusals = 0;
    const Time now = engine_.Now();
    if (worked) {
      last_work = last_look = now;
      continue;
    }
    if (spin_.MaySpin(now, std::exchange(last_look, now), last_work)) continue;
    const bool slept = Sleep(PolledSleep(now - last_work));
    last_look = engine_.Now();
    // A wake-up does not count as work. Otherwise the helper would spin every
    // millisecond on a port that is checked every millisecond.
    if (slept) {
      spin_.OnSlept(last_look - now, /*polled=*/!can_be_woken_);
    } else {
      last_work = last_look;
    }
  }
}

bool HelperThread::Iterate(Engine::Turn& turn) {
  const uint64_t before = engine_.counters().rx_packets;
  const bool worked = turn.Iterate();
  spin_.OnPackets(engine_.counters().rx_packets - before);
  return worked;
}

bool HelperThread::Sleep(Duration polled) {
  bool worked = false;
  Time wake;
  const bool mine = engine_.TakeTurn([&](Engine::Turn& turn) {
    armed_ = port_wakes_ = engine_.port().ArmWakeup();
    // Frames that arrived before the port was armed raise no wake-up: look once
    // more.
    worked |= Iterate(turn);
    const Time now = engine_.Now();
    // If the port is blocked: no wake-up says that the peer fetches again.
    can_be_woken_ =
        (armed_ || engine_.port().wait_fd() < 0) && !turn.PortBlocked();
    wake = std::min(now + (can_be_woken_ ? kSleepWoken : polled),
                    turn.NextDeadline());
    sleeper_.FallAsleep(wake);
  });
  // If a program thread is inside, TakeTurn() ran nothing: try again.
  if (!mine || worked) return false;
  const int64_t timeout = (wake - engine_.Now()).ns();
  if (timeout > 0) Wait(timeout, engine_.port().wait_fd());
  return true;
}

}  // namespace urnic
