#include "verbs/cli/recorded.h"

#include <cstdio>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ras/recorder/recordings.h"
#include "verbs/cli/format_text.h"

namespace urnic {
namespace {

std::string TimeText(int64_t wall_ns) {
  const time_t seconds = wall_ns / 1'000'000'000;
  tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

void AddFromOption(Command& command, std::string* path) {
  const auto mistake = [](const std::string& text) -> std::string {
    return text.empty() ? "an empty name" : "";
  };
  command.AddOption(
      "--from", path,
      "Read a recording that a program left, instead of asking programs",
      {.type = "FILE", .excludes = "--process", .mistake = mistake});
}

absl::StatusOr<Recording::Answer> RecordedAnswer(const std::string& path,
                                                 const std::string& request,
                                                 const char* command) {
  const auto recording = ReadRecording(path);
  if (!recording.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": ", std::string(recording.status().message())));
  }
  std::fprintf(stderr,
               "urnic %s: %s of process %u (%s), recorded at %s in %u us\n",
               command, Printable(recording->port).c_str(), recording->pid,
               Printable(recording->program).c_str(),
               TimeText(recording->at_ns).c_str(), recording->took_us);
  const Recording::Answer* const answer = recording->Find(request);
  if (answer == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        path, " has no \"", request,
        "\": a dump has it only with urnic dump --payload; in a recording "
        "there may have been no room (URNIC_RECORDER=size:16M)"));
  }
  if (answer->is_cut) {
    std::fprintf(stderr,
                 "urnic %s: there was no room for the rest; give the program "
                 "more: URNIC_RECORDER=size:16M\n",
                 command);
  }
  return *answer;
}

std::vector<Facts> RecordingsOfUser() {
  std::vector<Facts> objects;
  for (const RecordingName& name :
       ListRecordings(RecordingsDirectory(/*make=*/false))) {
    const auto recording = ReadRecording(name.path);
    std::string line;
    {
      FactWriter facts("recording", line);
      facts.Add("file", name.path);
      facts.Add("program", name.ended ? "ended" : "lives");
      if (recording.ok()) {
        facts.Add("dev", recording->port);
        facts.Add("at", TimeText(recording->at_ns));
        facts.Add("pid", recording->pid);
        facts.Add("comm", recording->program);
      } else {
        facts.Add("why", std::string(recording.status().message()));
      }
    }
    line.pop_back();
    if (auto object = ParseFacts(line)) objects.push_back(*std::move(object));
  }
  return objects;
}

}  // namespace urnic
