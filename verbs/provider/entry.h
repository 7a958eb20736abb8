#pragma once

// The first steps of each verb (document E 5.1.2 to 5.1.4): it records that its
// thread is inside, and checks the marks of its objects. Instead of crashing,
// it refuses a call with
//   EIO      in a forked child, and for an object that the program has
//            overwritten: its queue pair fails, and all others continue
//   EDEADLK  inside another verb, as in a signal handler
//   EINVAL   for an object that was destroyed
// Posting and polling check the mark before the object, on a cache line that
// libibverbs has just read; the other verbs check both marks.

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "ras/marks/marked_slab.h"
#include "ras/presence/presence.h"
#include "verbs/control/fork_guard.h"
#include "verbs/provider/objects.h"

namespace urnic::provider {

// Names the place of a thread for Presence: an object, or a context, whose
// address is made odd.
inline const void* SpotOf(const ibv_context* context) {
  return reinterpret_cast<const char*>(context) + 1;
}
inline const void* SpotOf(const void* object) { return object; }
// The place of verbs that make an object, and so use several others: a second
// place of their context. A verb that destroys an object waits for threads
// there, too.
inline const void* CreatorSpotOf(const ibv_context* context) {
  return reinterpret_cast<const char*>(context) + 3;
}
inline bool IsContext(const void* where) {
  return (reinterpret_cast<uintptr_t>(where) & 1) != 0;
}
// The context of an object, which begins with that pointer. The memory of
// objects is never unmapped, but may just become another object, so a caller
// that asks on behalf of a thread inside must check again.
[[gnu::no_sanitize_thread]] inline const ibv_context* ContextAt(
    const void* object) {
  const ibv_context* context;
  std::memcpy(&context, object, sizeof(context));
  return context;
}

// An object, or a part of a queue pair's block, whose marks are damaged.
struct Suspect {
  ibv_context* context;
  Health health;
  const void* handle;  // the program's pointer
  const void* object;
  size_t bytes;
  Marks marks;
  uint64_t found;  // the damaged mark before it
};

// The damaged part of the object's block, if it has one.
inline const MarkedBlock::Part* FindDamagedPart(const QueuePair* qp) {
  return qp->control == nullptr ? nullptr : qp->parts.FindDamaged(qp->block);
}
inline const MarkedBlock::Part* FindDamagedPart(const void*) { return nullptr; }

// Reports the damage to `urnic show error`, fences the object off the first
// time, and returns the errno of the verb.
[[gnu::cold, gnu::noinline]] int RefuseSuspect(const Suspect& suspect,
                                               const char* verb);

// Fences the queue pair off, because this part of it is damaged.
void SuspectPart(const MarkedBlock::Part& part, const void* object,
                 Suspect& suspect);

template <typename T>
Suspect SuspectOf(T* object, ibv_context* context) {
  Suspect suspect{context,   HealthOf(object), object,         object,
                  sizeof(T), T::kMarks,        T::kMarks.start};
  if (suspect.health == Health::kDamaged) {
    suspect.found = FenceOff(object);
    if (suspect.found == T::kMarks.fenced) suspect.health = Health::kFenced;
  }
  if (suspect.health != Health::kIntact) return suspect;
  if (const MarkedBlock::Part* const part = FindDamagedPart(object)) {
    SuspectPart(*part, object, suspect);
  }
  return suspect;
}

// Whether the marks of the object and of all its parts are intact.
template <typename T>
bool IsWhole(const T* object) {
  return HealthOf(object) == Health::kIntact &&
         FindDamagedPart(object) == nullptr;
}

// For posting and polling.
template <typename T>
bool MayUse(const Presence& inside, const T* object) {
  return inside && HasStartMark(object);
}
inline bool MayUse(const Presence& inside, const QueuePair* qp) {
  return inside && HasStartMark(qp) &&
         control::Qp::HasStartMark(qp->control.get());
}
// The errno of a verb that may not use `object`, a struct of libibverbs.
template <IbvObject Ibv>
[[gnu::cold, gnu::noinline]] int WhyNot(const Presence& inside, Ibv* object,
                                        const char* verb) {
  if (control::InForkedChild()) return EIO;
  if (!inside) return EDEADLK;
  return RefuseSuspect(SuspectOf(Ours(object), object->context), verb);
}

// For all other verbs: 0 for a null pointer, for an intact object, and for a
// context, which has no marks; otherwise the errno. `context`: that of the
// verb, because that of the object may be gone.
inline int Inspect(ibv_context*, const char*, ibv_context*) { return 0; }
template <IbvObject Ibv>
int Inspect(ibv_context* context, const char* verb, Ibv* object) {
  if (object == nullptr || IsWhole(Ours(object))) return 0;
  return RefuseSuspect(SuspectOf(Ours(object), context), verb);
}
// The first errno of the objects, or 0.
template <typename... Objects>
int InspectAll(ibv_context* context, const char* verb, Objects*... objects) {
  int error = 0;
  static_cast<void>((((error = Inspect(context, verb, objects)) != 0) || ...));
  return error;
}

}  // namespace urnic::provider
