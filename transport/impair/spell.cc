#include "transport/impair/spell.h"

namespace urnic::impair {

std::optional<Duration> Spell::LastBegin(Duration age) const {
  if (length == Duration() || age < after) return std::nullopt;
  if (every == Duration()) return after;
  return after + every * ((age - after).ns() / every.ns());
}

bool Spell::Covers(Duration age) const {
  const std::optional<Duration> begin = LastBegin(age);
  return begin && age < *begin + length;
}

std::optional<Duration> Spell::NextEdge(Duration age) const {
  if (length == Duration()) return std::nullopt;
  const std::optional<Duration> begin = LastBegin(age);
  if (!begin) return after;
  if (age < *begin + length) return *begin + length;
  if (every == Duration()) return std::nullopt;
  return *begin + every;
}

}  // namespace urnic::impair
