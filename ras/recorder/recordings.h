#pragma once

// The directory of this user's recordings, and what is in it.

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace urnic {

// "recordings" in the user's own directory (verbs/libc/owner_dir.h). Created if
// `make` is set. Empty: the user has none.
std::string RecordingsDirectory(bool make);

struct RecordingName {
  std::string path;
  uint32_t pid = 0;
  uint64_t bytes = 0;
  // 0: in the future (the clock was set back), which counts as the oldest.
  time_t written = 0;
  // The program does not hold the file any more (RecordingFile).
  bool ended = false;
};

// "PORT-PID-SECONDS.rec".
std::string RecordingFileName(const std::string& port, uint32_t pid,
                              time_t now);

// Removes the file unless its program holds it. Returns 0, EWOULDBLOCK if it
// does, or another errno.
int RemoveEndedRecording(const std::string& path);

// The files of that directory with such names, which belong to this user, the
// newest first.
std::vector<RecordingName> ListRecordings(const std::string& directory);

}  // namespace urnic
