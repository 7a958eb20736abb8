#include "verbs/control/recovery.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/guest/engine_thread.h"
#include "datapath/port/port.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/open_nic.h"
#include "verbs/libc/high_fd.h"

namespace urnic::control {
namespace {

constexpr char kVariable[] = "URNIC_RECOVERY";
constexpr Duration kBound = Duration::Seconds(10);
constexpr uint32_t kVersion = 1;
// How often a failed device is checked.
constexpr Duration kStep = Duration::Milliseconds(20);

Duration ChosenBound() {
  Duration bound = kBound;
  const char* const chosen = std::getenv(kVariable);
  std::string mistake;
  if (chosen != nullptr && !ParseRecoveryBound(chosen, bound, mistake))
    ComplainLoudly(absl::StrCat(kVariable, ": ", mistake));
  return bound;
}

// Allocates a page of its own, which a dump or a debugger finds by its mark.
urnic_mailbox* NewMailbox() {
  void* const page = mmap(nullptr, sizeof(urnic_mailbox),
                          PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                          /*fd=*/-1, /*offset=*/0);
  URNIC_CHECK(page != MAP_FAILED);
  auto* const mailbox = static_cast<urnic_mailbox*>(page);
  std::memcpy(mailbox->mark, URNIC_MAILBOX_MARK, sizeof(mailbox->mark));
  mailbox->version = kVersion;
  return mailbox;
}

// "3 queue pairs failed and must be destroyed or reset: urnic0 17, 18, iwurnic0
// 2".
std::string ListText(
    const std::vector<std::pair<std::string, uint32_t>>& failed) {
  constexpr size_t kMost = 16;
  std::string text = absl::StrCat(
      failed.size(), failed.size() == 1 ? " queue pair" : " queue pairs",
      " failed and must be destroyed or reset:");
  std::string device;
  for (size_t i = 0; i < std::min(failed.size(), kMost); ++i) {
    if (failed[i].first != device) {
      device = failed[i].first;
      absl::StrAppend(&text, i == 0 ? " " : ", ", device, " ");
    } else {
      absl::StrAppend(&text, ", ");
    }
    absl::StrAppend(&text, failed[i].second);
  }
  if (failed.size() > kMost)
    absl::StrAppend(&text, ", and ", failed.size() - kMost, " more");
  return text;
}

}  // namespace

bool ParseRecoveryBound(std::string_view text, Duration& bound,
                        std::string& mistake) {
  constexpr std::string_view kWord = "bound:";
  constexpr uint32_t kMostS = 86'400;
  std::string_view rest = text;
  const bool starts = rest.starts_with(kWord);
  if (starts) rest.remove_prefix(kWord.size());
  const bool is_ms = rest.ends_with("ms");
  const bool is_s = !is_ms && rest.ends_with("s");
  rest.remove_suffix(is_ms ? 2 : is_s ? 1 : 0);
  uint32_t number = 0;
  if (!starts || !(is_ms || is_s) ||
      !absl::SimpleAtoi({rest.data(), rest.size()}, &number) ||
      number > (is_ms ? kMostS * 1000 : kMostS)) {
    mistake = absl::StrCat("\"", std::string(text),
                           "\" is wrong: write bound:TIME, as in bound:10s or "
                           "bound:500ms, at most 86400s; bound:10s is used");
    return false;
  }
  bound = is_ms ? Duration::Milliseconds(number) : Duration::Seconds(number);
  return true;
}

void Recovery::FreePage::operator()(urnic_mailbox* page) const {
  munmap(page, sizeof(*page));
}

Recovery::Recovery(OpenNic& nic)
    : nic_(nic),
      bound_(ChosenBound()),
      mailbox_(NewMailbox()),
      wake_fd_(urnic_move_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {}

Recovery::~Recovery() {
  stop_.store(true);
  Wake();
  if (thread_.joinable()) thread_.join();
  if (wake_fd_ >= 0) close(wake_fd_);
}

void Recovery::OnPort(const PortInfo& info) {
  Link link = Link::kUp;
  if (info.state == PortState::kRemoved) link = Link::kRemoved;
  if (info.state == PortState::kLinkDown || info.state == PortState::kFailed)
    link = Link::kDown;
  std::lock_guard lock(mutex_);
  was_up_ |= info.state == PortState::kUp;
  const Link before = link_.load();
  if (link == before || !was_up_) return;
  // A removed interface stays "removed", even if the next attempt to open it
  // fails for another reason.
  if (before == Link::kRemoved && link == Link::kDown) return;
  why_ = info.text;
  if (before == Link::kUp) down_since_ns_.store(nic_.engine().Now().ns());
  link_.store(link);
  {
    Engine::ControlScope scope(nic_.engine());
    nic_.engine().SetOutage(link != Link::kUp);
  }
  Wake();
  if (link == Link::kUp || runs_) return;
  if (thread_.joinable()) thread_.join();  // it has ended
  auto thread = StartEngineThread("urnic-recovery", [this] { Run(); });
  if (!thread.has_value()) {
    DebugLog(
        absl::StrCat(nic_.name(),
                     ": the recovery thread cannot start (limit of threads?): "
                     "if the port stays down, the device does not fail"));
    return;
  }
  runs_ = true;
  thread_ = *std::move(thread);
}

absl::Status Recovery::CheckWorks() const {
  if (works()) return absl::OkStatus();
  return Refusal(ErrorCode::kRecovering,
                 absl::StrCat(nic_.name(),
                              " has failed: destroy its failed queue pairs, "
                              "and wait for IBV_EVENT_PORT_ACTIVE"));
}

std::optional<Recovery::Outage> Recovery::outage() const {
  std::lock_guard lock(mutex_);
  const Link link = link_.load();
  if (link == Link::kUp) return std::nullopt;
  const Time since = Time::FromNs(down_since_ns_.load());
  Outage outage = {.since = since, .fails_in = std::nullopt};
  if (runs_ && works()) {
    outage.fails_in =
        link == Link::kRemoved
            ? Duration()
            : std::max(bound_ - (nic_.engine().Now() - since), Duration());
  }
  return outage;
}

std::string Recovery::AwaitedText() const {
  if (works()) return "";
  if (link_.load() != Link::kUp)
    return "the device failed, and waits until its port is back";
  const size_t count = failed_qps_.load();
  return absl::StrCat(
      "the device failed, and waits until the program has destroyed or reset ",
      count == 0 ? std::string("its queue pairs")
                 : absl::StrCat(count, " queue pair", count == 1 ? "" : "s"));
}

void Recovery::SetState(urnic_device_state state) {
  std::atomic_ref(mailbox_->state).store(state, std::memory_order_release);
}

void Recovery::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

void Recovery::SleepFor(Duration most) const {
  constexpr int64_t kMsMost = 60'000;
  pollfd wake = {wake_fd_, POLLIN, 0};
  const int64_t ms = std::min(most.ns() / 1'000'000 + 1, kMsMost);
  if (poll(&wake, 1, static_cast<int>(ms)) <= 0) return;
  uint64_t wakes;
  (void)!read(wake_fd_, &wakes, sizeof(wakes));
}

void Recovery::Run() {
  while (!stop_.load()) {
    if (IsDownForLong()) {
      Fail();
      AwaitRecovered();
    }
    std::lock_guard lock(mutex_);
    if (stop_.load() || link_.load() != Link::kUp) continue;
    runs_ = false;
    return;
  }
}

bool Recovery::IsDownForLong() const {
  while (!stop_.load()) {
    const Link link = link_.load();
    if (link == Link::kUp) return false;
    if (link == Link::kRemoved) return true;
    const Time end = Time::FromNs(down_since_ns_.load()) + bound_;
    const Duration left = end - nic_.engine().Now();
    if (left <= Duration()) return true;
    SleepFor(left);
  }
  return false;
}

void Recovery::Fail() {
  std::string why;
  {
    std::lock_guard lock(mutex_);
    why = why_;
  }
  nic_.KeepDump([&](const std::string& path) {
    if (!path.empty()) absl::StrAppend(&why, "; dump: ", path);
    nic_.NoteOfPort(ErrorCode::kDeviceFatal, why);
    ComplainLoudly(absl::StrCat(nic_.name(), ": ",
                                ErrorName(ErrorCode::kDeviceFatal),
                                ": the device failed: ", why));
  });
  mailbox_->code = static_cast<uint32_t>(ErrorCode::kDeviceFatal);
  mailbox_->at_ns = static_cast<uint64_t>(nic_.engine().Now().ns());
  ++mailbox_->failures;
  // This comes first, so that no new requests are posted.
  SetState(URNIC_DEVICE_FAILS);
  nic_.OnDeviceFailed();
  SetState(URNIC_DEVICE_FAILED);
}

void Recovery::AwaitRecovered() {
  // How long the number of failed queue pairs may stay the same.
  const Duration patience = std::max(bound_, Duration::Seconds(1));
  Time progress_at;
  std::string told;
  uint64_t offence = 0;
  const auto forget = [&] {
    if (offence != 0) nic_.offenders().Remove(std::exchange(offence, 0));
    told.clear();
  };
  size_t fewest = SIZE_MAX;
  for (; !stop_.load(); SleepFor(kStep)) {
    // A connection may have been made while the others failed.
    nic_.FailBusyQps();
    if (link_.load() != Link::kUp) {
      forget();
      fewest = SIZE_MAX;
      continue;
    }
    const auto failed = nic_.BusyQps();
    failed_qps_.store(failed.size());
    if (failed.empty()) break;
    if (failed.size() < fewest) {
      fewest = failed.size();
      progress_at = nic_.engine().Now();
    }
    if (nic_.engine().Now() - progress_at < patience) continue;
    const std::string what = ListText(failed);
    if (what == told) continue;
    if (told.empty()) nic_.NoteBlocked(failed, what);
    forget();
    told = what;
    offence = nic_.offenders().Add(Offence::kRecovery, what);
  }
  forget();
  if (stop_.load()) return;
  SetState(URNIC_DEVICE_WORKS);
  nic_.OnDeviceRecovered();
}

}  // namespace urnic::control
