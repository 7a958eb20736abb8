#pragma once

// Emulates open and write of /dev/infiniband/uverbsN.
//
// An open node is the read end of a pipe without a writer. It has its own inode
// (fd_table.h). Every ioctl fails with ENOTTY, which makes libibverbs use the
// write protocol. A write that does not come through here fails instead of
// seeming to succeed.

#include <stddef.h>
#include <sys/types.h>

// Returns the descriptor, or -1 with errno. Only O_CLOEXEC of `flags` has an
// effect.
int urnic_uverbs_open(int device, int flags);
// Executes one command of the write protocol. Only creates completion channels;
// all else is up to the provider, so it fails with EOPNOTSUPP.
ssize_t urnic_uverbs_write(const void* command, size_t size);
