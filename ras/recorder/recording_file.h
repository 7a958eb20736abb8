#pragma once

// The file in which a program keeps its last recordings
// (ras/recorder/format.h). All of its space is allocated at the start, so a
// full disk does not stop later recordings. What was written outlives the
// program, since the kernel has it. (The file is not mapped: if someone
// truncated a mapped file, the program would be killed by SIGBUS.)
//
// Thread: one at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ras/recorder/format.h"
#include "ras/recorder/recording_builder.h"

namespace urnic {

class RecordingFile {
 public:
  // Creates the file, which must not exist, for this user alone (mode 0600).
  // `half_bytes`: from kHalfBytesMin to kHalfBytesMax. While the object lives,
  // it holds flock() on the file. INTERNAL: it cannot be created; the message
  // is the system's.
  static absl::StatusOr<std::unique_ptr<RecordingFile>> Create(
      const std::string& path, const RecordingOwner& owner, size_t half_bytes);
  // The file stays.
  ~RecordingFile();
  RecordingFile(const RecordingFile&) = delete;
  RecordingFile& operator=(const RecordingFile&) = delete;

  // The number of the next recording, for its HalfHeader.
  uint64_t next() const { return header_.recorded + 1; }
  // Replaces the recording before the last by RecordingBuilder::Finish().
  // Returns 0, or the errno of write(): then the last recording remains.
  int Write(std::string_view half);

 private:
  RecordingFile(int fd, const recording::FileHeader& header)
      : fd_(fd), header_(header) {}

  const int fd_;
  recording::FileHeader header_;
};

}  // namespace urnic
