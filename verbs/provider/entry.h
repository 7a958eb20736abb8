#pragma once

// What each verb does first (document E 5.1.2 to 5.1.4): it notes that its
// thread is inside, and looks at the marks of the objects that it was given. A
// call is refused, instead of crashing,
//   EIO      in a forked child, and for an object that the program has written
//            over: its queue pair fails, and the rest runs on
//   EDEADLK  inside another verb, as in a signal handler
//   EINVAL   for an object that was destroyed
// Posting and polling look at the mark before the object, on a cache line that
// libibverbs has just read; the other verbs look at both marks.

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "ras/marks/marked_slab.h"
#include "ras/presence/presence.h"
#include "verbs/control/fork_guard.h"
#include "verbs/provider/objects.h"

namespace urnic::provider {

// Where a thread is, for Presence: in an object, or in a context, whose address
// is made odd.
inline const void* SpotOf(const ibv_context* context) {
  return reinterpret_cast<const char*>(context) + 1;
}
inline const void* SpotOf(const void* object) { return object; }
inline bool IsContext(const void* where) {
  return (reinterpret_cast<uintptr_t>(where) & 1) != 0;
}
// Of an object, which begins with it. Its memory is never given back.
inline const ibv_context* ContextAt(const void* object) {
  const ibv_context* context;
  std::memcpy(&context, object, sizeof(context));
  return context;
}

// An object whose marks are not those of an intact one.
struct Suspect {
  ibv_context* context;
  Health health;
  const void* object;
  size_t bytes;
  Marks marks;
  uint64_t found;  // before it, if it is damaged
};

// Tells `urnic show error` of it, once fences it off, and returns the errno of
// the verb.
[[gnu::cold, gnu::noinline]] int RefuseSuspect(const Suspect& suspect,
                                               const char* verb);

template <typename T>
Suspect SuspectOf(T* object, ibv_context* context) {
  Suspect suspect{context,   HealthOf(object), object,
                  sizeof(T), T::kMarks,        T::kMarks.start};
  if (suspect.health == Health::kDamaged) {
    suspect.found = FenceOff(object);
    if (suspect.found == T::kMarks.fenced) suspect.health = Health::kFenced;
  }
  return suspect;
}

// For posting and polling.
template <typename T>
bool MayUse(const Presence& inside, const T* object) {
  return inside && HasStartMark(object);
}
// The errno of a verb that may not use `object`, which is libibverbs'.
template <IbvObject Ibv>
[[gnu::cold, gnu::noinline]] int WhyNot(const Presence& inside, Ibv* object,
                                        const char* verb) {
  if (control::InForkedChild()) return EIO;
  if (!inside) return EDEADLK;
  return RefuseSuspect(SuspectOf(Ours(object), object->context), verb);
}

// For all other verbs: 0 for what has no marks, for no object and for an intact
// one; otherwise the errno.
template <typename T>
int Inspect(T, const char*) {
  return 0;
}
template <IbvObject Ibv>
int Inspect(Ibv* object, const char* verb) {
  if (object == nullptr || HealthOf(Ours(object)) == Health::kIntact) return 0;
  if constexpr (requires { object->context; }) {
    return RefuseSuspect(SuspectOf(Ours(object), object->context), verb);
  } else {
    return RefuseSuspect(SuspectOf(Ours(object), object->mr.context), verb);
  }
}

// The first errno among them. By value: an enum that a program has set may be
// out of its range, and a sanitizer objects when that is read from memory.
template <typename... Args>
int InspectAll(const char* verb, Args... args) {
  int error = 0;
  static_cast<void>((((error = Inspect(args, verb)) != 0) || ...));
  return error;
}

}  // namespace urnic::provider
