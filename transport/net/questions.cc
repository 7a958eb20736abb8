#include "transport/net/questions.h"

#include <utility>

#include "transport/base/check.h"
#include "transport/base/mutation.h"

namespace urnic::net {

uint32_t QuestionTable::Add(const PathQuery& query, uint64_t user) {
  uint32_t at = static_cast<uint32_t>(slots_.size());
  if (!free_.empty()) {
    at = free_.back();
    free_.pop_back();
  } else if (at == capacity_ || at >> kIndexBits != 0) {
    return kNone;
  } else {
    slots_.emplace_back();
    deadlines_.Grow(at + 1);
  }
  // Variant 0 is not used, so no id is 0.
  next_variant_ = next_variant_ % 0xfff + 1;
  Slot& slot = slots_[at];
  slot = Slot();
  slot.id = next_variant_ << kIndexBits | at;
  slot.question.query = query;
  slot.question.user = user;
  return at;
}

uint32_t QuestionTable::Find(QuestionId id) const {
  const uint32_t at = id & ((1u << kIndexBits) - 1);
  return id != 0 && at < slots_.size() && slots_[at].id == id ? at : kNone;
}

void QuestionTable::Append(List& list, uint32_t at) {
  slots_[at].next = kNone;
  slots_[at].previous = list.last;
  (list.last == kNone ? list.first : slots_[list.last].next) = at;
  list.last = at;
}

void QuestionTable::Unlink(uint32_t at) {
  const Slot& slot = slots_[at];
  List& list = ListOf(slot);
  (slot.previous == kNone ? list.first : slots_[slot.previous].next) =
      slot.next;
  (slot.next == kNone ? list.last : slots_[slot.next].previous) = slot.previous;
}

void QuestionTable::Wait(uint32_t at, uint32_t neighbor, Time deadline) {
  URNIC_CHECK(neighbor != kNobody);
  slots_[at].question.neighbor = neighbor;
  if (neighbor >= waiting_.size()) waiting_.resize(neighbor + size_t{1});
  Append(waiting_[neighbor], at);
  MUTATION_SKIPS(net_forgets_deadlines)
  if (!deadline.IsInfinite()) deadlines_.Set(at, deadline);
}

void QuestionTable::Answer(uint32_t at, PathStatus status,
                           AdjacencyPtr adjacency) {
  Question& question = slots_[at].question;
  if (question.neighbor != kNobody) {
    Unlink(at);
    question.neighbor = kNobody;
  }
  deadlines_.Clear(at);
  question.status = status;
  question.adjacency = std::move(adjacency);
  Append(answers_, at);
}

void QuestionTable::Remove(uint32_t at) {
  Unlink(at);
  deadlines_.Clear(at);
  slots_[at] = Slot();
  free_.push_back(at);
}

}  // namespace urnic::net
