#pragma once

// Emulates /dev/infiniband/rdma_cm. Commands go to the provider
// (urnic_rdma_cm_device in preload_api.h); this file implements the descriptor.
//
// It is the read end of a pipe, which contains bytes while events wait. So
// poll, epoll and O_NONBLOCK are the kernel's. A command that must wait for an
// event reads one of these bytes, and signals interrupt or restart it as they
// would in the kernel.

#include <stddef.h>
#include <sys/types.h>

#include "verbs/preload/preload_api.h"

struct urnic_fd_object;

// preload_api.h specifies these three.
int urnic_rdma_cm_set_device(const struct urnic_rdma_cm_device* device);
void urnic_rdma_cm_set_ready(void* node, int ready);
void* urnic_rdma_cm_file(int fd);

// Returns the descriptor, or -1 with errno. ENODEV: there is no provider yet.
int urnic_rdma_cm_open(int flags);
// Executes one command, written to `fd`. `result`, with errno, is that of
// write(2). 0: `fd` is not the node's any more, and nothing was done.
int urnic_rdma_cm_write(struct urnic_fd_object* node, int fd,
                        const void* command, size_t size, ssize_t* result);
