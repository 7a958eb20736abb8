#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ras/facts/facts.h"
#include "ras/facts/facts_json.h"
#include "ras/facts/value_of.h"
#include "verbs/cli/command.h"
#include "verbs/cli/did_you_mean.h"
#include "verbs/cli/fact_list.h"
#include "verbs/cli/format_text.h"
#include "verbs/cli/held_process.h"
#include "verbs/cli/offender_watch.h"
#include "verbs/cli/rnic_facts.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

constexpr char kCommand[] = "guard";
constexpr char kQuestion[] = "show offender";
using Clock = std::chrono::steady_clock;
using What = GuardAction::What;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

// A program that does not answer delays each look by that, so it is asked less
// often.
constexpr auto kPatienceOfGuard = 1s;
constexpr auto kSilencePause = 10s;
// Of the name in /proc/PID/comm.
constexpr size_t kProgramNameMax = 15;

struct GuardArguments {
  std::string policy = "log";
  std::vector<std::string> programs;
  std::string grace = "5s";
  std::string interval = "1s";
  bool once = false;
  bool json = false;
};

// By GuardPolicy.
const std::vector<std::string> kPolicies = {"log", "term", "kill"};

void Say(const std::string& text) {
  std::fprintf(stderr, "urnic %s: %s\n", kCommand, text.c_str());
}

// "5s" or "500ms".
std::optional<milliseconds> ParseTime(std::string_view text) {
  const bool is_ms = text.ends_with("ms");
  if (!text.ends_with("s")) return std::nullopt;
  text.remove_suffix(is_ms ? 2 : 1);
  uint32_t number = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos ||
      !absl::SimpleAtoi({text.data(), text.size()}, &number)) {
    return std::nullopt;
  }
  return is_ms ? milliseconds(number) : milliseconds(1000ull * number);
}

// Empty: nothing is wrong.
std::string TimeMistake(const std::string& text, milliseconds least) {
  constexpr milliseconds kMost = 1h;
  const auto time = ParseTime(text);
  if (time && *time >= least && *time <= kMost) return "";
  return absl::StrCat("\"", text, "\" is not a time from ", least.count(),
                      "ms to ", kMost.count() / 1000,
                      "s, written as 5s or 500ms");
}

std::string GraceMistake(const std::string& text) {
  return TimeMistake(text, 0ms);
}

std::string IntervalMistake(const std::string& text) {
  return TimeMistake(text, 100ms);
}

std::string PolicyMistake(const std::string& text) {
  if (std::ranges::count(kPolicies, text) != 0) return "";
  const std::string advice = DidYouMean(text, kPolicies);
  return absl::StrCat(
      "unknown policy \"", text, "\"",
      advice.empty()
          ? absl::StrCat("; the policies are ", absl::StrJoin(kPolicies, ", "))
          : advice);
}

GuardPolicy PolicyOf(const std::string& text) {
  return static_cast<GuardPolicy>(std::ranges::find(kPolicies, text) -
                                  kPolicies.begin());
}

std::string NameMistake(const std::string& name) {
  if (name.empty()) return "an empty name";
  if (name.size() <= kProgramNameMax) return "";
  return absl::StrCat("\"", name, "\" is longer than the ", kProgramNameMax,
                      " characters of a program's name (comm); write \"",
                      name.substr(0, kProgramNameMax), "\"");
}

// What no option alone shows. Empty: there is none.
std::string MistakeIn(const GuardArguments& arguments) {
  const bool signals = PolicyOf(arguments.policy) != GuardPolicy::kLog;
  if (signals && arguments.programs.empty()) {
    return absl::StrCat("--policy ", arguments.policy,
                        " needs --program NAME, the comm that urnic show "
                        "offender prints; --program '*' means every program");
  }
  if (!signals && !arguments.programs.empty())
    return "--program needs --policy term or --policy kill: log reports all";
  return "";
}

std::string NowText() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc = {};
  gmtime_r(&now.tv_sec, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return FormatText("%s.%06ldZ", text, now.tv_nsec / 1000);
}

// Of a program that may be another user's: its texts may be anything.
std::optional<Offender> OffenderOf(const PortKey& port, const Facts& facts) {
  for (const char* name : {"number", "blocks", "what", "since", "pid"}) {
    if (ValueOf(facts, name).empty()) return std::nullopt;
  }
  Offender offender;
  offender.key.port = port;
  (void)absl::SimpleAtoi(ValueOf(facts, "number"), &offender.key.number);
  (void)absl::SimpleAtoi(ValueOf(facts, "pid"), &offender.pid);
  offender.key.since = Printable(ValueOf(facts, "since"));
  offender.blocks = Printable(ValueOf(facts, "blocks"));
  offender.what = Printable(ValueOf(facts, "what"));
  offender.program = Printable(ValueOf(facts, "comm"));
  const pid_t pid = OurPidOf(port.directory);
  offender.is_here = pid != 0 && offender.pid == static_cast<uint64_t>(pid);
  return offender;
}

