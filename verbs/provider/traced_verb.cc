#include "verbs/provider/traced_verb.h"

#include <cerrno>
#include <cstdint>

#include "datapath/engine/engine.h"
#include "verbs/provider/context.h"

namespace urnic::provider {

bool TracedVerb::Wanted() const {
  return Context::From(context_)->device().engine().trace().levels().Wants(
      TracePoint::kVerbBegins);
}

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
