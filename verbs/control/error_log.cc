#include "verbs/control/error_log.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/environment.h"
#include "datapath/guest/engine_thread.h"
#include "ras/errors/error_code.h"
#include "transport/base/check.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/limits.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/owner.h"
#include "verbs/control/ring_facts.h"
#include "verbs/control/wall_time.h"
#include "verbs/libc/high_fd.h"

namespace urnic::control {
namespace {

constexpr char kVariable[] = "URNIC_LOG";

}  // namespace

void ErrorLog::FindPlaces() {
  const char* const chosen = std::getenv(kVariable);
  if (chosen == nullptr) return;
  for (const std::string& text : std::vector<std::string>(
           absl::StrSplit(chosen, ',', absl::SkipEmpty()))) {
    auto target = MakeLogTarget(text);
    if (!target.ok()) {
      ComplainLoudly(absl::StrCat(kVariable, ": ", target.status().message(),
                                  "; it is left out"));
      continue;
    }
    Place& place = places_.emplace_back(text, *std::move(target));
    if (const int error = place.target->Check()) TellOf(place, error);
  }
}

void ErrorLog::TellOf(Place& place, int error) const {
  if (std::exchange(place.told, true)) return;
  ComplainLoudly(absl::StrCat(nic_.name(), ": ", kVariable, "=", place.name,
                              ": ", std::strerror(error),
                              "; errors are lost there (urnic show error has "
                              "the last ones)"));
}

std::unique_ptr<ErrorLog> ErrorLog::Start(OpenNic& nic) {
  std::unique_ptr<ErrorLog> log(new ErrorLog(nic));
  log->FindPlaces();
  if (log->places_.empty()) return nullptr;
  if (log->StartThread()) return log;
  ComplainLoudly(absl::StrCat(nic.name(), ": ", kVariable,
                              ": cannot create a thread; errors are not "
                              "written"));
  return nullptr;
}

bool ErrorLog::StartThread() {
  wake_fd_ = urnic_move_fd_high(eventfd(0, EFD_CLOEXEC));
  if (wake_fd_ < 0) return false;
  auto thread = StartEngineThread("urnic-log", [this] { Run(); });
  if (!thread.has_value()) return false;
  thread_ = *std::move(thread);
  Engine::ControlScope scope(nic_.engine());
  nic_.engine().failures().Watch(this, [this] { Wake(); });
  return true;
}

ErrorLog::~ErrorLog() {
  if (thread_.joinable()) {
    {
      Engine::ControlScope scope(nic_.engine());
      nic_.engine().failures().Unwatch(this);
    }
    stop_.store(true);
    Wake();
    thread_.join();
  }
  if (wake_fd_ >= 0) close(wake_fd_);
}

void ErrorLog::Wake() {
  asked_.fetch_add(1);
  const int saved = errno;
  const uint64_t one = 1;
  while (write(wake_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  errno = saved;
}

void ErrorLog::Run() {
  for (bool last = false; !last;) {
    uint64_t wakes;
    if (read(wake_fd_, &wakes, sizeof(wakes)) < 0 && errno != EINTR) return;
    last = stop_.load();
    const uint64_t asked = asked_.load();
    WriteNew();
    written_.store(asked);
  }
}

void ErrorLog::WriteNew() {
  // How many are described while the engine waits.
  constexpr size_t kStep = 32;
  for (bool more = true; more;) {
    std::string lines;
    uint64_t lost = 0;
    {
      Engine::ControlScope scope(nic_.engine());
      const Failures& failures = nic_.engine().failures();
      lost = failures.oldest() - std::min(failures.oldest(), next_);
      next_ += lost;
      more = failures
                 .Visit(next_, kStep,
                        [&](const Failure& failure) {
                          DescribeError(failure, nic_, lines);
                          ++next_;
                        })
                 .has_value();
    }
    if (lost != 0) TellOfLost(lost);
    for (std::string_view rest = lines; !rest.empty();) {
      const size_t end = rest.find('\n');
      Write(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
  }
}

void ErrorLog::TellOfLost(uint64_t lost) {
  const ErrorWords& words = WordsOf(ErrorCode::kSuppressed);
  std::string line;
  {
    FactWriter facts("error", line);
    facts.Add("link", absl::StrCat(nic_.name(), "/", kPortNumber));
    facts.Add("at", WallTimeText(nic_.engine().Now()));
    facts.Add("code", ErrorName(words.code));
    facts.Add("severity", NameOf(words.severity));
    facts.Add("what", words.text);
    facts.Add("why", absl::StrCat(lost,
                                  " errors were replaced by newer ones "
                                  "before they could be written"));
    AddOwner(ThisProcess(), facts);
  }
  line.pop_back();
  Write(line);
}

void ErrorLog::Write(std::string_view line) {
  const auto record = ParseFacts(line);
  URNIC_CHECK(record.has_value());
  for (Place& place : places_) {
    if (const int error = place.target->Write(*record)) TellOf(place, error);
  }
}

void ErrorLog::AwaitWritten(Duration patience) {
  const uint64_t asked = asked_.load();
  const Time end = Environment::Now() + patience;
  while (written_.load() < asked && Environment::Now() < end) usleep(1000);
}

}  // namespace urnic::control
