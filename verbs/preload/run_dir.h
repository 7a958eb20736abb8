#pragma once

// The directory of a process, which holds its rendered sysfs:
//
//   <place>/urnic-<pid namespace>-<pid>-<start time>
//
// in the first of these places that works: $XDG_RUNTIME_DIR, $TMPDIR, /tmp,
// /run/user/<uid>, /dev/shm. (A variable counts if it is an absolute path.)
//
// From the name alone, every other process of the user can tell whether the
// owner is dead. A pid alone is not enough: pids are reused, and containers
// that share /tmp have separate pids. Readable by all, like sysfs: a program
// may give up root after it has listed the devices. Not for hot paths; any
// thread.

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define URNIC_RUN_DIR_PLACES \
  "$XDG_RUNTIME_DIR, $TMPDIR, /tmp, /run/user/<uid> or /dev/shm"

// In each directory: a symbolic link to the program, as /proc/PID/exe, which
// says whose the directory was after the program has died.
#define URNIC_RUN_DIR_EXE "exe"

// Creates this process's directory, with nothing but that link, and writes its
// path to `path`. First removes the directory of an earlier program of the same
// process (exec keeps the pid). Returns 0, or -errno if no place works.
int urnic_run_dir_make(char* path, size_t size);

// Removes the directory with all its contents; does not follow symbolic links.
void urnic_run_dir_remove(const char* path);

// Writes the path of the program whose directory this is to `program`, which is
// empty if it is not known.
void urnic_run_dir_program(const char* path, char* program, size_t size);

// Searches the places for directories whose process is dead, and for the empty
// ones that DPDK created in earlier releases of uRNIC (<runtime
// directory>/dpdk/urnic<pid>): those of this user, or with `all_users`, for
// root, those that urnic_run_dir_visit() would find. Removes those for which
// `choose` returns nonzero; NULL removes all. A program that starts meanwhile
// does not lose its directory: no dead process had its name.
void urnic_run_dir_sweep(int all_users,
                         int (*choose)(void* context, const char* path,
                                       unsigned long long pid),
                         void* context);

// Calls `visit` for each directory whose process is alive: those of this user
// or, for root, of all users, including /run/user/<uid> of others. `pid` is the
// one in that process's own pid namespace. Directories in another user's
// $XDG_RUNTIME_DIR or $TMPDIR are not found, because those variables are not
// known here.
void urnic_run_dir_visit(void (*visit)(void* context, const char* path,
                                       unsigned long long pid),
                         void* context);

#ifdef __cplusplus
}
#endif
