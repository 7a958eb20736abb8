#pragma once

// The wrapper that all operations of libibverbs' table share.

#include <cerrno>

#include "verbs/control/fork_guard.h"

namespace urnic::provider {

template <auto kOperation>
struct VerbOf;

// An operation that returns 0 or an errno. Providers that call the kernel also
// set errno as a side effect, and some programs rely on it.
template <typename... Args, int (*kOperation)(Args...)>
struct VerbOf<kOperation> {
  static int Call(Args... args) {
    const int error = control::InForkedChild() ? EIO : kOperation(args...);
    if (error != 0) errno = error;
    return error;
  }
};

// An operation that returns an object, or nullptr with errno set.
template <typename Object, typename... Args, Object* (*kOperation)(Args...)>
struct VerbOf<kOperation> {
  static Object* Call(Args... args) {
    if (!control::InForkedChild()) return kOperation(args...);
    errno = EIO;
    return nullptr;
  }
};

// `kOperation` as the table has it: in a forked child it fails with EIO, and
// whenever it fails, it sets errno. Polling and posting do not go through this:
// they do the same in branches that they have anyway.
template <auto kOperation>
inline constexpr auto* kVerb = &VerbOf<kOperation>::Call;

}  // namespace urnic::provider
