#pragma once

// Determines the version of libibverbs. Two numbers identify the layout of its
// interface to providers: the version of its private symbols, which is also the
// suffix of the providers' file names, and the version of its newest public
// symbols. One is not enough: a release has changed the layout under the same
// private number. The provider checks the library that loads it; the preload
// checks that of the program; the command checks the library that a program
// would load. Plain C11, libc only; any thread.

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct urnic_verbs_version {
  int private_abi;   // n of "IBVERBS_PRIVATE_<n>"
  int newest_minor;  // the largest n of "IBVERBS_1.<n>"
};

// The versions that our provider is built for, oldest first.
#define URNIC_VERBS_RELEASES "rdma-core 36 to 65"
#define URNIC_VERBS_KNOWN 6
extern const struct urnic_verbs_version urnic_verbs_known[URNIC_VERBS_KNOWN];

// `library` is a handle of dlopen(). A number is 0 if it has no such symbols.
struct urnic_verbs_version urnic_verbs_version_of(void* library);

// Returns whether it is one of urnic_verbs_known.
int urnic_verbs_is_known(struct urnic_verbs_version version);

// Writes why the version is not supported, without a period at the end, for a
// message that names the library.
void urnic_verbs_say_unknown(struct urnic_verbs_version version, char* text,
                             size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif
