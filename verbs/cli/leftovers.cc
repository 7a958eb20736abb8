#include "verbs/cli/leftovers.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "datapath/port/stale_socket.h"
#include "ras/recorder/recording.h"
#include "ras/recorder/recordings.h"
#include "verbs/cli/demo_bed.h"
#include "verbs/cli/format_text.h"
#include "verbs/libc/owner_dir.h"
#include "verbs/preload/run_dir.h"

namespace urnic {
namespace {

// Before it is removed.
LeftOver& Add(LeftOvers& all, const char* what, const std::string& path,
              uint64_t pid) {
  LeftOver& left = all.list.emplace_back();
  left.what = what;
  left.path = path;
  left.pid = pid;
  struct stat info = {};
  const time_t now = std::time(nullptr);
  if (lstat(path.c_str(), &info) == 0 && now > info.st_mtime)
    left.age_s = now - info.st_mtime;
  return left;
}

std::string ErrorText(int error) {
  return error == 0 ? "" : std::strerror(error);
}

std::string ProgramOf(const std::string& run_directory) {
  char program[PATH_MAX];
  const ssize_t bytes =
      readlink(absl::StrCat(run_directory, "/" URNIC_RUN_DIR_EXE).c_str(),
               program, sizeof(program));
  if (bytes <= 0) return "";
  const std::filesystem::path path(
      std::string(program, static_cast<size_t>(bytes)));
  return Printable(path.filename().string());
}

struct Sweep {
  const CleanOptions& options;
  LeftOvers& all;
};

int AddRunDirectory(void* context, const char* path, unsigned long long pid) {
  const auto& [options, all] = *static_cast<Sweep*>(context);
  Add(all, "run-directory", path, pid).program = ProgramOf(path);
  return options.remove ? 1 : 0;
}

void CleanRunDirectories(const CleanOptions& options, LeftOvers& all) {
  Sweep sweep = {options, all};
  urnic_run_dir_sweep(/*all_users=*/1, AddRunDirectory, &sweep);
  if (!options.remove) return;
  for (LeftOver& left : all.list) {
    if (access(left.path.c_str(), F_OK) == 0)
      left.error = "a part of it cannot be removed";
  }
}

void CleanSocket(const CleanOptions& options, LeftOvers& all) {
  char directory[64];
  if (urnic_owner_dir(directory, sizeof(directory), /*make=*/0) != 0) return;
  const std::string path =
      absl::StrCat(directory, "/" URNIC_OWNER_MEMIF_SOCKET);
  if (!IsStaleSocket(path)) return;
  LeftOver& left = Add(all, "socket", path, /*pid=*/0);
  if (options.remove) left.error = ErrorText(RemoveStaleSocket(path));
}

void CleanRecordings(const CleanOptions& options, LeftOvers& all) {
  for (const RecordingName& name :
       ListRecordings(RecordingsDirectory(/*make=*/false))) {
    if (!name.ended) continue;
    const auto recording = ReadRecording(name.path);
    const bool is_empty = absl::IsFailedPrecondition(recording.status());
    if (!options.recordings && !is_empty) {
      ++all.recordings_kept;
      continue;
    }
    LeftOver& left = Add(all, "recording", name.path, name.pid);
    if (recording.ok()) left.program = Printable(recording->program);
    left.bytes = name.bytes;
    if (!options.remove) continue;
    const int error = RemoveEndedRecording(name.path);
    left.error = ErrorText(error);
    // A program that has just started holds it now.
    if (error == EWOULDBLOCK) all.list.pop_back();
  }
}

void CleanDemos(const CleanOptions& options, LeftOvers& all) {
  for (const DeadBed& bed : FindDeadBeds()) {
    LeftOver& left = Add(all, "demo", bed.path, static_cast<uint64_t>(bed.pid));
    left.program = "urnic";
    if (options.remove) left.error = std::string(RemoveDeadBed(bed).message());
  }
}

}  // namespace

LeftOvers CleanLeftOvers(const CleanOptions& options) {
  LeftOvers all;
  CleanRunDirectories(options, all);
  CleanSocket(options, all);
  CleanRecordings(options, all);
  CleanDemos(options, all);
  return all;
}

}  // namespace urnic
