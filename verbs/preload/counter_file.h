#pragma once

// Emulates the files in ports/1/counters and ports/1/hw_counters
// (verbs/identity/sysfs_counters.h), whose values change while the files exist.
//
// The process that has the device open is asked for the value through its
// control socket: this process, or the one of the same user that has the same
// port in the same network namespace. An open file is a memory file of its own.
// It gets the present value when it is opened, and again by each read(2) from
// its beginning, as in Linux. Other functions that read see the value of the
// last of these.

#include "verbs/preload/fd_table.h"

// Whether this path in the rendered tree is a counter.
int urnic_counter_is(const char* tree_path);

// Returns the descriptor, or -1 with errno. EACCES: not for reading. ENODEV: no
// process that may be asked has the port open. REQUIRES: urnic_counter_is().
int urnic_counter_open(const char* tree_path, int flags);

// Before a read(2) of the descriptor, whose object is of kind URNIC_FD_COUNTER.
// Without a process to ask, the content stays. Keeps errno.
void urnic_counter_before_read(const struct urnic_fd_object* object, int fd);
