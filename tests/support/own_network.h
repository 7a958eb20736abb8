#pragma once

// The test's own network namespace, without root: a user namespace gives the
// rights.

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace urnic::testing {

// Writes to an existing file.
inline bool WriteFile(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return ok;
}

// False: user namespaces are not allowed. Call it before any thread exists:
// unshare() requires that.
inline bool EnterOwnNetwork() {
  const uid_t uid = getuid();
  const gid_t gid = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  WriteFile("/proc/self/setgroups", "deny");
  return WriteFile("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1") &&
         WriteFile("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1");
}

// Runs ip(8) with these words, which a shell parses.
inline bool Ip(const std::string& words) {
  return std::system(("ip " + words).c_str()) == 0;
}

}  // namespace urnic::testing
