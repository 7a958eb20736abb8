#pragma once

// Determines the version of libibverbs. Its private interface to providers has
// no version that can be queried. But each release that changed it also added
// public symbols (measured over all releases, verbs/provider/README.md), so the
// newest public symbol version identifies the layout. The provider checks the
// library that loads it; the command checks the library that a program would
// load. Plain C11, libc only; any thread.

#ifdef __cplusplus
extern "C" {
#endif

// The versions that our provider is built for: rdma-core 36 to 56.
#define URNIC_VERBS_MINOR 14
#define URNIC_VERBS_PRIVATE 34
#define URNIC_VERBS_RELEASES "rdma-core 36 to 56"

// `library` is a handle of dlopen(). Returns n of the newest known
// "IBVERBS_1.<n>" that it has, or 0.
int urnic_verbs_newest_minor(void* library);

// Returns n of its "IBVERBS_PRIVATE_<n>", which is also the suffix of
// providers' file names, or 0 if it takes no providers.
int urnic_verbs_private_abi(void* library);

#ifdef __cplusplus
}  // extern "C"
#endif
