#include "datapath/port/stale_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace urnic {
namespace {

// The number of an inode alone is not enough, because it is soon reused.
bool IsSame(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino &&
         one.st_mtim.tv_sec == other.st_mtim.tv_sec &&
         one.st_mtim.tv_nsec == other.st_mtim.tv_nsec;
}

bool IsStale(const std::string& path, struct stat& info) {
  return !path.empty() && lstat(path.c_str(), &info) == 0 &&
         S_ISSOCK(info.st_mode) && !SomebodyListens(path);
}

}  // namespace

bool SomebodyListens(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::strcpy(address.sun_path, path.c_str());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const int rc =
      connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  // EAGAIN: its backlog is full. EPROTOTYPE: it is not a stream socket (memif).
  const bool somebody =
      rc == 0 || errno == EAGAIN || errno == EPROTOTYPE || errno == EACCES;
  close(fd);
  return somebody;
}

bool IsStaleSocket(const std::string& path) {
  struct stat info = {};
  return IsStale(path, info);
}

int RemoveStaleSocket(const std::string& path) {
  struct stat found = {};
  if (!IsStale(path, found)) return 0;
  // Between the look and unlink(), another program may remove the file and bind
  // its own socket. So the file is moved out of its way first.
  const std::string aside = path + "." + std::to_string(getpid());
  if (std::rename(path.c_str(), aside.c_str()) != 0)
    return errno == ENOENT ? 0 : errno;
  struct stat moved = {};
  const bool is_found = lstat(aside.c_str(), &moved) == 0 &&
                        IsSame(found, moved) && !SomebodyListens(aside);
  const int rc = is_found ? unlink(aside.c_str())
                          : std::rename(aside.c_str(), path.c_str());
  return rc == 0 ? 0 : errno;
}

}  // namespace urnic
