#include "ras/recorder/recording.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ras/recorder/format.h"

namespace urnic {
namespace {

using recording::AnswerHeader;
using recording::FileHeader;
using recording::HalfHeader;

// Whether the text is long enough.
template <typename T>
bool ReadAs(std::string_view text, T& value) {
  if (text.size() < sizeof(T)) return false;
  std::memcpy(static_cast<void*>(&value), text.data(), sizeof(T));
  return true;
}

template <size_t kBytes>
std::string TextOf(const char (&field)[kBytes]) {
  return {field, strnlen(field, kBytes)};
}

absl::Status Damaged(const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the recording is damaged: ", what));
}

absl::Status CheckHeader(const FileHeader& header) {
  if (std::memcmp(header.magic, recording::kMagic, sizeof(header.magic)) != 0)
    return absl::InvalidArgumentError("this is not a recording of an RNIC");
  if (header.version != recording::kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("this is a recording of version ", header.version,
                     "; this urnic reads version ", recording::kVersion));
  }
  if (recording::ChecksumOf(header) != header.crc32c)
    return Damaged("the checksum of its header is wrong");
  if (header.half_bytes < recording::kHalfBytesMin ||
      header.half_bytes > recording::kHalfBytesMax) {
    return Damaged("its header names a size that no recording has");
  }
  return absl::OkStatus();
}

absl::Status ReadAnswers(std::string_view bytes, Recording& read) {
  while (!bytes.empty()) {
    AnswerHeader header;
    if (!ReadAs(bytes, header)) return Damaged("an answer has no header");
    bytes.remove_prefix(sizeof(header));
    if (header.request_bytes > bytes.size() ||
        header.text_bytes > bytes.size() - header.request_bytes) {
      return Damaged("an answer is longer than the recording");
    }
    read.answers.push_back(
        {.request = std::string(bytes.substr(0, header.request_bytes)),
         .text =
             std::string(bytes.substr(header.request_bytes, header.text_bytes)),
         .is_cut = header.is_cut != 0});
    bytes.remove_prefix(header.request_bytes + header.text_bytes);
  }
  return absl::OkStatus();
}

// Appends up to `most` bytes, or what the file has. 0 or an errno.
int ReadPart(int fd, size_t at, size_t most, std::string& contents) {
  const size_t begin = contents.size();
  contents.resize(begin + most);
  size_t done = 0;
  int error = 0;
  while (done != most) {
    const ssize_t bytes = pread(fd, &contents[begin + done], most - done,
                                static_cast<off_t>(at + done));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) error = errno;
    if (bytes <= 0) break;
    done += static_cast<size_t>(bytes);
  }
  contents.resize(begin + done);
  return error;
}

absl::Status Unreadable(int error) {
  const char* const text = std::strerror(error);
  if (error == ENOENT) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM)
    return absl::PermissionDeniedError(text);
  return absl::InternalError(text);
}

// Not a recording: a file of any size is read no further than that.
absl::Status ReadHeader(std::string_view contents, FileHeader& header) {
  if (!ReadAs(contents, header))
    return absl::InvalidArgumentError("this is not a recording of an RNIC");
  if (absl::Status s = CheckHeader(header); !s.ok()) return s;
  if (header.recorded == 0)
    return absl::FailedPreconditionError("nothing has been recorded yet");
  return absl::OkStatus();
}

// `half`: what the file has of it.
absl::StatusOr<Recording> ReadHalf(const FileHeader& header,
                                   std::string_view half) {
  // The file may have been truncated, and written again since.
  HalfHeader half_header = {};
  if (!ReadAs(half, half_header)) return Damaged("its file is too short");
  std::string_view answers = half.substr(sizeof(half_header));
  if (half_header.number != header.recorded)
    return Damaged("a part has another number than its header");
  if (half_header.bytes > answers.size())
    return Damaged("it is longer than its file");
  answers = answers.substr(0, half_header.bytes);
  if (recording::ChecksumOf(half_header, answers) != half_header.crc32c)
    return Damaged("its checksum is wrong");
  Recording read = {.pid = header.pid,
                    .program = TextOf(header.program),
                    .port = TextOf(header.port),
                    .at_ns = half_header.at_ns,
                    .took_us = half_header.took_us,
                    .answers = {}};
  if (absl::Status s = ReadAnswers(answers, read); !s.ok()) return s;
  return read;
}

size_t HalfAt(const FileHeader& header) {
  return recording::kHeaderBytes + header.recorded % 2 * header.half_bytes;
}

// The half that the header names, as far as its own header says.
int ReadNamedHalf(int fd, const FileHeader& header, std::string& half) {
  HalfHeader half_header = {};
  int error = ReadPart(fd, HalfAt(header), sizeof(half_header), half);
  if (error != 0 || !ReadAs(half, half_header)) return error;
  const size_t most = header.half_bytes - sizeof(half_header);
  return ReadPart(fd, HalfAt(header) + sizeof(half_header),
                  std::min<size_t>(half_header.bytes, most), half);
}

absl::StatusOr<Recording> ReadOnce(int fd) {
  std::string head;
  if (const int error = ReadPart(fd, 0, sizeof(FileHeader), head))
    return Unreadable(error);
  FileHeader header = {};
  if (absl::Status s = ReadHeader(head, header); !s.ok()) return s;
  struct stat info = {};
  std::string half;
  int error = fstat(fd, &info) == 0 ? 0 : errno;
  // A half that is not there is not worth its memory.
  if (error == 0 && static_cast<size_t>(info.st_size) > HalfAt(header))
    error = ReadNamedHalf(fd, header, half);
  if (error != 0) return Unreadable(error);
  return ReadHalf(header, half);
}

}  // namespace

const Recording::Answer* Recording::Find(std::string_view request) const {
  const auto at = std::ranges::find(answers, request, &Answer::request);
  return at == answers.end() ? nullptr : &*at;
}

absl::StatusOr<Recording> ParseRecording(std::string_view contents) {
  FileHeader header = {};
  if (absl::Status s = ReadHeader(contents, header); !s.ok()) return s;
  return ReadHalf(header,
                  contents.substr(std::min(HalfAt(header), contents.size()),
                                  header.half_bytes));
}

absl::StatusOr<Recording> ReadRecording(const std::string& path) {
  // O_NONBLOCK: it may be a FIFO.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Unreadable(errno);
  // While a program writes, a half may have become another since the header was
  // read.
  constexpr int kAttempts = 5;
  absl::StatusOr<Recording> read = absl::UnknownError("");
  for (int i = 0; i != kAttempts && !read.ok(); ++i) read = ReadOnce(fd);
  close(fd);
  return read;
}

}  // namespace urnic