absl::StatusOr<std::vector<Offender>> OffendersIn(
    const RnicProcess& rnic, const absl::StatusOr<std::string>& answer) {
  const auto objects = ObjectsIn(rnic, answer);
  if (!objects.ok()) return objects.status();
  std::vector<Offender> offenders;
  for (const Facts& facts : *objects) {
    auto offender = OffenderOf({rnic.directory, rnic.device}, facts);
    if (!offender) {
      return Unreadable(
          rnic, absl::FailedPreconditionError("an offender without its facts"));
    }
    offenders.push_back(*std::move(offender));
  }
  return offenders;
}

// Whether the program has closed the port. Programs end between two questions.
bool HasClosed(const RnicProcess& rnic) {
  const auto found = FindRnics(rnic.device, rnic.directory);
  return !found.ok() && absl::IsNotFound(found.status());
}

const char* NameOf(What what) {
  switch (what) {
    case What::kFound:
      return "found";
    case What::kGone:
      return "gone";
    case What::kSigterm:
      return "sigterm";
    case What::kSigkill:
      return "sigkill";
  }
  return "";
}

class Guard {
 public:
  explicit Guard(const GuardArguments& arguments)
      : json_(arguments.json),
        watch_({.policy = PolicyOf(arguments.policy),
                .programs = arguments.programs,
                .grace = *ParseTime(arguments.grace)}) {}

  void Look() {
    const auto look = Ask();
    for (const GuardAction& action : watch_.OnLook(look, Clock::now()))
      Do(action);
  }
  const OffenderWatch& watch() const { return watch_; }
  bool all_answered() const { return silent_.empty(); }

  // False: nobody reads what is written.
  bool Flush() const { return std::fflush(stdout) == 0; }
  void TellTotals() const {
    const auto& totals = watch_.totals();
    const size_t left = totals.found - totals.gone;
    if (!json_) {
      std::printf("%zu found, %zu gone, %zu left; %zu SIGTERM, %zu SIGKILL\n",
                  totals.found, totals.gone, left, totals.sigterms,
                  totals.sigkills);
      return;
    }
    std::string line;
    {
      FactWriter facts(kCommand, line);
      facts.Add("at", NowText());
      facts.Add("event", "end");
      facts.Add("found", totals.found);
      facts.Add("gone", totals.gone);
      facts.Add("left", left);
      facts.Add("sigterms", totals.sigterms);
      facts.Add("sigkills", totals.sigkills);
    }
    Print(line);
  }

 private:
  OffenderWatch::Look Ask() {
    OffenderWatch::Look look;
    // Programs come and go, and so does the last one.
    auto found = FindRnics("", "");
    if (!found.ok()) found = std::vector<RnicProcess>();
    ports_.clear();
    for (const RnicProcess& rnic : *found)
      ports_.try_emplace({rnic.directory, rnic.device}, rnic);
    std::erase_if(silent_,
                  [&](const auto& at) { return !ports_.contains(at.first); });
    std::vector<RnicProcess> asked;
    for (const auto& [key, rnic] : ports_) {
      const auto silence = silent_.find(key);
      if (silence != silent_.end() && Clock::now() < silence->second) {
        look.silent.insert(key);
      } else {
        asked.push_back(rnic);
      }
    }
    const auto answers = AskRnics(asked, kQuestion, kPatienceOfGuard);
    for (size_t i = 0; i != asked.size(); ++i) {
      const RnicProcess& rnic = asked[i];
      const PortKey key = {rnic.directory, rnic.device};
      const bool was_silent = silent_.contains(key);
      const auto offenders = OffendersIn(rnic, answers[i]);
      if (offenders.ok()) {
        silent_.erase(key);
        look.offenders.insert(look.offenders.end(), offenders->begin(),
                              offenders->end());
      } else if (!HasClosed(rnic)) {
        if (!was_silent) Say(std::string(offenders.status().message()));
        silent_[key] = Clock::now() + kSilencePause;
        look.silent.insert(key);
      }
    }
    return look;
  }

  void Do(const GuardAction& action) {
    if (action.what == What::kFound || action.what == What::kGone) {
      Tell(action);
      if (action.what == What::kFound && watch_.IsCandidate(action.offender) &&
          !action.offender.is_here) {
        Say(absl::StrCat(Describe(action.offender),
                         " is not signalled: it is in another PID namespace"));
      }
      return;
    }
    const SignalResult result = Signal(action);
    watch_.OnSignal(action, result, Clock::now());
    if (result == SignalResult::kSent) Tell(action);
  }

  // The process is held before its program is asked again. So what answers is
  // this process, and what is signalled is what has answered. (If it replaces
  // itself by exec() within these microseconds, nothing can tell.)
  SignalResult Signal(const GuardAction& action) const {
    const Offender& offender = action.offender;
    HeldProcess process(offender.key.port.directory);
    const auto rnic = ports_.find(offender.key.port);
    if (process.has_ended() || rnic == ports_.end())
      return SignalResult::kNoOffender;
    if (process.mistake().empty()) {
      const auto now = OffendersIn(
          rnic->second, AskRnic(rnic->second, kQuestion, kPatienceOfGuard));
      if (!now.ok()) {
        return HasClosed(rnic->second) ? SignalResult::kNoOffender
                                       : SignalResult::kSilent;
      }
      const bool still = std::ranges::any_of(*now, [&](const Offender& other) {
        return other.key == offender.key && other.is_here &&
               other.program == offender.program;
      });
      if (!still) return SignalResult::kNoOffender;
      process.Signal(action.what == What::kSigkill ? SIGKILL : SIGTERM);
    }
    if (process.has_ended()) return SignalResult::kNoOffender;
    if (process.mistake().empty()) return SignalResult::kSent;
    Say(absl::StrCat(Describe(offender),
                     " is not signalled: ", process.mistake()));
    return SignalResult::kRefused;
  }

