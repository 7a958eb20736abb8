// For programs that want sockets with flags (python3: SOCK_CLOEXEC), which
// librspreload leaves to the kernel: makes them without. Stands in front of it.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/socket.h>

#define NEXT(name) ((__typeof__(name)*)dlsym(RTLD_NEXT, #name))

int socket(int domain, int type, int protocol) {
  return NEXT(socket)(domain, type & ~SOCK_CLOEXEC, protocol);
}

int accept4(int fd, struct sockaddr* from, socklen_t* size, int flags) {
  (void)flags;
  return NEXT(accept)(fd, from, size);
}
