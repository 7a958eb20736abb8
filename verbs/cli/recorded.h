#pragma once

// The answers of a program that may have ended, from its flight recorder
// (verbs/control/recorder.h): `--from FILE`.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ras/facts/facts.h"
#include "ras/recorder/recording.h"
#include "verbs/cli/command_line.h"

namespace urnic {

// Adds --from FILE. It excludes --process, which must have been added before.
// `path` outlives the parse.
void AddFromOption(Command& command, std::string* path);

// What the program answered to that request. Says on stderr, after "urnic
// COMMAND: ", when and by whom that was, and whether a part is missing.
// FAILED_PRECONDITION: what ReadRecording() says. NOT_FOUND: it was not
// recorded.
absl::StatusOr<Recording::Answer> RecordedAnswer(const std::string& path,
                                                 const std::string& request,
                                                 const char* command);

// The kind of object that RecordingsOfUser() returns.
inline constexpr char kRecordings[] = "recording";

// The recordings of this user, in the default directory, one object for each
// file: "file", "program" (lives or ended), "dev", "at", "pid" and "comm".
std::vector<Facts> RecordingsOfUser();

}  // namespace urnic
