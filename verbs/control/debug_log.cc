#include "verbs/control/debug_log.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "datapath/guest/debug_file.h"
#include "verbs/libc/file_size_signal.h"

namespace urnic::control {
namespace {

void WriteLine(int fd, std::string_view text) {
  const int saved = errno;
  std::string line = "urnic: ";
  line.append(text);
  line.push_back('\n');
  urnic_file_size_signal signal;
  urnic_file_size_signal_off(&signal);
  // If the log cannot be written, the caller must not fail.
  [[maybe_unused]] const ssize_t written = write(fd, line.data(), line.size());
  urnic_file_size_signal_back(&signal);
  errno = saved;
}

}  // namespace

void DebugLog(std::string_view text) {
  if (DebugFd() >= 0) WriteLine(DebugFd(), text);
}

void ComplainLoudly(std::string_view text) {
  WriteLine(STDERR_FILENO, text);
  if (DebugFd() != STDERR_FILENO) DebugLog(text);
}

}  // namespace urnic::control
