#include "datapath/port/inherited_sockets.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace urnic {
namespace {

// By inode, because a descriptor may get another number. Null: none. Never
// destroyed.
const std::vector<ino_t>* g_inherited = nullptr;

// 0: not a socket.
ino_t SocketInode(int fd) {
  struct stat info = {};
  return fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

}  // namespace

void IgnoreSocketsOpenNow() {
  DIR* dir = opendir("/proc/thread-self/fd");
  if (dir == nullptr) return;
  auto* inodes = new std::vector<ino_t>;
  while (const dirent* entry = readdir(dir)) {
    char* end;
    const auto fd = static_cast<int>(std::strtol(entry->d_name, &end, 10));
    const ino_t inode = *end == 0 ? SocketInode(fd) : 0;
    if (inode != 0) inodes->push_back(inode);
  }
  closedir(dir);
  std::sort(inodes->begin(), inodes->end());
  delete g_inherited;
  g_inherited = inodes;
}

bool IsInherited(int fd) {
  return g_inherited != nullptr &&
         std::binary_search(g_inherited->begin(), g_inherited->end(),
                            SocketInode(fd));
}

}  // namespace urnic
