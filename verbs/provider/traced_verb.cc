#include "verbs/provider/traced_verb.h"

#include <cerrno>
#include <cstdint>

namespace urnic::provider {

void TracedVerb::Add(TracePoint point, int error) const {
  constexpr Duration kPatience = Duration::Microseconds(100);
  const int saved = errno;
  Engine& engine = Context::From(context_)->device().engine();
  {
    Engine::ControlScope scope(engine, kPatience);
    TracePlace place = TracePlace::Here();
    place.function = name_;
    if (scope.entered())
      engine.trace().Add(point, {}, {static_cast<uint64_t>(error)}, place);
  }
  errno = saved;
}

}  // namespace urnic::provider
