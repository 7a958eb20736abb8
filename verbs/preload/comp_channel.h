#pragma once

// Completion channels: a pipe whose read end is the program's, so that poll,
// epoll, O_NONBLOCK and read(8) are the kernel's own; events that do not fit
// wait in a set. preload_api.h says what push and drop promise.

#include <stdint.h>

struct urnic_fd_object;

// A new channel's descriptor (close-on-exec, blocking), or -errno.
int urnic_channel_open(void);

int urnic_channel_push(int channel_fd, uint64_t cq_handle);
unsigned urnic_channel_drop(int channel_fd, uint64_t cq_handle);

// After the program has read the channel: moves waiting events into the pipe.
// Keeps errno.
void urnic_channel_after_read(struct urnic_fd_object* channel);
