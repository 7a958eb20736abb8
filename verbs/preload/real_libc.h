#pragma once

// The functions that this library stands in front of, as libc has them.
//
// They are looked up all together by the first call of any of them, which is
// during program start in practice: a look-up takes the loader's lock and would
// not be safe later, in signal handlers or in the child of a threaded program.
// There is no constructor that could do it: the library must be inert.

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

// URNIC_REAL(result, name, arguments). The ...64 twins of the stat and dirent
// functions are the same on 64-bit machines and go through these.
#define URNIC_REAL_FUNCTIONS(URNIC_REAL)                                    \
  URNIC_REAL(int, open, (const char*, int, ...))                            \
  URNIC_REAL(int, open64, (const char*, int, ...))                          \
  URNIC_REAL(int, openat, (int, const char*, int, ...))                     \
  URNIC_REAL(int, openat64, (int, const char*, int, ...))                   \
  URNIC_REAL(FILE*, fopen, (const char*, const char*))                      \
  URNIC_REAL(FILE*, fopen64, (const char*, const char*))                    \
  URNIC_REAL(DIR*, opendir, (const char*))                                  \
  URNIC_REAL(int, scandir,                                                  \
             (const char*, struct dirent***, urnic_dirent_filter,           \
              urnic_dirent_compare))                                        \
  URNIC_REAL(int, chdir, (const char*))                                     \
  URNIC_REAL(int, access, (const char*, int))                               \
  URNIC_REAL(int, euidaccess, (const char*, int))                           \
  URNIC_REAL(int, faccessat, (int, const char*, int, int))                  \
  URNIC_REAL(int, fstat, (int, struct stat*))                               \
  URNIC_REAL(int, fstatat, (int, const char*, struct stat*, int))           \
  URNIC_REAL(int, statx, (int, const char*, int, unsigned, struct statx*))  \
  URNIC_REAL(ssize_t, readlink, (const char*, char*, size_t))               \
  URNIC_REAL(ssize_t, readlinkat, (int, const char*, char*, size_t))        \
  URNIC_REAL(char*, realpath, (const char*, char*))                         \
  URNIC_REAL(ssize_t, getxattr, (const char*, const char*, void*, size_t))  \
  URNIC_REAL(ssize_t, lgetxattr, (const char*, const char*, void*, size_t)) \
  URNIC_REAL(ssize_t, read, (int, void*, size_t))                           \
  URNIC_REAL(ssize_t, write, (int, const void*, size_t))                    \
  URNIC_REAL(int, close, (int))                                             \
  URNIC_REAL(int, socket, (int, int, int))                                  \
  URNIC_REAL(int, sigaction,                                                \
             (int, const struct sigaction*, struct sigaction*))             \
  URNIC_REAL(urnic_plain_handler, signal, (int, urnic_plain_handler))       \
  URNIC_REAL(urnic_plain_handler, sysv_signal, (int, urnic_plain_handler))  \
  URNIC_REAL(urnic_plain_handler, sigset, (int, urnic_plain_handler))       \
  URNIC_REAL(int, sigignore, (int))

struct urnic_real_libc {
#define URNIC_REAL(result, name, arguments) result(*name) arguments;
  URNIC_REAL_FUNCTIONS(URNIC_REAL)
#undef URNIC_REAL
};

extern struct urnic_real_libc urnic_real_libc_table;
extern atomic_int urnic_real_libc_known;
void urnic_real_libc_look_up(void);

static inline const struct urnic_real_libc* urnic_real(void) {
  if (__builtin_expect(
          !atomic_load_explicit(&urnic_real_libc_known, memory_order_acquire),
          0))
    urnic_real_libc_look_up();
  return &urnic_real_libc_table;
}
