#pragma once

// What `urnic guard` remembers of the programs that keep a device from
// recovering, or a port or an object from closing (verbs/control/offenders.h),
// and what it does about them. Pure: it gets lists and the time, and gives
// actions.

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace urnic {

// Of a program. A port is asked at a socket of its own.
struct PortKey {
  std::string directory;  // the program's run directory
  std::string device;

  auto operator<=>(const PortKey&) const = default;
};

// What names an offender. A program that was replaced by exec() counts from 1
// again, but not at the same time of day.
struct OffenderKey {
  PortKey port;
  uint64_t number = 0;
  std::string since;

  auto operator<=>(const OffenderKey&) const = default;
};

struct Offender {
  OffenderKey key;
  std::string blocks;  // "recovery", "thread", "events"
  std::string what;
  uint64_t pid = 0;  // in the PID namespace of the program
  std::string program;
  // Its pid means the same process to us. If not, it is only told of.
  bool is_here = false;
};

enum class GuardPolicy : uint8_t {
  kLog,   // tells of offenders
  kTerm,  // and sends SIGTERM to candidates
  kKill,  // and SIGKILL, if they are still offenders after the grace
};

struct GuardOptions {
  GuardPolicy policy = GuardPolicy::kLog;
  // The candidates: programs of these names; "*" is every one.
  std::vector<std::string> programs;
  std::chrono::milliseconds grace{};
};

struct GuardAction {
  enum class What : uint8_t {
    kFound,    // to be told
    kGone,     // likewise
    kSigterm,  // to be sent to the process; then call OnSignal()
    kSigkill,  // likewise
  };
  What what;
  Offender offender;
};

// What became of a signal.
enum class SignalResult : uint8_t {
  kSent,
  kNoOffender,  // it was none any more
  kSilent,      // it did not answer whether it still is one
  kRefused,     // it cannot be signalled, and will not be
};

class OffenderWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // All that is known at one moment.
  struct Look {
    std::vector<Offender> offenders;
    // Ports that did not answer: what they told before still counts, but
    // signals nobody.
    std::set<PortKey> silent;
  };

  struct Totals {
    size_t found = 0;
    size_t gone = 0;
    size_t sigterms = 0;
    size_t sigkills = 0;
  };

  explicit OffenderWatch(GuardOptions options);

  // What is new since the last look, and what is due. A process is signalled
  // once, however many offences it has. A signal without OnSignal() is due
  // again at the next look.
  std::vector<GuardAction> OnLook(const Look& look, Time now);
  // `signal`: the action that had this result.
  void OnSignal(const GuardAction& signal, SignalResult result, Time now);

  bool IsCandidate(const Offender& offender) const;
  // Whether a process was signalled that may still do what it was told. After
  // SIGTERM that takes the grace at most, after SIGKILL five seconds.
  bool IsAwaited(Time now) const;
  // When to look again: after the interval, or when a grace is over.
  Time NextLook(Time now, std::chrono::milliseconds interval) const;

  bool empty() const { return offenders_.empty(); }
  const Totals& totals() const { return totals_; }

 private:
  // What was done about a process. By its run directory, which names it by pid
  // and start time.
  struct Treatment {
    enum class Step : uint8_t { kSigterm, kSigkill, kRefused };
    Step step;
    Time at;
  };

  void AddSignals(const Look& look, Time now,
                  std::vector<GuardAction>& actions) const;
  // When the awaited end of the process is overdue.
  Time EndOf(const Treatment& treatment) const;

  const GuardOptions options_;
  std::map<OffenderKey, Offender> offenders_;
  std::map<std::string, Treatment> treatments_;
  Totals totals_;
};

}  // namespace urnic
