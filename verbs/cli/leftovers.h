#pragma once

// What programs left behind when they died, in the places where uRNIC itself
// makes files: `urnic clean`, and what `urnic doctor` says of it. The next
// start of a program removes most of it by the same functions.
//
// Whatever a live program may use is not a leftover: a run directory names its
// process by pid and start time, a living program holds the lock of its
// recording, and a socket has a listener. Not looked for: files at paths that
// the user chose.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace urnic {

struct LeftOver {
  const char* what = "";  // "run-directory", "socket", "recording", "demo"
  std::string path;
  uint64_t pid = 0;     // of the program, in its PID namespace; 0: unknown
  std::string program;  // its name; empty: unknown
  int64_t age_s = 0;    // since its last change
  uint64_t bytes = 0;   // of a recording
  std::string error;    // why it could not be removed; empty: no error
};

struct CleanOptions {
  bool remove = false;
  // Also recordings of programs that died: they are kept on purpose, for
  // `urnic show --from`. Without it, only those in which nothing is recorded.
  bool recordings = false;
};

struct LeftOvers {
  std::vector<LeftOver> list;
  size_t recordings_kept = 0;
};

// Looks for what belongs to this user; as root also for the run directories of
// all users. Removes all of `list` if wanted.
LeftOvers CleanLeftOvers(const CleanOptions& options);

}  // namespace urnic
