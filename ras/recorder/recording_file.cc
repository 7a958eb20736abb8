#include "ras/recorder/recording_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "verbs/libc/file_size_signal.h"
#include "verbs/libc/high_fd.h"

namespace urnic {
namespace {

using recording::FileHeader;

// 0 or an errno.
int WriteAll(int fd, const void* data, size_t bytes, size_t at) {
  const auto* from = static_cast<const uint8_t*>(data);
  while (bytes != 0) {
    const ssize_t written = pwrite(fd, from, bytes, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    from += written;
    at += static_cast<size_t>(written);
    bytes -= static_cast<size_t>(written);
  }
  return 0;
}

// RLIMIT_FSIZE is an errno for us, too, not a signal.
template <typename F>
int WithoutSignal(F&& f) {
  urnic_file_size_signal signal;
  urnic_file_size_signal_off(&signal);
  const int error = f();
  urnic_file_size_signal_back(&signal);
  return error;
}

// Creates the file and holds its lock. A descriptor, or -errno.
int CreateLocked(const std::string& path) {
  while (true) {
    const int fd = urnic_move_fd_high(
        open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
             S_IRUSR | S_IWUSR));
    if (fd < 0) return -errno;
    // Waits for a program that looks whether this file's program has ended.
    int rc = 0;
    while ((rc = flock(fd, LOCK_EX)) != 0 && errno == EINTR) {
    }
    struct stat info = {};
    if (rc == 0) rc = fstat(fd, &info);
    if (rc == 0 && info.st_nlink != 0) return fd;
    const int error = errno;
    close(fd);
    if (rc == 0) continue;  // that program has removed it
    unlink(path.c_str());
    return -error;
  }
}

int Allocate(int fd, size_t bytes) {
  return WithoutSignal([&] {
    while (fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
      if (errno != EINTR) return errno;
    }
    return 0;
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordingFile>> RecordingFile::Create(
    const std::string& path, const RecordingOwner& owner, size_t half_bytes) {
  const int fd = CreateLocked(path);
  int error = fd < 0 ? -fd : 0;
  if (error == 0) {
    error = Allocate(fd, recording::kHeaderBytes + 2 * half_bytes);
    if (error != 0) {
      unlink(path.c_str());
      close(fd);
    }
  }
  if (error != 0)
    return absl::InternalError(absl::StrCat(path, ": ", std::strerror(error)));
  std::unique_ptr<RecordingFile> file(
      new RecordingFile(fd, MakeFileHeader(owner, half_bytes, 0)));
  // Whose file it is, even if the program ends before its first recording.
  (void)WriteAll(fd, &file->header_, sizeof(file->header_), 0);
  return file;
}

RecordingFile::~RecordingFile() { close(fd_); }

int RecordingFile::Write(std::string_view half) {
  FileHeader header = header_;
  header.recorded = next();
  header.crc32c = recording::ChecksumOf(header);
  const size_t at =
      recording::kHeaderBytes + header.recorded % 2 * header.half_bytes;
  const int error = WithoutSignal([&] {
    const int half_error = WriteAll(fd_, half.data(), half.size(), at);
    return half_error != 0 ? half_error
                           : WriteAll(fd_, &header, sizeof(header), 0);
  });
  if (error == 0) header_ = header;
  return error;
}

}  // namespace urnic
