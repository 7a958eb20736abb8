#pragma once

// Completion channels. The program has the read end of a pipe, so poll, epoll,
// O_NONBLOCK and reads of 8 bytes are the kernel's own. Events that do not fit
// into the pipe wait in a set. preload_api.h specifies push and drop.

#include <stdint.h>

struct urnic_fd_object;

// A new channel's descriptor (close-on-exec, blocking), or -errno.
int urnic_channel_open(void);

int urnic_channel_push(int channel_fd, uint64_t cq_handle);
unsigned urnic_channel_drop(int channel_fd, uint64_t cq_handle);

// After the program has read the channel: moves waiting events into the pipe.
// Keeps errno.
void urnic_channel_after_read(struct urnic_fd_object* channel);
