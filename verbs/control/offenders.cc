#include "verbs/control/offenders.h"

#include <cstddef>
#include <utility>

#include "ras/facts/facts.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/owner.h"
#include "verbs/control/wall_time.h"

namespace urnic::control {
namespace {

// By Offence.
constexpr const char* kNames[] = {"recovery", "thread", "events"};

}  // namespace

uint64_t Offenders::Add(Offence offence, std::string what) {
  std::lock_guard lock(mutex_);
  entries_.push_back({++last_, offence, std::move(what), WallTimeNow()});
  return last_;
}

void Offenders::Remove(uint64_t number) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [=](const Entry& e) { return e.number == number; });
}

void Offenders::Describe(const OpenNic& nic, std::string& out) const {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    FactWriter facts("offender", out);
    facts.Add("dev", nic.name());
    facts.Add("number", entry.number);
    facts.Add("blocks", kNames[static_cast<size_t>(entry.offence)]);
    facts.Add("what", entry.what);
    facts.Add("since", WallTimeText(entry.since_ns));
    AddOwner(ThisProcess(), facts);
  }
}

}  // namespace urnic::control
