#pragma once

// The directory of a process, which holds its rendered sysfs:
//
//   <place>/urnic-<pid namespace>-<pid>-<start time>
//
// in the first place that takes it: $XDG_RUNTIME_DIR, $TMPDIR, /tmp,
// /run/user/<uid>, /dev/shm. (A variable counts if it is an absolute path.)
//
// The name tells every other process of the user, without opening anything,
// whether the owner is gone: a pid alone comes back, and containers that share
// /tmp count their pids apart. Readable by all, as sysfs is: a program may give
// up root after it has listed the devices. Not for hot paths; any thread.

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define URNIC_RUN_DIR_PLACES \
  "$XDG_RUNTIME_DIR, $TMPDIR, /tmp, /run/user/<uid> or /dev/shm"

// Makes this process's directory, empty, and writes its path to `path`. What
// was left by an earlier program of the same process (exec keeps the pid) is
// removed first. 0, or -errno when no place allows it.
int urnic_run_dir_make(char* path, size_t size);

// Removes the directory with all it holds; symbolic links are not followed.
void urnic_run_dir_remove(const char* path);

// Looks through the places for directories of this user whose process is gone,
// and removes them if `remove` is set; and for the empty ones that DPDK made
// under earlier uRNICs (<runtime directory>/dpdk/urnic<pid>). Returns how many
// there were.
int urnic_run_dir_sweep(int remove);

// Calls `visit` for each directory whose process lives, of this user or, for
// root, of any, also in /run/user/<uid> of another; `pid` as that process's own
// pid namespace counts. Where another user's $XDG_RUNTIME_DIR or $TMPDIR is
// something else, nobody can know it.
void urnic_run_dir_visit(void (*visit)(void* context, const char* path,
                                       unsigned long long pid),
                         void* context);

#ifdef __cplusplus
}
#endif
