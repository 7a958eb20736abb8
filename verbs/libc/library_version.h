#pragma once

// Which libibverbs is this? Its private interface to providers has no version
// that can be asked for, but each release that changed it also added public
// symbols (measured over all releases, verbs/provider/README.md), so the newest
// public version tells the layout. Asked by the provider, of the library that
// loads it, and by the command line, of the one that a program would load.
// Plain C11, libc only; any thread.

#ifdef __cplusplus
extern "C" {
#endif

// The library that our provider is built for: rdma-core 36 to 56.
#define URNIC_VERBS_MINOR 14
#define URNIC_VERBS_PRIVATE 34
#define URNIC_VERBS_RELEASES "rdma-core 36 to 56"

// `library` is a handle of dlopen(). n of the newest "IBVERBS_1.<n>" that it
// has, of those we know; 0 if it has none of them.
int urnic_verbs_newest_minor(void* library);

// n of its "IBVERBS_PRIVATE_<n>", which is also the suffix of providers' file
// names; 0 if it takes no providers.
int urnic_verbs_private_abi(void* library);

#ifdef __cplusplus
}  // extern "C"
#endif
