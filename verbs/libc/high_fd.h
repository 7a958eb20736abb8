#pragma once

// Where the RNIC's own descriptors live in a program that did not ask for them:
// above the numbers that programs count on (0 to 2 by meaning, the next by
// "the lowest that is free", and small tables indexed by descriptor).

#include <fcntl.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define URNIC_HIGH_FD_MIN 200

// Returns the same file under a number of at least URNIC_HIGH_FD_MIN,
// close-on-exec, and closes `fd`. Returns `fd` itself if it is high already or
// negative (then errno stays as it is), or where the descriptor limit leaves no
// room: a low number works as well. Any thread.
static inline int urnic_move_fd_high(int fd) {
  if (fd < 0 || fd >= URNIC_HIGH_FD_MIN) return fd;
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, URNIC_HIGH_FD_MIN);
  if (high < 0) return fd;
  close(fd);
  return high;
}

#ifdef __cplusplus
}  // extern "C"
#endif
