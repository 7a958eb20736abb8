// The libc functions that the plugin calls, DPDK's drivers included, and that
// would be cancellation points. The linker sends the calls here (--wrap in
// BUILD.bazel), and they go on to libc (verbs/preload/libc_call.h). plugin_test
// checks that none is missing. Waiting until the program acknowledges events
// stays a cancellation point, as in libibverbs.

#include "verbs/provider/no_cancellation.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <ctime>

namespace urnic::provider {

#define URNIC_UNCANCELLED(Result, name, parameters, arguments) \
  extern "C" Result urnic_libc_##name parameters;              \
  extern "C" Result __wrap_##name parameters;                  \
  Result __wrap_##name parameters {                            \
    const NoCancellation guard;                                \
    return urnic_libc_##name arguments;                        \
  }

URNIC_UNCANCELLED(int, accept, (int fd, sockaddr* from, socklen_t* bytes),
                  (fd, from, bytes))
URNIC_UNCANCELLED(int, accept4,
                  (int fd, sockaddr* from, socklen_t* bytes, int flags),
                  (fd, from, bytes, flags))
URNIC_UNCANCELLED(int, close, (int fd), (fd))
URNIC_UNCANCELLED(int, connect, (int fd, const sockaddr* to, socklen_t bytes),
                  (fd, to, bytes))
URNIC_UNCANCELLED(int, epoll_wait,
                  (int fd, epoll_event* events, int count, int timeout_ms),
                  (fd, events, count, timeout_ms))
URNIC_UNCANCELLED(int, eventfd_write, (int fd, eventfd_t value), (fd, value))
URNIC_UNCANCELLED(int, fallocate, (int fd, int mode, off_t offset, off_t bytes),
                  (fd, mode, offset, bytes))
URNIC_UNCANCELLED(int, fallocate64,
                  (int fd, int mode, off64_t offset, off64_t bytes),
                  (fd, mode, offset, bytes))
URNIC_UNCANCELLED(int, nanosleep, (const timespec* time, timespec* left),
                  (time, left))
// libc ignores the mode if the caller gave none.
URNIC_UNCANCELLED(int, open, (const char* path, int flags, mode_t mode),
                  (path, flags, mode))
URNIC_UNCANCELLED(int, open64, (const char* path, int flags, mode_t mode),
                  (path, flags, mode))
URNIC_UNCANCELLED(int, openat,
                  (int dir, const char* path, int flags, mode_t mode),
                  (dir, path, flags, mode))
URNIC_UNCANCELLED(int, openat64,
                  (int dir, const char* path, int flags, mode_t mode),
                  (dir, path, flags, mode))
URNIC_UNCANCELLED(int, poll, (pollfd * fds, nfds_t count, int timeout_ms),
                  (fds, count, timeout_ms))
URNIC_UNCANCELLED(int, __poll_chk,
                  (pollfd * fds, nfds_t count, int timeout_ms, size_t room),
                  (fds, count, timeout_ms, room))
URNIC_UNCANCELLED(int, ppoll,
                  (pollfd * fds, nfds_t count, const timespec* timeout,
                   const sigset_t* mask),
                  (fds, count, timeout, mask))
URNIC_UNCANCELLED(int, __ppoll_chk,
                  (pollfd * fds, nfds_t count, const timespec* timeout,
                   const sigset_t* mask, size_t room),
                  (fds, count, timeout, mask, room))
URNIC_UNCANCELLED(ssize_t, pread64,
                  (int fd, void* to, size_t bytes, off64_t offset),
                  (fd, to, bytes, offset))
URNIC_UNCANCELLED(ssize_t, pwrite,
                  (int fd, const void* from, size_t bytes, off_t offset),
                  (fd, from, bytes, offset))
URNIC_UNCANCELLED(ssize_t, pwrite64,
                  (int fd, const void* from, size_t bytes, off64_t offset),
                  (fd, from, bytes, offset))
URNIC_UNCANCELLED(ssize_t, read, (int fd, void* to, size_t bytes),
                  (fd, to, bytes))
URNIC_UNCANCELLED(ssize_t, __read_chk,
                  (int fd, void* to, size_t bytes, size_t room),
                  (fd, to, bytes, room))
URNIC_UNCANCELLED(ssize_t, readv, (int fd, const iovec* parts, int count),
                  (fd, parts, count))
URNIC_UNCANCELLED(ssize_t, recv, (int fd, void* to, size_t bytes, int flags),
                  (fd, to, bytes, flags))
URNIC_UNCANCELLED(ssize_t, __recv_chk,
                  (int fd, void* to, size_t bytes, size_t room, int flags),
                  (fd, to, bytes, room, flags))
URNIC_UNCANCELLED(ssize_t, recvmsg, (int fd, msghdr* message, int flags),
                  (fd, message, flags))
URNIC_UNCANCELLED(ssize_t, send,
                  (int fd, const void* from, size_t bytes, int flags),
                  (fd, from, bytes, flags))
URNIC_UNCANCELLED(ssize_t, sendmsg, (int fd, const msghdr* message, int flags),
                  (fd, message, flags))
// sendto() goes to datapath/port/transmit_ring.cc, which uses syscall(2): that
// never cancels.
URNIC_UNCANCELLED(unsigned, sleep, (unsigned seconds), (seconds))
URNIC_UNCANCELLED(int, usleep, (useconds_t us), (us))
URNIC_UNCANCELLED(ssize_t, write, (int fd, const void* from, size_t bytes),
                  (fd, from, bytes))
URNIC_UNCANCELLED(ssize_t, writev, (int fd, const iovec* parts, int count),
                  (fd, parts, count))

// Not directly to libc: tools that watch threads should see this join.
extern "C" int __real_pthread_join(pthread_t thread, void** result);
extern "C" int __wrap_pthread_join(pthread_t thread, void** result);
int __wrap_pthread_join(pthread_t thread, void** result) {
  const NoCancellation guard;
  return __real_pthread_join(thread, result);
}

}  // namespace urnic::provider
