#pragma once

// The RNIC's own calls go directly to libc, even if other libraries are
// preloaded.
//
// Other libraries in LD_PRELOAD replace a program's sockets, files or clocks
// (librspreload, fakechroot, libfaketime) by functions with libc's names. Calls
// by the program should reach them. Calls by the preload, the plugin and DPDK's
// drivers should not: a packet socket is not an rsocket. So the linker
// redirects each such call (--wrap, the list is in libc_calls.bzl) to a jump,
// __wrap_NAME, to the function of that name in libc.so.6. In the source it is
// an ordinary call. verbs/provider/plugin_test.sh checks the binaries.
//
// A shared object that adds something to a call defines __wrap_NAME itself and
// calls urnic_libc_NAME, which is the same jump.
//
// The addresses are looked up together when the first one is needed, with the
// loader's lock. After that a call costs a load and a branch, and is as safe in
// signal handlers and forked children as libc's own function.
//
// In a build with a sanitizer, the calls go to the sanitizer's functions
// instead of libc's.

// For a source file that defines a function of this name itself.
struct stat;
int urnic_libc_fstat(int fd, struct stat* out);

// Looks them up now. Any thread, any number of times; keeps errno.
void urnic_libc_look_up(void);
