#include "verbs/control/debug_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace urnic::control {
namespace {

int OpenLog() {
  const char* where = std::getenv("URNIC_DEBUG");
  if (where == nullptr || *where == 0) return -1;
  if (std::string_view(where) == "-") return STDERR_FILENO;
  const int fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return -1;
  // The low numbers are the program's: it may count on what it gets next.
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, 64);
  if (high < 0) return fd;
  close(fd);
  return high;
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

}  // namespace

void DebugLog(std::string_view text) {
  static const int fd = OpenLog();
  if (fd >= 0) WriteLine(fd, text);
}

void ComplainLoudly(std::string_view text) { WriteLine(STDERR_FILENO, text); }

}  // namespace urnic::control