  static std::string Describe(const Offender& offender) {
    return absl::StrCat("process ", offender.pid, " (", offender.program, "), ",
                        offender.key.port.directory);
  }

  void Tell(const GuardAction& action) const {
    const Offender& offender = action.offender;
    std::string line;
    {
      FactWriter facts(kCommand, line);
      facts.Add("at", NowText());
      facts.Add("event", NameOf(action.what));
      facts.Add("dev", offender.key.port.device);
      facts.Add("pid", offender.pid);
      facts.Add("comm", offender.program);
      if (!offender.is_here) facts.Add("pid-namespace", "other");
      facts.Add("blocks", offender.blocks);
      facts.Add("what", offender.what);
      facts.Add("since", offender.key.since);
    }
    Print(line);
  }

  // A line of facts.
  void Print(std::string line) const {
    line.pop_back();
    const Facts facts = ParseFacts(line).value_or(Facts{});
    const std::string text = json_ ? JsonOf(facts, /*details=*/true)
                                   : FactLine(facts, /*details=*/true);
    std::puts(text.c_str());
  }

  const bool json_;
  OffenderWatch watch_;
  std::map<PortKey, RnicProcess> ports_;         // of the last look
  std::map<PortKey, Clock::time_point> silent_;  // until it is asked again
};

// Readable as soon as the user wants us to end.
int EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

// True: the user wants us to end before then.
bool IsEndedBefore(int ending_fd, Clock::time_point then) {
  pollfd ending = {ending_fd, POLLIN, 0};
  const auto left =
      std::chrono::ceil<milliseconds>(then - Clock::now()).count();
  return poll(&ending, 1, static_cast<int>(std::max<int64_t>(left, 0))) > 0;
}

int Run(const GuardArguments& arguments) {
  if (const std::string mistake = MistakeIn(arguments); !mistake.empty()) {
    Say(mistake);
    return kExitUsage;
  }
  if (PolicyOf(arguments.policy) != GuardPolicy::kLog) {
    const std::string why = WhyNoHeldProcess();
    if (!why.empty()) {
      Say(absl::StrCat("this kernel cannot hold a process (pidfd_open: ", why,
                       "; Linux 5.3 or later can), so another program could be "
                       "signalled by mistake: use --policy log"));
      return kExitFailed;
    }
  }
  const milliseconds interval = *ParseTime(arguments.interval);
  const int ending = EndingSignals();
  Guard guard(arguments);
  for (;;) {
    guard.Look();
    if (!guard.Flush()) return kExitFailed;
    const auto now = Clock::now();
    if (arguments.once && !guard.watch().IsAwaited(now)) break;
    if (IsEndedBefore(ending, guard.watch().NextLook(now, interval))) {
      guard.TellTotals();
      return guard.Flush() ? kExitOk : kExitFailed;
    }
  }
  return guard.watch().empty() && guard.all_answered() ? kExitOk : kExitFailed;
}

}  // namespace

void AddGuardCommand(Command& urnic) {
  auto arguments = std::make_shared<GuardArguments>();
  Command& command = urnic.AddSubcommand(
      kCommand, "Watch for programs that block a recovery, and end them",
      [arguments] { return Run(*arguments); });
  command.SetFooter(
      "Reports each program that keeps a device from recovering, or a port or "
      "an object from closing, once when it is found and once when it is gone. "
      "urnic show offender lists the same. Watches programs of the same user; "
      "root watches all.");
  command.AddOption("--policy", &arguments->policy,
                    "log reports (default); term also sends SIGTERM to the "
                    "programs of --program; kill also sends SIGKILL after "
                    "--grace",
                    {.type = "POLICY", .mistake = PolicyMistake});
  command.AddOption("--program", &arguments->programs,
                    "A name (comm) of programs that may be signalled; repeat "
                    "it; '*' means every program",
                    {.type = "NAME", .mistake = NameMistake, .several = true});
  command.AddOption("--grace", &arguments->grace,
                    "Between SIGTERM and SIGKILL; 5s or 500ms (default: 5s)",
                    {.type = "TIME", .mistake = GraceMistake});
  command.AddOption("--interval", &arguments->interval,
                    "Between two rounds (default: 1s)",
                    {.type = "TIME", .mistake = IntervalMistake});
  command.AddOption("--once", &arguments->once,
                    "Look once; exit status 1 if there is an offender, or a "
                    "program does not answer");
  command.AddOption("-j,--json", &arguments->json, "Print lines of JSON");
}

}  // namespace urnic
