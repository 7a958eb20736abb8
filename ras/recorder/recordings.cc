#include "ras/recorder/recordings.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <tuple>

#include "verbs/libc/owner_dir.h"

namespace urnic {
namespace {

// Whether RecordingFileName() makes such a name, and of which pid.
bool ParseName(const char* name, uint32_t& pid) {
  char port[16];
  long long seconds = 0;
  int end = 0;
  return std::sscanf(name, "%15[a-z0-9]-%u-%lld.rec%n", port, &pid, &seconds,
                     &end) == 3 &&
         end != 0 && name[end] == '\0';
}

// A program that lives holds the lock of its file.
bool IsOfEndedProgram(int directory, const char* name) {
  const int fd =
      openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ended = flock(fd, LOCK_SH | LOCK_NB) == 0;
  close(fd);
  return ended;
}

}  // namespace

int RemoveEndedRecording(const std::string& path) {
  const int fd =
      open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno;
  // A program that has just created the file gets the lock afterwards, and then
  // creates another (RecordingFile).
  const bool done =
      flock(fd, LOCK_EX | LOCK_NB) == 0 && unlink(path.c_str()) == 0;
  const int error = done ? 0 : errno;
  close(fd);
  return error;
}

std::string RecordingsDirectory(bool make) {
  char path[PATH_MAX];
  if (urnic_owner_dir(path, sizeof(path), make ? 1 : 0) != 0) return "";
  const std::string directory = std::string(path) + "/recordings";
  if (!make || mkdir(directory.c_str(), S_IRWXU) == 0 || errno == EEXIST)
    return directory;
  return "";
}

std::string RecordingFileName(const std::string& port, uint32_t pid,
                              time_t now) {
  return port + "-" + std::to_string(pid) + "-" + std::to_string(now) + ".rec";
}

std::vector<RecordingName> ListRecordings(const std::string& directory) {
  std::vector<RecordingName> list;
  const time_t now = std::time(nullptr);
  DIR* const open = opendir(directory.c_str());
  if (open == nullptr) return list;
  while (const dirent* const entry = readdir(open)) {
    struct stat info = {};
    uint32_t pid = 0;
    if (!ParseName(entry->d_name, pid) ||
        fstatat(dirfd(open), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
      continue;
    }
    list.push_back({.path = directory + "/" + entry->d_name,
                    .pid = pid,
                    .bytes = static_cast<uint64_t>(info.st_size),
                    .written = info.st_mtime > now ? 0 : info.st_mtime,
                    .ended = IsOfEndedProgram(dirfd(open), entry->d_name)});
  }
  closedir(open);
  std::ranges::sort(list, [](const auto& a, const auto& b) {
    return std::tie(a.written, a.path) > std::tie(b.written, b.path);
  });
  return list;
}

}  // namespace urnic
