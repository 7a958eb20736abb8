#pragma once

// The functions that this library intercepts, in the next library: another
// preloaded one, or libc. Only for passing on a program's calls. This library's
// own calls go to libc (libc_call.h).
//
// The first call of any of them looks up all. In practice that is during
// program start. A look-up takes the loader's lock, so it would not be safe
// later, in signal handlers or in the child of a threaded program. A
// constructor must not do it, because the library must be inert.

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

struct statx;

typedef int (*urnic_dirent_filter)(const struct dirent*);
typedef int (*urnic_dirent_compare)(const struct dirent**,
                                    const struct dirent**);
typedef void (*urnic_plain_handler)(int);

// URNIC_NEXT(result, name, arguments). The ...64 variants of the stat and
// dirent functions are the same on 64-bit machines and use these.
#define URNIC_NEXT_FUNCTIONS(URNIC_NEXT)                                    \
  URNIC_NEXT(int, open, (const char*, int, ...))                            \
  URNIC_NEXT(int, open64, (const char*, int, ...))                          \
  URNIC_NEXT(int, openat, (int, const char*, int, ...))                     \
  URNIC_NEXT(int, openat64, (int, const char*, int, ...))                   \
  URNIC_NEXT(FILE*, fopen, (const char*, const char*))                      \
  URNIC_NEXT(FILE*, fopen64, (const char*, const char*))                    \
  URNIC_NEXT(DIR*, opendir, (const char*))                                  \
  URNIC_NEXT(int, scandir,                                                  \
             (const char*, struct dirent***, urnic_dirent_filter,           \
              urnic_dirent_compare))                                        \
  URNIC_NEXT(int, chdir, (const char*))                                     \
  URNIC_NEXT(int, access, (const char*, int))                               \
  URNIC_NEXT(int, euidaccess, (const char*, int))                           \
  URNIC_NEXT(int, faccessat, (int, const char*, int, int))                  \
  URNIC_NEXT(int, fstat, (int, struct stat*))                               \
  URNIC_NEXT(int, fstatat, (int, const char*, struct stat*, int))           \
  URNIC_NEXT(int, statx, (int, const char*, int, unsigned, struct statx*))  \
  URNIC_NEXT(ssize_t, readlink, (const char*, char*, size_t))               \
  URNIC_NEXT(ssize_t, readlinkat, (int, const char*, char*, size_t))        \
  URNIC_NEXT(char*, realpath, (const char*, char*))                         \
  URNIC_NEXT(ssize_t, getxattr, (const char*, const char*, void*, size_t))  \
  URNIC_NEXT(ssize_t, lgetxattr, (const char*, const char*, void*, size_t)) \
  URNIC_NEXT(ssize_t, read, (int, void*, size_t))                           \
  URNIC_NEXT(ssize_t, write, (int, const void*, size_t))                    \
  URNIC_NEXT(int, close, (int))                                             \
  URNIC_NEXT(int, socket, (int, int, int))                                  \
  URNIC_NEXT(int, sigaction,                                                \
             (int, const struct sigaction*, struct sigaction*))             \
  URNIC_NEXT(urnic_plain_handler, signal, (int, urnic_plain_handler))       \
  URNIC_NEXT(urnic_plain_handler, sysv_signal, (int, urnic_plain_handler))  \
  URNIC_NEXT(urnic_plain_handler, sigset, (int, urnic_plain_handler))       \
  URNIC_NEXT(int, sigignore, (int))                                         \
  URNIC_NEXT(int, pthread_sigmask, (int, const sigset_t*, sigset_t*))       \
  URNIC_NEXT(int, sigprocmask, (int, const sigset_t*, sigset_t*))           \
  URNIC_NEXT(int, sigblock, (int))                                          \
  URNIC_NEXT(int, sigsetmask, (int))                                        \
  URNIC_NEXT(int, sighold, (int))                                           \
  URNIC_NEXT(int, sigrelse, (int))

struct urnic_next_calls {
#define URNIC_NEXT(result, name, arguments) result(*name) arguments;
  URNIC_NEXT_FUNCTIONS(URNIC_NEXT)
#undef URNIC_NEXT
};

extern struct urnic_next_calls urnic_next_table;
extern atomic_int urnic_next_known;
void urnic_next_look_up(void);

static inline const struct urnic_next_calls* urnic_next(void) {
  if (__builtin_expect(
          !atomic_load_explicit(&urnic_next_known, memory_order_acquire), 0))
    urnic_next_look_up();
  return &urnic_next_table;
}
