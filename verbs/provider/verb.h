#pragma once

// The wrapper of the operations in libibverbs' table, except posting, polling
// and closing the device. It does the first steps of entry.h, sets errno, and
// adds to the trace.

#include <array>
#include <cerrno>
#include <cstddef>
#include <string_view>

#include "verbs/provider/entry.h"
#include "verbs/provider/ops.h"
#include "verbs/provider/traced_verb.h"

namespace urnic::provider {

// The name of an operation, as "CreateQp", from the compiler's "... [with auto
// kOperation = urnic::provider::CreateQp]".
template <auto kOperation>
constexpr auto NameOf() {
  constexpr std::string_view whole = __PRETTY_FUNCTION__;
  constexpr size_t begin = whole.find_last_of(" :") + 1;
  constexpr std::string_view name =
      whole.substr(begin, whole.find_last_not_of("])") + 1 - begin);
  std::array<char, name.size() + 1> text = {};
  name.copy(text.data(), name.size());
  return text;
}
template <auto kOperation>
inline constexpr auto kNameOf = NameOf<kOperation>();

// Whether a verb of this object, or context, may run; otherwise an errno.
template <typename Object>
int Refused(bool inside, const char* verb, Object* object) {
  if (control::InForkedChild()) return EIO;
  if (!inside) return EDEADLK;
  return Inspect(ContextOf(object), verb, object);
}

template <auto kOperation>
struct VerbOf;

// An operation that returns 0 or an errno. Providers that call the kernel also
// set errno as a side effect, and some programs rely on it.
template <typename First, typename... Args, int (*kOperation)(First, Args...)>
struct VerbOf<kOperation> {
  static int Call(First first, Args... args) {
    constexpr const char* kName = kNameOf<kOperation>.data();
    const NamedPresence inside(SpotOf(first), kName);
    if (const int error = Refused(bool{inside}, kName, first))
      return errno = error;
    const TracedVerb traced(ContextOf(first), kName);
    const int error = kOperation(first, args...);
    traced.Ends(error);
    if (error != 0) errno = error;
    return error;
  }
};

// An operation that returns an object, or nullptr with errno set. While the
// device recovers, no object can be made.
template <typename Object, typename First, typename... Args,
          Object* (*kOperation)(First, Args...)>
struct VerbOf<kOperation> {
  static Object* Call(First first, Args... args) {
    constexpr const char* kName = kNameOf<kOperation>.data();
    const NamedPresence inside(CreatorSpotOf(ContextOf(first)), kName);
    if (const int error = Refused(bool{inside}, kName, first)) {
      errno = error;
      return nullptr;
    }
    const TracedVerb traced(ContextOf(first), kName);
    if (absl::Status s = Context::From(ContextOf(first))->device().CheckWorks();
        !s.ok()) {
      return FailNull(ContextOf(first), s);
    }
    Object* const object = kOperation(first, args...);
    traced.Ends(object == nullptr ? errno : 0);
    return object;
  }
};

// `kOperation` as the table has it. Polling and posting do the same in branches
// that they have anyway.
template <auto kOperation>
inline constexpr auto* kVerb = &VerbOf<kOperation>::Call;

}  // namespace urnic::provider
