#pragma once

// /dev/infiniband/rdma_cm without a node. Commands go to the provider
// (urnic_rdma_cm_device in preload_api.h); what is here is the descriptor.
//
// It is the read end of a pipe, which holds bytes while events wait: poll,
// epoll and O_NONBLOCK are the kernel's, and a command that has to wait for an
// event is a read of one of them, which signals interrupt, or restart, as they
// would the kernel's own.

#include <stddef.h>
#include <sys/types.h>

#include "verbs/preload/preload_api.h"

struct urnic_fd_object;

// preload_api.h says what these three promise.
int urnic_rdma_cm_set_device(const struct urnic_rdma_cm_device* device);
void urnic_rdma_cm_set_ready(void* node, int ready);
void* urnic_rdma_cm_file(int fd);

// The descriptor, or -1 with errno; ENODEV as long as no provider is there.
int urnic_rdma_cm_open(int flags);
// One command. As write(2).
ssize_t urnic_rdma_cm_write(struct urnic_fd_object* node, const void* command,
                            size_t size);
