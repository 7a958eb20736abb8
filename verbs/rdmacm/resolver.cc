#include "verbs/rdmacm/resolver.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "datapath/guest/engine_thread.h"

namespace urnic::rdmacm {

namespace {

// A look asks, and waits for the answer: the first for as long as an answer
// takes on a quiet link, and later ones longer, so that the question is not
// repeated without need. All who wait share the longest, so that each has his
// turn within that time, or a millisecond of his own: an answer that comes
// later is found at the next look.
constexpr Duration kFirstPatience = Duration::Milliseconds(20);
constexpr Duration kMaxPatience = Duration::Milliseconds(250);
constexpr Duration kLeastShare = Duration::Milliseconds(1);

}  // namespace

Resolver::~Resolver() {
  std::unique_lock lock(mutex_);
  waiting_.clear();
  gone_.wait(lock, [this] { return !running_; });
}

bool Resolver::Add(const Job& job) {
  std::lock_guard lock(mutex_);
  // It is next: most answer at once.
  waiting_.push_front({job, job.rnic->Now() + job.timeout, kFirstPatience});
  if (running_) return true;
  auto thread = StartEngineThread("urnic-resolve", [this] { Run(); });
  if (!thread.has_value()) {
    waiting_.pop_front();
    return false;
  }
  thread->detach();
  running_ = true;
  return true;
}

void Resolver::Cancel(uint64_t serial) {
  std::lock_guard lock(mutex_);
  waiting_.remove_if(
      [serial](const Waiting& w) { return w.job.serial == serial; });
}

void Resolver::Run() {
  for (;;) {
    Waiting next;
    {
      std::lock_guard lock(mutex_);
      if (waiting_.empty()) {
        running_ = false;
        // Under the lock: the destructor may follow at once.
        gone_.notify_all();
        return;
      }
      next = TakeTurn();
    }
    Look(next);
  }
}

Resolver::Waiting Resolver::TakeTurn() {
  waiting_.splice(waiting_.end(), waiting_, waiting_.begin());
  Waiting& waiting = waiting_.back();
  Waiting turn = waiting;
  waiting.patience = std::min(waiting.patience * 2, kMaxPatience);
  const Duration share =
      Duration::Nanoseconds(kMaxPatience.ns() / std::ssize(waiting_));
  const Duration left = turn.end - turn.job.rnic->Now();
  turn.patience = std::min({turn.patience, std::max(share, kLeastShare), left});
  return turn;
}

void Resolver::Look(const Waiting& turn) {
  const Job& job = turn.job;
  const int error =
      job.rnic->ResolvePath(job.query, std::max(turn.patience, Duration()));
  if (error == ETIMEDOUT && job.rnic->Now() < turn.end) return;
  {
    std::lock_guard lock(mutex_);
    const auto it = std::find_if(
        waiting_.begin(), waiting_.end(),
        [&](const Waiting& w) { return w.job.serial == job.serial; });
    if (it == waiting_.end()) return;  // cancelled
    waiting_.erase(it);
  }
  done_(job, error);
}

}  // namespace urnic::rdmacm
