#include "verbs/cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace urnic {
namespace {

absl::Status SystemError(const std::string& path, int error) {
  return absl::InternalError(absl::StrCat(path, ": ", std::strerror(error)));
}

}  // namespace

int WriteAll(int fd, const std::string& bytes) {
  for (size_t done = 0; done != bytes.size();) {
    const ssize_t written = write(fd, &bytes[done], bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    done += static_cast<size_t>(written);
  }
  return 0;
}

ReplacedFile::ReplacedFile(const std::string& path, mode_t mode)
    : path_(path),
      part_(absl::StrCat(path, ".", getpid(), ".part")),
      mode_(mode) {}

ReplacedFile::~ReplacedFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(part_.c_str());
}

absl::Status ReplacedFile::Open() {
  struct stat there = {};
  if (lstat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, S_ISLNK(there.st_mode)
                   ? ": it is a symbolic link; name the file that it means"
                   : ": it exists, and is not a file"));
  }
  // One that was killed may have had our pid, above all in a container.
  unlink(part_.c_str());
  fd_ = open(part_.c_str(),
             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode_);
  return fd_ >= 0 ? absl::OkStatus() : SystemError(part_, errno);
}

absl::Status ReplacedFile::Write(const std::string& bytes) {
  int error = WriteAll(fd_, bytes);
  // A network file system may say only now that there is no room.
  if (close(std::exchange(fd_, -1)) != 0 && error == 0) error = errno;
  const bool is_whole = error == 0;
  if (is_whole && rename(part_.c_str(), path_.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(part_.c_str());
  return SystemError(is_whole ? path_ : part_, error);
}

}  // namespace urnic
