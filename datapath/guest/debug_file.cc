#include "datapath/guest/debug_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "verbs/libc/high_fd.h"

namespace urnic {
namespace {

int Open() {
  const char* where = std::getenv("URNIC_DEBUG");
  if (where == nullptr || *where == 0) return -1;
  if (std::string_view(where) == "-") return STDERR_FILENO;
  const int saved = errno;
  const int fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    dprintf(STDERR_FILENO, "urnic: URNIC_DEBUG=%s: %s\n", where,
            std::strerror(errno));
  }
  errno = saved;
  return fd < 0 ? -1 : urnic_move_fd_high(fd);
}

}  // namespace

int DebugFd() {
  static const int fd = Open();
  return fd;
}

}  // namespace urnic
