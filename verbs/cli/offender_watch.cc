#include "verbs/cli/offender_watch.h"

#include <algorithm>
#include <utility>

namespace urnic {
namespace {

using What = GuardAction::What;

constexpr char kEveryProgram[] = "*";
// What a process takes at most to die of SIGKILL, unless the kernel holds it.
constexpr std::chrono::seconds kDeath{5};

}  // namespace

OffenderWatch::OffenderWatch(GuardOptions options)
    : options_(std::move(options)) {}

bool OffenderWatch::IsCandidate(const Offender& offender) const {
  return options_.policy != GuardPolicy::kLog &&
         std::ranges::any_of(options_.programs, [&](const std::string& name) {
           return name == kEveryProgram || name == offender.program;
         });
}

OffenderWatch::Time OffenderWatch::EndOf(const Treatment& treatment) const {
  switch (treatment.step) {
    case Treatment::Step::kSigterm:
      return treatment.at + options_.grace;
    case Treatment::Step::kSigkill:
      return treatment.at + kDeath;
    case Treatment::Step::kRefused:
      break;
  }
  return treatment.at;
}

bool OffenderWatch::IsAwaited(Time now) const {
  return std::ranges::any_of(treatments_, [&](const auto& entry) {
    return EndOf(entry.second) > now;
  });
}

OffenderWatch::Time OffenderWatch::NextLook(
    Time now, std::chrono::milliseconds interval) const {
  Time next = now + interval;
  for (const auto& [directory, treatment] : treatments_) {
    const Time end = EndOf(treatment);
    if (end > now) next = std::min(next, end);
  }
  return next;
}

void OffenderWatch::AddSignals(const Look& look, Time now,
                               std::vector<GuardAction>& actions) const {
  std::set<std::string> signalled;
  for (const Offender& offender : look.offenders) {
    const std::string& process = offender.key.port.directory;
    if (!offender.is_here || !IsCandidate(offender)) continue;
    const auto before = treatments_.find(process);
    const bool is_first = before == treatments_.end();
    const bool is_due = !is_first && options_.policy == GuardPolicy::kKill &&
                        before->second.step == Treatment::Step::kSigterm &&
                        EndOf(before->second) <= now;
    if (!(is_first || is_due) || !signalled.insert(process).second) continue;
    actions.push_back({is_first ? What::kSigterm : What::kSigkill, offender});
  }
}

std::vector<GuardAction> OffenderWatch::OnLook(const Look& look, Time now) {
  std::vector<GuardAction> actions;
  std::set<OffenderKey> present;
  for (const Offender& offender : look.offenders) present.insert(offender.key);
  std::set<std::string> processes;
  for (auto at = offenders_.begin(); at != offenders_.end();) {
    if (present.contains(at->first) || look.silent.contains(at->first.port)) {
      processes.insert(at->first.port.directory);
      ++at;
    } else {
      actions.push_back({What::kGone, std::move(at->second)});
      at = offenders_.erase(at);
      ++totals_.gone;
    }
  }
  for (const Offender& offender : look.offenders) {
    processes.insert(offender.key.port.directory);
    if (!offenders_.emplace(offender.key, offender).second) continue;
    actions.push_back({What::kFound, offender});
    ++totals_.found;
  }
  // A process without an offence may be signalled again for its next one.
  std::erase_if(treatments_, [&](const auto& entry) {
    return !processes.contains(entry.first);
  });
  AddSignals(look, now, actions);
  return actions;
}

void OffenderWatch::OnSignal(const GuardAction& signal, SignalResult result,
                             Time now) {
  const std::string& process = signal.offender.key.port.directory;
  const bool is_kill = signal.what == What::kSigkill;
  using Step = Treatment::Step;
  if (result == SignalResult::kRefused)
    treatments_.insert_or_assign(process, Treatment{Step::kRefused, now});
  if (result != SignalResult::kSent) return;
  treatments_.insert_or_assign(
      process, Treatment{is_kill ? Step::kSigkill : Step::kSigterm, now});
  ++(is_kill ? totals_.sigkills : totals_.sigterms);
}

}  // namespace urnic
