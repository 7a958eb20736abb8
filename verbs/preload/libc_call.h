#pragma once

// The RNIC's own calls reach libc itself, whatever else is preloaded.
//
// Other libraries in LD_PRELOAD give a program other sockets, files or clocks
// (librspreload, fakechroot, libfaketime) by functions with libc's names. What
// the program calls belongs to them. What the preload, the plugin and DPDK's
// drivers call for themselves does not: a packet socket is no rsocket. So the
// linker sends each such call (--wrap, the list is in libc_calls.bzl) to a
// jump, __wrap_NAME, to what libc.so.6 has under that name. In the source it
// stays an ordinary call. verbs/provider/plugin_test.sh looks at the binaries.
//
// A shared object that has to do something around a call defines __wrap_NAME
// itself and calls urnic_libc_NAME, which is the same jump.
//
// The addresses are looked up together when the first one is needed, with the
// loader's lock. After that a call costs a load and a branch, and is as safe in
// signal handlers and forked children as libc's own function.
//
// Built with a sanitizer, the calls go to the sanitizer's functions instead:
// they stand for libc there.

// For a source that defines a function of this name itself.
struct stat;
int urnic_libc_fstat(int fd, struct stat* out);

// Looks them up now. Any thread, any number of times; keeps errno.
void urnic_libc_look_up(void);
