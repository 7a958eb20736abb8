#pragma once

// The directory of this user's recordings, and what is in it.

#include <ctime>
#include <string>
#include <vector>

namespace urnic {

// "recordings" in the user's own directory (verbs/libc/owner_dir.h). Created if
// `make` is set. Empty: the user has none.
std::string RecordingsDirectory(bool make);

struct RecordingName {
  std::string path;
  time_t written = 0;
  // The program does not hold the file any more (RecordingFile).
  bool ended = false;
};

// The files of that directory, the newest first.
std::vector<RecordingName> ListRecordings(const std::string& directory);

}  // namespace urnic
