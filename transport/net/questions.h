#pragma once

// The questions for paths that wait for a neighbour, and the answers that wait
// to be taken. Part of net::Host.

#include <cstdint>
#include <vector>

#include "transport/base/deadline_heap.h"
#include "transport/base/time.h"
#include "transport/net/adjacency.h"
#include "transport/net/path.h"

namespace urnic::net {

// Names a question until its answer is taken; 0 names none.
using QuestionId = uint32_t;

struct Question {
  PathQuery query;
  uint64_t user = 0;  // whatever the asker wants back with the answer
  // The neighbour that it waits for (an entry of the neighbour cache), or
  // kNobody.
  uint32_t neighbor = UINT32_MAX;
  PathStatus status = PathStatus::kNoAnswer;
  AdjacencyPtr adjacency;  // the answer
};

// Memory grows with the questions, up to `capacity`.
class QuestionTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kNobody = UINT32_MAX;

  explicit QuestionTable(uint32_t capacity) : capacity_(capacity) {}

  // The place of a new question, which is in no list yet; kNone: there are too
  // many questions.
  uint32_t Add(const PathQuery& query, uint64_t user);
  QuestionId IdOf(uint32_t at) const { return slots_[at].id; }
  // kNone: the question does not exist or no longer exists.
  uint32_t Find(QuestionId id) const;
  Question& operator[](uint32_t at) { return slots_[at].question; }

  // Makes the question wait for the neighbour until the deadline.
  void Wait(uint32_t at, uint32_t neighbor, Time deadline);
  // The first question that waits for the neighbour, or kNone.
  uint32_t FirstFor(uint32_t neighbor) const {
    return neighbor < waiting_.size() ? waiting_[neighbor].first : kNone;
  }
  // Ends the wait of a question and queues its answer after the others.
  void Answer(uint32_t at, PathStatus status, AdjacencyPtr adjacency);
  // The first of the answers, or kNone.
  uint32_t FirstAnswer() const { return answers_.first; }
  // Frees the question and its answer. REQUIRES: it is in a list.
  void Remove(uint32_t at);

  Time next_deadline() const { return deadlines_.next(); }
  // REQUIRES: next_deadline() is not infinite
  uint32_t next_due() const { return deadlines_.next_item(); }
  size_t size() const { return slots_.size() - free_.size(); }

 private:
  struct List {
    uint32_t first = kNone;
    uint32_t last = kNone;
  };
  struct Slot {
    Question question;
    QuestionId id = 0;  // 0: free
    uint32_t next = kNone;
    uint32_t previous = kNone;
  };
  // An id holds a place and a variant, so an old id finds nothing.
  static constexpr uint32_t kIndexBits = 20;

  List& ListOf(const Slot& slot) {
    const uint32_t neighbor = slot.question.neighbor;
    return neighbor == kNobody ? answers_ : waiting_[neighbor];
  }
  void Append(List& list, uint32_t at);
  void Unlink(uint32_t at);

  uint32_t capacity_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::vector<List> waiting_;  // by neighbour
  List answers_;
  DeadlineHeap deadlines_;
  uint32_t next_variant_ = 0;
};

}  // namespace urnic::net
