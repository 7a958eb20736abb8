#include "datapath/port/unix_socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "datapath/port/inherited_sockets.h"

namespace urnic {
namespace {

using NameOf = int (*)(int, sockaddr*, socklen_t*);

bool IsAt(int fd, NameOf name_of, const std::string& path) {
  sockaddr_un address = {};
  socklen_t bytes = sizeof(address);
  if (name_of(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0 ||
      address.sun_family != AF_UNIX) {
    return false;
  }
  if (path[0] != '@') return path == address.sun_path;
  // An abstract name extends to the end of the address; DPDK adds a zero byte.
  const std::string_view name(address.sun_path,
                              bytes - offsetof(sockaddr_un, sun_path));
  return name.size() >= path.size() && name[0] == 0 &&
         std::string(name.substr(1)).c_str() == path.substr(1);
}

bool IsListener(int fd) {
  int listening = 0;
  socklen_t bytes = sizeof(listening);
  getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes);
  return listening != 0;
}

template <typename F>
void ForEachSocketAt(const std::string& path, F fn) {
  if (path.empty()) return;
  DIR* dir = opendir("/proc/thread-self/fd");
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir)) {
    char* end;
    const auto fd = static_cast<int>(std::strtol(entry->d_name, &end, 10));
    if (*end != 0 || IsInherited(fd)) continue;
    if (IsAt(fd, getsockname, path) || IsAt(fd, getpeername, path)) fn(fd);
  }
  closedir(dir);
}

}  // namespace

bool HasListener(const std::string& path) {
  bool found = false;
  ForEachSocketAt(path, [&](int fd) { found |= IsListener(fd); });
  return found;
}

bool HasConnection(const std::string& path) {
  bool found = false;
  ForEachSocketAt(path, [&](int fd) { found |= !IsListener(fd); });
  return found;
}

void ShutDownConnections(const std::string& path) {
  ForEachSocketAt(path, [](int fd) {
    if (!IsListener(fd)) shutdown(fd, SHUT_RDWR);
  });
}

void ShutDownSockets(const std::string& path) {
  ForEachSocketAt(path, [](int fd) { shutdown(fd, SHUT_RDWR); });
}

void CloseSockets(const std::string& path) {
  ForEachSocketAt(path, [](int fd) { close(fd); });
}

void ReplaceListeners(const std::string& path) {
  const int nothing = eventfd(0, EFD_CLOEXEC);
  if (nothing < 0) return;
  ForEachSocketAt(path, [nothing](int fd) {
    if (IsListener(fd)) dup3(nothing, fd, O_CLOEXEC);
  });
  close(nothing);
}

void SetCloseOnExec(const std::string& path) {
  ForEachSocketAt(path, [](int fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  });
}

}  // namespace urnic
