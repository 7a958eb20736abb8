#include "datapath/debug_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "verbs/abi/high_fd.h"

namespace urnic {
namespace {

int Open() {
  const char* where = std::getenv("URNIC_DEBUG");
  if (where == nullptr || *where == 0) return -1;
  if (std::string_view(where) == "-") return STDERR_FILENO;
  return urnic_move_fd_high(
      open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
}

}  // namespace

int DebugFd() {
  static const int fd = Open();
  return fd;
}

}  // namespace urnic
