#include "verbs/control/debug_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "verbs/abi/high_fd.h"

namespace urnic::control {
namespace {

int OpenLog() {
  const char* where = std::getenv("URNIC_DEBUG");
  if (where == nullptr || *where == 0) return -1;
  if (std::string_view(where) == "-") return STDERR_FILENO;
  return urnic_move_fd_high(
      open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
}

void WriteLine(int fd, std::string_view text) {
  const int saved = errno;
  std::string line = "urnic: ";
  line.append(text);
  line.push_back('\n');
  // A log that cannot be written is no reason to fail.
  [[maybe_unused]] const ssize_t written = write(fd, line.data(), line.size());
  errno = saved;
}

int LogFd() {
  static const int fd = OpenLog();
  return fd;
}

}  // namespace

void DebugLog(std::string_view text) {
  if (LogFd() >= 0) WriteLine(LogFd(), text);
}

void ComplainLoudly(std::string_view text) {
  WriteLine(STDERR_FILENO, text);
  if (LogFd() != STDERR_FILENO) DebugLog(text);
}

}  // namespace urnic::control
