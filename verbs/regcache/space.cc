#include "verbs/regcache/space.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "verbs/libc/high_fd.h"
#include "verbs/regcache/cache.h"

namespace urnic::regcache {

namespace {

constinit Space the_space;

// A second of idleness is one tick.
constexpr int kTickSeconds = 1;
// After the event of a removal, the thread that removes has work of some
// microseconds left.
constexpr uint64_t kRemovalTicks = 2;

bool IsBefore(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

}  // namespace

Space& Space::Of() { return the_space; }

// --- Changes -----------------------------------------------------------------

int Space::AddHazard(const Hazard& hazard) {
  for (int i = 0; i < kMaxHazards; ++i) {
    auto& place = hazards_[static_cast<size_t>(i)];
    if (place.InForce(ticks_)) continue;
    place = hazard;
    return i;
  }
  return kUncounted;
}

void Space::InvalidateAll(Range range) {
  for (Cache* c = caches_; c != nullptr; c = c->next) c->Invalidate(range);
}

int Space::BeforeChange(Range range) {
  Lock lock(*this);
  const int token = AddHazard({range, true, 0});
  if (token == kUncounted) ++calls_without_place_;
  InvalidateAll(range);
  return token;
}

void Space::AfterChange(int token, Range range) {
  Lock lock(*this);
  if (token >= 0) hazards_[static_cast<size_t>(token)] = {};
  if (token == kUncounted) --calls_without_place_;
  InvalidateAll(range);
}

void Space::Changed(Range range) {
  Lock lock(*this);
  InvalidateAll(range);
}

Range Space::Calm(Range run, Range want) const {
  if (calls_without_place_ != 0 || ticks_ < everything_until_tick_) return want;
  for (const Hazard& hazard : hazards_) {
    if (hazard.InForce(ticks_)) run = run.Without(hazard.range, want);
  }
  return run;
}

void Space::ReadEvents() {
  Lock lock(*this);
  // Before the events are taken out, because that lets their threads continue.
  state_.fetch_or(kReading);
  KernelWatch::Change changes[KernelWatch::kMaxChanges];
  while (const size_t n = kernel_.Read(changes)) {
    for (size_t i = 0; i < n; ++i) {
      const Range range = changes[i].range;
      if (changes[i].comes_later &&
          AddHazard({range, false, ticks_ + kRemovalTicks}) == kUncounted) {
        everything_until_tick_ = ticks_ + kRemovalTicks;
      }
      InvalidateAll(range);
    }
  }
  state_.fetch_and(~kReading);
}

void Space::Unwatch(Range range) {
  if (!watches()) return;
  const uint64_t end = range.RoundedOut(kFragmentBytes).end;
  for (uint64_t at = range.begin & ~(kFragmentBytes - 1); at < end;
       at += kFragmentBytes) {
    bool empty = true;
    for (Cache* c = caches_; c != nullptr && empty; c = c->next) {
      empty = c->HasNothingIn(at >> kFragmentBits);
    }
    if (empty) kernel_.Unwatch({at, at + kFragmentBytes});
  }
}

// --- Caches ------------------------------------------------------------------

void Space::Join(Cache* cache) {
  Lock lock(*this);
  cache->next = caches_;
  caches_ = cache;
  open_caches_.fetch_add(1);
}

void Space::Leave(Cache* cache) {
  Lock lock(*this);
  Cache** at = &caches_;
  while (*at != cache) at = &(*at)->next;
  *at = cache->next;
  open_caches_.fetch_sub(1);
}

bool Space::EndOne() {
  Lock lock(*this);
  for (Cache* c = caches_; c != nullptr; c = c->next) {
    if (Entry* entry = c->TakeEnded()) {
      lock.Release();
      c->End(entry);
      lock.Take();
      return true;
    }
  }
  return false;
}

void Space::EndAll() {
  while (EndOne()) {
  }
}

void Space::Tick() {
  {
    Lock lock(*this);
    ++ticks_;
    for (Cache* c = caches_; c != nullptr; c = c->next) c->Tick();
  }
  EndAll();
}

// --- Threads -----------------------------------------------------------------

void* Space::RunTicks(void* self) {
  static_cast<Space*>(self)->TickUntilStopped();
  return nullptr;
}

void* Space::RunMonitor(void* self) {
  static_cast<Space*>(self)->Monitor();
  return nullptr;
}

void Space::TickUntilStopped() {
  timespec next;
  clock_gettime(CLOCK_MONOTONIC, &next);
  next.tv_sec += kTickSeconds;
  for (;;) {
    {
      Lock lock(*this);
      while (!stop_ticks_ && !work_wanted_ &&
             pthread_cond_timedwait(&work_, &mutex_, &next) != ETIMEDOUT) {
      }
      if (stop_ticks_) return;
      work_wanted_ = false;
    }
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (IsBefore(now, next)) {
      EndAll();
      continue;
    }
    Tick();
    // Seconds in which the process was stopped do not count.
    next = now;
    next.tv_sec += kTickSeconds;
  }
}

void Space::Monitor() {
  pollfd waits[2] = {{kernel_.fd(), POLLIN, 0}, {stop_monitor_, POLLIN, 0}};
  for (;;) {
    if (poll(waits, 2, -1) < 0) continue;
    if (waits[1].revents != 0) {
      // Here, because libc gives up a part of this thread's stack at its end:
      // if that is still watched, the thread waits for its own reading.
      Lock lock(*this);
      kernel_.Close();
      return;
    }
    if (waits[0].revents != 0) ReadEvents();
  }
}

void Space::BeforeFork() { pthread_mutex_lock(&the_space.mutex_); }

void Space::AfterForkInParent() { pthread_mutex_unlock(&the_space.mutex_); }

void Space::AfterForkInChild() {
  if (the_space.has_caches()) the_space.state_.fetch_or(kForked);
  // Or the parent could not end its reports by closing its descriptor.
  the_space.kernel_.Close();
  // Its memory is none of a cache's.
  the_space.open_caches_.store(0);
  pthread_mutex_unlock(&the_space.mutex_);
}

bool Space::StartThread(pthread_t* thread, void* (*run)(void*),
                        const char* name) {
  // The program's signals are for its own threads.
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const bool started = pthread_create(thread, nullptr, run, this) == 0;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (started) pthread_setname_np(*thread, name);
  return started;
}

int Space::StartFirst() {
  if (!prepared_) {
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&work_, &clock);
    pthread_condattr_destroy(&clock);
    pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild);
    prepared_ = true;
  }
  stop_ticks_ = false;
  if (!StartThread(&ticker_, &RunTicks, "urnic-regcache")) return EAGAIN;
  // Without the kernel's reports, intercepted calls remain.
  if (!kernel_.Open()) return 0;
  stop_monitor_ = urnic_move_fd_high(eventfd(0, EFD_CLOEXEC));
  if (stop_monitor_ >= 0 &&
      StartThread(&monitor_, &RunMonitor, "urnic-rc-watch")) {
    return 0;
  }
  kernel_.Close();
  if (stop_monitor_ >= 0) close(stop_monitor_);
  return 0;
}

int Space::StartThreads() {
  if (forked()) return EIO;
  pthread_mutex_lock(&threads_mutex_);
  const int error = thread_users_ == 0 ? StartFirst() : 0;
  if (error == 0) ++thread_users_;
  pthread_mutex_unlock(&threads_mutex_);
  return error;
}

void Space::StopThreads() {
  pthread_mutex_lock(&threads_mutex_);
  if (--thread_users_ == 0) {
    bool monitored;
    {
      Lock lock(*this);
      stop_ticks_ = true;
      pthread_cond_signal(&work_);
      monitored = kernel_.is_open();
    }
    pthread_join(ticker_, nullptr);
    if (monitored) {
      eventfd_write(stop_monitor_, 1);
      pthread_join(monitor_, nullptr);
      close(stop_monitor_);
    }
  }
  pthread_mutex_unlock(&threads_mutex_);
}

}  // namespace urnic::regcache
