#pragma once

// Files that a command writes as a whole. Thread: one at a time.

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace urnic {

// Writes all of it. 0 or an errno.
int WriteAll(int fd, const std::string& bytes);

// A file that is replaced. It is written under another name next to it, so that
// a reader sees the old content or the new one, never a part. If Write() was
// not called or fails, the old file stays, and nothing else is left.
class ReplacedFile {
 public:
  // `mode` as open() has it.
  ReplacedFile(const std::string& path, mode_t mode);
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile&) = delete;
  ReplacedFile& operator=(const ReplacedFile&) = delete;

  // FAILED_PRECONDITION: `path` exists and is not a regular file. A symbolic
  // link is none: root would replace whatever the maker of the link has chosen.
  // INTERNAL: the system's reason. The messages begin with a path.
  absl::Status Open();
  // Once, after Open(). INTERNAL as above.
  absl::Status Write(const std::string& bytes);

 private:
  const std::string path_;
  const std::string part_;
  const mode_t mode_;
  int fd_ = -1;
};

}  // namespace urnic
