#include "ras/recorder/recording.h"

#include <fcntl.h>
#include <isa-l/crc.h>
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

// The contents, or an errno.
std::string ReadFile(const std::string& path, int& error) {
  std::string contents;
  // O_NONBLOCK: it may be a FIFO.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info = {};
  constexpr size_t kMost =
      recording::kHeaderBytes + 2 * recording::kHalfBytesMax;
  error = fd < 0 || fstat(fd, &info) != 0             ? errno
          : S_ISDIR(info.st_mode)                     ? EISDIR
          : static_cast<size_t>(info.st_size) > kMost ? EFBIG
                                                      : 0;
  if (error == 0) contents.resize(static_cast<size_t>(info.st_size));
  for (size_t at = 0; error == 0 && at != contents.size();) {
    const ssize_t bytes = read(fd, &contents[at], contents.size() - at);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) error = errno;
    if (bytes <= 0) contents.resize(at);
    if (bytes > 0) at += static_cast<size_t>(bytes);
  }
  if (fd >= 0) close(fd);
  return contents;
}

}  // namespace

const Recording::Answer* Recording::Find(std::string_view request) const {
  const auto at = std::ranges::find(answers, request, &Answer::request);
  return at == answers.end() ? nullptr : &*at;
}

absl::StatusOr<Recording> ParseRecording(std::string_view contents) {
  FileHeader header = {};
  if (!ReadAs(contents, header))
    return absl::InvalidArgumentError("this is not a recording of an RNIC");
  if (absl::Status s = CheckHeader(header); !s.ok()) return s;
  const uint64_t number = header.recorded;
  if (number == 0)
    return absl::FailedPreconditionError("nothing has been recorded yet");
  // The file may have been truncated, and written again since.
  const size_t at = recording::kHeaderBytes + number % 2 * header.half_bytes;
  const std::string_view half =
      contents.substr(std::min(at, contents.size()), header.half_bytes);
  HalfHeader half_header = {};
  if (!ReadAs(half, half_header)) return Damaged("its file is too short");
  std::string_view answers = half.substr(sizeof(half_header));
  if (half_header.number != number)
    return Damaged("a part has another number than its header");
  if (half_header.bytes > answers.size())
    return Damaged("it is longer than its file");
  answers = answers.substr(0, half_header.bytes);
  if (crc32_iscsi(
          reinterpret_cast<unsigned char*>(const_cast<char*>(answers.data())),
          static_cast<int>(answers.size()), 0) != half_header.crc32c) {
    return Damaged("its checksum is wrong");
  }
  Recording read = {.pid = header.pid,
                    .program = TextOf(header.program),
                    .port = TextOf(header.port),
                    .at_ns = half_header.at_ns,
                    .took_us = half_header.took_us,
                    .answers = {}};
  if (absl::Status s = ReadAnswers(answers, read); !s.ok()) return s;
  return read;
}

absl::StatusOr<Recording> ReadRecording(const std::string& path) {
  // While a program writes, a half may have become another since the header was
  // read.
  constexpr int kAttempts = 5;
  absl::StatusOr<Recording> read = absl::UnknownError("");
  for (int i = 0; i != kAttempts; ++i) {
    int error = 0;
    const std::string contents = ReadFile(path, error);
    if (error == ENOENT) return absl::NotFoundError(std::strerror(error));
    if (error == EACCES || error == EPERM)
      return absl::PermissionDeniedError(std::strerror(error));
    if (error != 0) return absl::InternalError(std::strerror(error));
    read = ParseRecording(contents);
    if (read.ok()) break;
  }
  return read;
}

}  // namespace urnic
