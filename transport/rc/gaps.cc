#include "transport/rc/gaps.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/base/mutation.h"

namespace urnic::rc {
namespace {

bool IsSet(std::span<const uint8_t> bits, uint32_t bit) {
  return bit / 8 < bits.size() && (bits[bit / 8] >> bit % 8 & 1) != 0;
}

Psn Earlier(Psn a, Psn b) { return a - b < 0 ? a : b; }

}  // namespace

uint32_t Gaps::FirstDueIndex() const {
  uint32_t index = 0;
  while (gaps_[index].state != Gap::State::kDue) {
    ++index;
    URNIC_CHECK(index < count_);
  }
  return index;
}

void Gaps::PostponeFirstDue(Time now) {
  Gap& gap = gaps_[FirstDueIndex()];
  gap.state = Gap::State::kWaits;
  gap.since = now;
  Recount();
}

ClosedGaps Gaps::OnReport(const GapReport& report, Psn sent, Time now,
                          Duration round_trip, Duration shortest) {
  const std::array<Gap, kMax> old = gaps_;
  const uint32_t old_count = count_;
  uint32_t at = 0;  // the first old gap that is not processed
  ClosedGaps closed;
  const auto close_before = [&](Psn psn) {
    while (at != old_count && psn - old[at].end() >= 0) {
      NoteClosed(old[at++], now, shortest, closed);
    }
  };
  const auto arrived = [&](Psn psn) {
    return psn != report.first &&
           IsSet(report.held, static_cast<uint32_t>(psn - report.first) - 1);
  };
  Psn end = report.end;
  if (marked_ && !report.held.empty() && !report.responses &&
      (report.first - mark_ > 0 || arrived(mark_))) {
    marked_ = false;
    MUTATION_SKIPS(ignores_what_a_repair_overtook)
    if (mark_sent_ - end > 0) end = mark_sent_;
  }
  end = MUTATION(believes_reports_of_unsent, Earlier(end, sent), end);

  count_ = 0;
  bool room = true;
  Psn psn = report.first;
  while (room && end - psn > 0) {
    // The next run of missing packets.
    if (arrived(psn)) {
      psn = psn.Next();
      continue;
    }
    Psn run_end = psn.Next();
    while (end - run_end > 0 && !arrived(run_end)) run_end = run_end.Next();
    close_before(psn);
    while (room && run_end - psn > 0) {
      Gap part{.begin = psn, .since = now};
      Psn part_end = run_end;
      const bool known = at != old_count && psn - old[at].begin >= 0;
      if (known) {
        part.state = old[at].state;
        part.since = old[at].since;
        part.twice = old[at].twice;
        part.counted = old[at].counted;
        part_end = Earlier(run_end, old[at].end());
        if (part.state == Gap::State::kResent &&
            MUTATION(repairs_too_soon, now - part.since > round_trip, true)) {
          part.state = Gap::State::kDue;  // it was lost again
          part.twice = true;
          part.counted = false;
        }
      } else if (at != old_count) {
        part_end = Earlier(run_end, old[at].begin);
      }
      part.packets = static_cast<uint32_t>(part_end - psn);
      room = Append(part);
      if (!room) break;
      psn = part_end;
      if (known && psn == old[at].end()) ++at;
    }
  }
  close_before(psn);
  // Gaps behind the report do not change.
  for (; room && at != old_count; ++at) room = AppendFrom(psn, old[at]);
  if (end - known_end_ > 0)
    known_end_ = MUTATION(trusts_the_unreported, end, gaps_[count_ - 1].end());
  Recount();
  return closed;
}

ClosedGaps Gaps::OnAcked(Psn una, Time now, Duration shortest) {
  ClosedGaps closed;
  uint32_t kept = 0;
  for (uint32_t i = 0; i != count_; ++i) {
    Gap gap = gaps_[i];
    const int32_t acked = una - gap.begin;
    if (acked > 0) {
      NoteClosed(gap, now, shortest, closed);
      MUTATION_SKIPS(keeps_gaps_that_are_closed)
      if (acked >= static_cast<int32_t>(gap.packets)) continue;
      gap.begin = una;
      gap.packets -= static_cast<uint32_t>(acked);
    }
    gaps_[kept++] = gap;
  }
  count_ = kept;
  if (una - forgiven_end_ > 0) forgiven_end_ = una;
  if (una - mark_sent_ >= 0) marked_ = false;
  Recount();
  return closed;
}

Time Gaps::MakeDue(Time now, Duration wait) {
  Time next = Time::Infinite();
  for (uint32_t i = 0; i != count_; ++i) {
    Gap& gap = gaps_[i];
    if (gap.state == Gap::State::kDue) CountLost(gap);
    if (gap.state != Gap::State::kWaits) continue;
    if (gap.since + wait <= now) {
      gap.state = Gap::State::kDue;
      CountLost(gap);
    } else {
      next = std::min(next, gap.since + wait);
    }
  }
  Recount();
  return next;
}

void Gaps::OnResent(Psn end, Psn sent, Time now) {
  const Psn begin = FirstDue().begin;
  // (If a packet is resent twice, it is unknown which of the two arrives.)
  if (!marked_ && !FirstDue().twice) {
    marked_ = true;
    mark_ = begin;
    mark_sent_ = sent;
  }
  for (uint32_t i = 0; i != count_; ++i) {
    Gap& gap = gaps_[i];
    if (gap.begin - begin < 0) continue;
    if (end - gap.begin <= 0) break;
    const auto repeated = static_cast<uint32_t>(end - gap.begin);
    MUTATION_ADDS(repeats_part_of_a_gap_for_ever,
                  if (repeated < gap.packets && count_ == kMax) break;)
    if (repeated < gap.packets) SplitAfter(i, repeated);
    gap.state = Gap::State::kResent;
    gap.since = now;
  }
  Recount();
}

// Without room for another gap, the last one is forgotten.
void Gaps::SplitAfter(uint32_t index, uint32_t packets) {
  const uint32_t kept = std::min(count_, kMax - 1);
  if (index < kept) {
    std::copy_backward(gaps_.begin() + index, gaps_.begin() + kept,
                       gaps_.begin() + kept + 1);
    count_ = kept + 1;
    gaps_[index + 1].begin = gaps_[index].begin + static_cast<int32_t>(packets);
    gaps_[index + 1].packets -= packets;
  }
  gaps_[index].packets = packets;
}

bool Gaps::AppendFrom(Psn begin, Gap gap) {
  if (begin - gap.begin > 0) {
    gap.packets = static_cast<uint32_t>(gap.end() - begin);
    gap.begin = begin;
  }
  return Append(gap);
}

bool Gaps::Append(const Gap& gap) {
  if (count_ != 0) {
    Gap& last = gaps_[count_ - 1];
    if (last.end() == gap.begin && last.state == gap.state &&
        last.since == gap.since && last.twice == gap.twice &&
        last.counted == gap.counted) {
      last.packets += gap.packets;
      return true;
    }
  }
  if (count_ == kMax) return false;
  gaps_[count_++] = gap;
  return true;
}

void Gaps::NoteClosed(const Gap& gap, Time now, Duration shortest,
                      ClosedGaps& closed) const {
  const Duration stood = now - gap.since;
  if (gap.state != Gap::State::kResent) {
    closed.reordered = std::max(closed.reordered, stood);
  } else {
    closed.repaired = true;
    if (!gap.twice) {
      closed.repair_time = stood;
      closed.needless |= stood.ns() < shortest.ns() / 8 * 7;
    }
  }
}

void Gaps::Recount() {
  due_ = resent_ = 0;
  for (uint32_t i = 0; i != count_; ++i) {
    if (gaps_[i].state == Gap::State::kDue) ++due_;
    if (gaps_[i].state == Gap::State::kResent) resent_ += gaps_[i].packets;
  }
}

}  // namespace urnic::rc
