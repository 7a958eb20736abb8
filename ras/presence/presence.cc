#include "ras/presence/presence.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "datapath/guest/give_way.h"

namespace urnic {

namespace {

std::atomic<ThreadPlace*> g_first = nullptr;
std::atomic<bool> g_closed = false;

// When a thread ends. Its later verbs, in destructors of the program, make it
// take a place again, which comes back here.
void GiveBack(void* place) {
  static_cast<ThreadPlace*>(place)->owner.store(0, std::memory_order_release);
}

pthread_key_t KeyOfPlaces() {
  static const pthread_key_t key = [] {
    pthread_key_t made = 0;
    pthread_key_create(&made, GiveBack);
    return made;
  }();
  return key;
}

// Calls take(place) for the places from the thread's home on, until it returns
// true; null: it never does.
template <typename Take>
ThreadPlace* Probe(uintptr_t thread, Take&& take) {
  const auto home =
      static_cast<uint32_t>(internal::HomeOf(thread) - internal::g_places);
  for (uint32_t i = 0; i < kThreadsMax; ++i) {
    ThreadPlace* const place =
        &internal::g_places[(home + i) & (kThreadsMax - 1)];
    if (take(place)) return place;
  }
  return nullptr;
}

// Once: CloseAllPlaces() must find every place that has an owner.
void List(ThreadPlace* place) {
  if (place->listed.exchange(true)) return;
  place->next = g_first.load(std::memory_order_relaxed);
  while (!g_first.compare_exchange_weak(place->next, place)) {
  }
}

ThreadPlace* TakePlace() {
  const uintptr_t self = ThisThread();
  ThreadPlace* const place = Probe(self, [&](ThreadPlace* p) {
    uintptr_t nobody = 0;
    if (p->owner.load(std::memory_order_relaxed) != 0) return false;
    List(p);
    return p->owner.compare_exchange_strong(
        nobody, LightFenceIsFree() ? self : self + 1);
  });
  if (place == nullptr) return nullptr;
  pthread_setspecific(KeyOfPlaces(), place);
  place->thread = static_cast<pid_t>(syscall(SYS_gettid));
  return place;
}

}  // namespace

namespace internal {

constinit ThreadPlace g_places[kThreadsMax];

ThreadPlace* MyPlace() {
  // The key knows it, also when it is not at its home.
  return static_cast<ThreadPlace*>(pthread_getspecific(KeyOfPlaces()));
}

ThreadPlace* EnterSlowly(const void* object, const char* verb) {
  if (g_closed.load(std::memory_order_relaxed)) return nullptr;
  ThreadPlace* place = MyPlace();
  if (place == nullptr) place = TakePlace();
  if (place == nullptr) return nullptr;
  if (place->presence.Enter(object)) {
    LightFence();
    return place;
  }
  place->nested_verb.store(verb, std::memory_order_relaxed);
  place->nested.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

ThreadPlace* FirstPlace() { return g_first.load(std::memory_order_acquire); }

bool WaitOn(Time begin, Duration patience) {
  GiveWay();
  return MonotonicNow() - begin < patience;
}

}  // namespace internal

void CloseAllPlaces() {
  g_closed = true;
  for (ThreadPlace* p = internal::FirstPlace(); p != nullptr; p = p->next) {
    p->owner.store(0, std::memory_order_relaxed);
  }
}

Absence::Absence() : place_(internal::MyPlace()) {
  if (place_ == nullptr) return;
  object_ = place_->presence.object();
  verb_ = place_->verb.load(std::memory_order_relaxed);
  if (object_ != nullptr) place_->presence.Leave();
}

Absence::~Absence() {
  if (object_ == nullptr) return;
  place_->presence.Enter(object_);
  place_->verb.store(verb_, std::memory_order_relaxed);
}

}  // namespace urnic
