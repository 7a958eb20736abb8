#pragma once

// Mutations: places that tests break on purpose, one at a time, to see that an
// oracle notices (tests/sim/README.md). A name says what the code does then:
//
//   if (MUTATION(ignores_gaps, distance > 0, false)) return OnGap(packet);
//
//   MUTATION_SKIPS(forgets_timer)  // the next statement is left out
//   if (was_idle) ArmTimer(now);
//
//   MUTATION_ADDS(net_ignores_silence, return;)
//
// Each stands in one place, and in tests/sim/mutation_list.bzl. What is left
// out is one statement: not a declaration, and not half of an `if` with an
// `else`.
//
// Nothing of this ships: the macros leave only the code that is right. Only
// what tests/sim/mutations.bzl compiles defines URNIC_MUTATIONS. Such a program
// is told when it starts what to break (tests/sim/choose_mutation.cc).

#ifndef URNIC_MUTATIONS

#define MUTATION(name, right, ...) (right)
#define MUTATION_SKIPS(name)
#define MUTATION_ADDS(name, ...)

#else

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace urnic::mutation {

struct Name {
  template <size_t kBytes>
  consteval Name(const char (&literal)[kBytes]) {  // NOLINT: implicit
    static_assert(kBytes <= sizeof(text));
    std::copy_n(literal, kBytes, text);
  }
  char text[64] = {};
};

struct Place;
inline constinit Place* g_places = nullptr;  // all of the program

struct Place {
  explicit Place(const char* its_name)
      : name(its_name), next(std::exchange(g_places, this)) {}

  const char* const name;
  Place* const next;
  bool chosen = false;
};

template <Name kName>
inline Place g_place(kName.text);

// Breaks this one and no other. False: the program does not have it.
inline bool Choose(std::string_view name) {
  bool found = false;
  for (Place* place = g_places; place != nullptr; place = place->next) {
    place->chosen = place->name == name;
    found |= place->chosen;
  }
  return found;
}

}  // namespace urnic::mutation

#define URNIC_MUTATED(name) \
  __builtin_expect(::urnic::mutation::g_place<#name>.chosen, 0)
#define MUTATION(name, right, ...) \
  (URNIC_MUTATED(name) ? (__VA_ARGS__) : (right))
#define MUTATION_SKIPS(name) \
  if (URNIC_MUTATED(name)) { \
  } else
#define MUTATION_ADDS(name, ...) \
  if (URNIC_MUTATED(name)) {     \
    __VA_ARGS__                  \
  }

#endif
