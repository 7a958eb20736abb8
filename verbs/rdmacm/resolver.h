#pragma once

// Waits for neighbours on behalf of ids whose addresses are being resolved, in
// a thread that exists only while there are any.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "transport/base/time.h"
#include "verbs/rdmacm/rnic.h"

namespace urnic::rdmacm {

class Resolver {
 public:
  struct Job {
    uint64_t serial = 0;  // of the id; handed back
    Rnic* rnic = nullptr;
    PathQuery query;
    Duration timeout;
  };
  // Called by the resolver's thread, outside of the token: 0, or the errno of
  // Rnic::ResolvePath(). `done` may not destroy the resolver.
  using Done = std::function<void(const Job&, int error)>;

  explicit Resolver(Done done) : done_(std::move(done)) {}
  // Waits until the thread is gone, with whatever is left to resolve.
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // False if there can be no thread.
  bool Add(const Job& job);
  // No Done for it any more, unless it is being called right now.
  void Cancel(uint64_t serial);

 private:
  struct Waiting {
    Job job;
    Time end;
    // How long the next look may wait for an answer.
    Duration patience;
  };

  void Run();
  // Whose turn it is, and for how long; he comes last from now on. REQUIRES:
  // the lock is held, and somebody waits.
  Waiting TakeTurn();
  void Look(const Waiting& turn);

  const Done done_;
  std::mutex mutex_;
  std::condition_variable gone_;
  std::list<Waiting> waiting_;
  bool running_ = false;
};

}  // namespace urnic::rdmacm
