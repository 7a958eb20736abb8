#pragma once

// Keeps the RNIC's own descriptors out of the way of a program that does not
// know of them: above the numbers that programs rely on (0 to 2 by meaning, the
// next by "the lowest free one", and small tables indexed by descriptor).

#include <fcntl.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define URNIC_HIGH_FD_MIN 200

// Returns the same file under a number of at least URNIC_HIGH_FD_MIN,
// close-on-exec, and closes `fd`. Returns `fd` itself if it is already high or
// negative (errno is unchanged), or if the descriptor limit leaves no room: a
// low number also works. Any thread.
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
