#pragma once

// Records in the trace of a device (ras/trace) when the program calls a verb,
// and when the verb returns.

#include "ras/trace/trace.h"
#include "verbs/provider/private_interface.h"

namespace urnic::provider {

// The device that a verb's first argument belongs to.
inline ibv_context* ContextOf(ibv_context* context) { return context; }
inline ibv_context* ContextOf(verbs_mr* mr) { return mr->mr.context; }
template <typename Object>
ibv_context* ContextOf(Object* object) {
  return object->context;
}

// Any thread. Waits up to 100 us for the engine's token; without it, the trace
// lacks the event.
class TracedVerb {
 public:
  // `name` lives as long as the program; `context` outlives this object.
  TracedVerb(ibv_context* context, const char* name)
      : context_(context), name_(name) {
    if (__builtin_expect(Wanted(), 0)) Add(TracePoint::kVerbBegins, 0);
  }
  void Ends(int error) const {
    if (__builtin_expect(Wanted(), 0)) Add(TracePoint::kVerbEnds, error);
  }

 private:
  bool Wanted() const;
  [[gnu::cold, gnu::noinline]] void Add(TracePoint point, int error) const;

  ibv_context* const context_;
  const char* const name_;
};

}  // namespace urnic::provider
