#pragma once

// What all operations of libibverbs' table have in common, in one place.

#include <cerrno>

#include "verbs/control/fork_guard.h"

namespace urnic::provider {

template <auto kOperation>
struct VerbOf;

// An operation that answers 0 or an errno. Providers that reach the kernel set
// errno by the way, and programs have come to read it.
template <typename... Args, int (*kOperation)(Args...)>
struct VerbOf<kOperation> {
  static int Call(Args... args) {
    const int error = control::InForkedChild() ? EIO : kOperation(args...);
    if (error != 0) errno = error;
    return error;
  }
};

// An operation that answers an object, or nullptr with errno set.
template <typename Object, typename... Args, Object* (*kOperation)(Args...)>
struct VerbOf<kOperation> {
  static Object* Call(Args... args) {
    if (!control::InForkedChild()) return kOperation(args...);
    errno = EIO;
    return nullptr;
  }
};

// `kOperation` as it stands in the table: in a forked child it answers EIO, and
// whenever it fails, errno says why. Polling and posting are not called through
// this: they do the same in branches that they have anyway.
template <auto kOperation>
inline constexpr auto* kVerb = &VerbOf<kOperation>::Call;

}  // namespace urnic::provider
