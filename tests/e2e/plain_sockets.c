// For programs that create sockets with flags (python3: SOCK_CLOEXEC; haproxy:
// accept4 with SOCK_NONBLOCK), which librspreload would leave to the kernel:
// removes the flags, and sets O_NONBLOCK afterwards. Must precede librspreload
// in LD_PRELOAD.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>

#define NEXT(name) ((__typeof__(name)*)dlsym(RTLD_NEXT, #name))

int socket(int domain, int type, int protocol) {
  return NEXT(socket)(domain, type & ~SOCK_CLOEXEC, protocol);
}

int accept4(int fd, struct sockaddr* from, socklen_t* size, int flags) {
  const int accepted = NEXT(accept)(fd, from, size);
  if (accepted >= 0 && (flags & SOCK_NONBLOCK) != 0)
    NEXT(fcntl)(accepted, F_SETFL, O_NONBLOCK);
  return accepted;
}
