#pragma once

// Reads a recording (ras/recorder/format.h), also of a program that still runs.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace urnic {

struct Recording {
  struct Answer {
    std::string request;
    std::string text;
    bool is_cut = false;  // there was no room for all of it
  };

  uint32_t pid = 0;
  std::string program;
  std::string port;
  int64_t at_ns = 0;     // wall clock
  uint32_t took_us = 0;  // what it cost the program
  std::vector<Answer> answers;

  // Null: it was not recorded.
  const Answer* Find(std::string_view request) const;
};

// INVALID_ARGUMENT: not a recording, or a damaged one, or one of another
// version. NOT_FOUND, PERMISSION_DENIED, INTERNAL: the file cannot be read.
// FAILED_PRECONDITION: the first recording is under way.
absl::StatusOr<Recording> ReadRecording(const std::string& path);

// The same, of the file's contents.
absl::StatusOr<Recording> ParseRecording(std::string_view contents);

}  // namespace urnic
