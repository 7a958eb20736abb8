#include "verbs/cli/held_process.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace urnic {
namespace {

// Of the name of a run directory.
struct NamedProcess {
  unsigned long long pid_namespace = 0;
  unsigned long long pid = 0;
  unsigned long long start_time = 0;  // in clock ticks; 0: it was not known
};

std::optional<NamedProcess> ParseName(const std::string& run_directory) {
  const std::string name =
      std::filesystem::path(run_directory).filename().string();
  NamedProcess named;
  if (std::sscanf(name.c_str(), "urnic-%llu-%llu-%llu", &named.pid_namespace,
                  &named.pid, &named.start_time) != 3 ||
      name != absl::StrCat("urnic-", named.pid_namespace, "-", named.pid, "-",
                           named.start_time)) {
    return std::nullopt;
  }
  return named;
}

// Field 22 of /proc/PID/stat, counted behind the program's name, which may hold
// anything. 0: unknown.
unsigned long long StartTimeOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream words(text.substr(end + 1));
  std::string word;
  for (int field = 3; field < 22; ++field) words >> word;
  unsigned long long start_time = 0;
  words >> start_time;
  return words ? start_time : 0;
}

// Anyone can make a directory with the pid of another user's process, and tell
// there that it is an offender. Only root would signal that process.
bool MayBelongTo(const std::string& run_directory, pid_t pid) {
  struct stat directory = {};
  struct stat process = {};
  if (geteuid() != 0) return true;
  return lstat(run_directory.c_str(), &directory) == 0 &&
         S_ISDIR(directory.st_mode) &&
         stat(absl::StrCat("/proc/", pid).c_str(), &process) == 0 &&
         (directory.st_uid == 0 || directory.st_uid == process.st_uid);
}

int OpenPidFd(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

int SendSignal(int fd, int signal) {
  return static_cast<int>(
      syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0));
}

}  // namespace

pid_t OurPidOf(const std::string& run_directory) {
  const auto named = ParseName(run_directory);
  struct stat ours = {};
  if (!named || stat("/proc/self/ns/pid", &ours) != 0 ||
      named->pid_namespace != ours.st_ino ||
      named->pid > std::numeric_limits<pid_t>::max()) {
    return 0;
  }
  return static_cast<pid_t>(named->pid);
}

std::string WhyNoHeldProcess() {
  const int fd = OpenPidFd(getpid());
  const bool works = fd >= 0 && SendSignal(fd, 0) == 0;
  const std::string why = works ? "" : std::strerror(errno);
  if (fd >= 0) close(fd);
  return why;
}

HeldProcess::HeldProcess(const std::string& run_directory) {
  Open(run_directory);
}

HeldProcess::~HeldProcess() {
  if (fd_ >= 0) close(fd_);
}

void HeldProcess::Open(const std::string& run_directory) {
  const pid_t pid = OurPidOf(run_directory);
  if (pid == 0) {
    mistake_ = "it is in another PID namespace";
    return;
  }
  if (pid == 1 || pid == getpid()) {
    mistake_ = pid == 1 ? "it is the first process, which is never ended"
                        : "it is this program";
    return;
  }
  fd_ = OpenPidFd(pid);
  if (fd_ < 0) {
    has_ended_ = errno == ESRCH;
    if (!has_ended_) mistake_ = std::strerror(errno);
    return;
  }
  // Behind the pidfd, or the pid could get another owner in between.
  const unsigned long long start_time = StartTimeOf(pid);
  const unsigned long long named = ParseName(run_directory)->start_time;
  if (start_time == 0 && SendSignal(fd_, 0) != 0 && errno == ESRCH) {
    has_ended_ = true;
  } else if (start_time == 0 || named == 0) {
    mistake_ = "its start time is not known, so it may be another process";
  } else if (start_time != named) {
    has_ended_ = true;
  } else if (!MayBelongTo(run_directory, pid)) {
    mistake_ = "its run directory belongs to another user";
  }
}

void HeldProcess::Signal(int signal) {
  if (has_ended_ || !mistake_.empty() || SendSignal(fd_, signal) == 0) return;
  has_ended_ = errno == ESRCH;
  if (!has_ended_) mistake_ = std::strerror(errno);
}

}  // namespace urnic
