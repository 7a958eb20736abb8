#pragma once

#include <cstdio>
#include <cstdlib>

// An assert that stays on in release: for our own mistakes only, never for
// wire input (a counted verdict) or a caller's mistake (errno or Status).
#define URNIC_CHECK(condition)                                           \
  do {                                                                   \
    if (__builtin_expect(!(condition), 0)) {                             \
      std::fprintf(stderr, "urnic: %s:%d: check failed: %s\n", __FILE__, \
                   __LINE__, #condition);                                \
      std::abort();                                                      \
    }                                                                    \
  } while (0)
