#include "verbs/rdmacm/resolver.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "datapath/engine_thread.h"

namespace urnic::rdmacm {

namespace {

// A look asks, and waits for the answer: the first for as long as an answer
// takes on a quiet link, and later ones longer, so that the question is not
// repeated without need. No longer, because others may wait for their turn.
constexpr Duration kFirstPatience = Duration::Milliseconds(20);
constexpr Duration kMaxPatience = Duration::Milliseconds(250);

}  // namespace

Resolver::~Resolver() {
  std::unique_lock lock(mutex_);
  waiting_.clear();
  gone_.wait(lock, [this] { return !running_; });
}

bool Resolver::Add(const Job& job) {
  std::lock_guard lock(mutex_);
  waiting_.push_back({job, job.rnic->Now() + job.timeout, kFirstPatience});
  if (running_) return true;
  auto thread = StartEngineThread("urnic-resolve", [this] { Run(); });
  if (!thread.has_value()) {
    waiting_.pop_back();
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
    {
      std::lock_guard lock(mutex_);
      if (waiting_.empty()) {
        running_ = false;
        // Under the lock: the destructor may follow at once.
        gone_.notify_all();
        return;
      }
    }
    LookOnce();
  }
}

void Resolver::LookOnce() {
  std::vector<uint64_t> serials;
  {
    std::lock_guard lock(mutex_);
    for (const Waiting& waiting : waiting_) {
      serials.push_back(waiting.job.serial);
    }
  }
  for (const uint64_t serial : serials) {
    const auto find = [&] {
      return std::find_if(
          waiting_.begin(), waiting_.end(),
          [serial](const Waiting& w) { return w.job.serial == serial; });
    };
    Job job;
    Duration patience;
    Time end;
    {
      std::lock_guard lock(mutex_);
      const auto it = find();
      if (it == waiting_.end()) continue;  // cancelled
      job = it->job;
      end = it->end;
      patience = std::min(it->patience, end - job.rnic->Now());
      it->patience = std::min(it->patience * 2, kMaxPatience);
    }
    patience = std::max(patience, Duration());
    const int error = job.rnic->ResolvePath(job.query, patience);
    if (error == ETIMEDOUT && job.rnic->Now() < end) continue;
    {
      std::lock_guard lock(mutex_);
      const auto it = find();
      if (it == waiting_.end()) continue;
      waiting_.erase(it);
    }
    done_(job, error);
  }
}

}  // namespace urnic::rdmacm
