#pragma once

// /dev/infiniband/uverbsN without a node: what open and write answer.
//
// An open node is the read end of a pipe without a writer. It has an inode of
// its own (fd_table.h), answers ENOTTY to every ioctl, which sends libibverbs
// to the write protocol, and fails every write that does not come through here
// instead of seeming to succeed.

#include <stddef.h>
#include <sys/types.h>

// The descriptor, or -1 with errno. Only O_CLOEXEC of `flags` matters.
int urnic_uverbs_open(int device, int flags);
// One command of the write protocol. Completion channels are created here;
// everything else is the provider's, so it answers EOPNOTSUPP.
ssize_t urnic_uverbs_write(const void* command, size_t size);
