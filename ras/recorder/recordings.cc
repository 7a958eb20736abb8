#include "ras/recorder/recordings.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string_view>
#include <tuple>

#include "ras/recorder/format.h"
#include "verbs/libc/owner_dir.h"

namespace urnic {
namespace {

// A program that lives holds the lock of its file.
bool IsOfEndedProgram(int directory, const char* name) {
  const int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ended = flock(fd, LOCK_SH | LOCK_NB) == 0;
  close(fd);
  return ended;
}

}  // namespace

std::string RecordingsDirectory(bool make) {
  char path[PATH_MAX];
  if (urnic_owner_dir(path, sizeof(path), make ? 1 : 0) != 0) return "";
  const std::string directory = std::string(path) + "/recordings";
  if (!make || mkdir(directory.c_str(), S_IRWXU) == 0 || errno == EEXIST)
    return directory;
  return "";
}

std::vector<RecordingName> ListRecordings(const std::string& directory) {
  std::vector<RecordingName> list;
  DIR* const open = opendir(directory.c_str());
  if (open == nullptr) return list;
  while (const dirent* const entry = readdir(open)) {
    const std::string_view name = entry->d_name;
    struct stat info = {};
    if (!name.ends_with(recording::kSuffix) ||
        fstatat(dirfd(open), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode)) {
      continue;
    }
    list.push_back({.path = directory + "/" + entry->d_name,
                    .written = info.st_mtime,
                    .ended = IsOfEndedProgram(dirfd(open), entry->d_name)});
  }
  closedir(open);
  std::ranges::sort(list, [](const auto& a, const auto& b) {
    return std::tie(a.written, a.path) > std::tie(b.written, b.path);
  });
  return list;
}

}  // namespace urnic
