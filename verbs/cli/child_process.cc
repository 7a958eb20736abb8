#include "verbs/cli/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace urnic {
namespace {

constexpr auto kLook = std::chrono::milliseconds(5);
constexpr auto kToolTime = std::chrono::seconds(10);
// The end of a failed program's output that goes into the message.
constexpr size_t kTailBytes = 400;

volatile sig_atomic_t g_stop_signal = 0;

void OnStopSignal(int number) { g_stop_signal = number; }

bool SameFile(const std::string& a, const std::string& b) {
  struct stat first;
  struct stat second;
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// /proc/net/tcp: "sl local_address rem_address st ..", all hexadecimal.
bool HasListener(const std::string& path, uint16_t tcp_port) {
  constexpr unsigned kListen = 0x0a;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state;
    fields >> slot >> local >> remote >> state;
    const size_t colon = local.rfind(':');
    if (colon == std::string::npos) continue;
    if (std::strtoul(local.c_str() + colon + 1, nullptr, 16) == tcp_port &&
        std::strtoul(state.c_str(), nullptr, 16) == kListen) {
      return true;
    }
  }
  return false;
}

}  // namespace

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = OnStopSignal;
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    sigaction(number, &action, nullptr);
}

bool StopRequested() { return g_stop_signal != 0; }

int StopSignal() { return g_stop_signal; }

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& words, const std::string& name) {
  const int output = memfd_create("urnic-child", MFD_CLOEXEC);
  if (output < 0)
    return absl::InternalError(
        absl::StrCat("memfd_create: ", std::strerror(errno)));
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, 1);
  posix_spawn_file_actions_adddup2(&files, output, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigset_t none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                            POSIX_SPAWN_SETSIGDEF |
                                            POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> argv;
  for (const std::string& word : words)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    close(output);
    const std::string message =
        absl::StrCat(words[0], ": ", std::strerror(error));
    if (error == ENOENT) return absl::NotFoundError(message);
    return absl::InternalError(message);
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(name, pid, output));
}

ChildProcess::~ChildProcess() {
  if (Running()) {
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
    }
  }
  close(output_fd_);
}

bool ChildProcess::Running() {
  if (!ended_) ended_ = waitpid(pid_, &wait_status_, WNOHANG) == pid_;
  return !ended_;
}

absl::Status ChildProcess::Wait(Clock::time_point deadline) {
  while (Running()) {
    if (StopRequested())
      return absl::CancelledError(absl::StrCat(name_, ": interrupted"));
    if (Clock::now() > deadline)
      return absl::DeadlineExceededError(absl::StrCat(
          name_, " did not end in ",
          std::chrono::round<std::chrono::seconds>(deadline - start_).count(),
          " s; the machine may be too busy"));
    std::this_thread::sleep_for(kLook);
  }
  return Verdict();
}

absl::Status ChildProcess::Verdict() const {
  if (WIFEXITED(wait_status_) && WEXITSTATUS(wait_status_) == 0)
    return absl::OkStatus();
  const std::string how =
      WIFSIGNALED(wait_status_)
          ? absl::StrCat("ended by signal ", WTERMSIG(wait_status_))
          : absl::StrCat("exit status ", WEXITSTATUS(wait_status_));
  std::string tail = Output();
  if (tail.size() > kTailBytes) tail.erase(0, tail.size() - kTailBytes);
  return absl::AbortedError(absl::StrCat(name_, ": ", how, "\n", tail));
}

bool ChildProcess::Listens(uint16_t tcp_port,
                           const std::string& name_space) const {
  // `ip netns exec` starts in our namespace, where other programs may listen.
  if (!name_space.empty() &&
      !SameFile(absl::StrCat("/proc/", pid_, "/ns/net"), name_space)) {
    return false;
  }
  const std::string net = absl::StrCat("/proc/", pid_, "/net/");
  return HasListener(net + "tcp", tcp_port) ||
         HasListener(net + "tcp6", tcp_port);
}

std::string ChildProcess::Output() const {
  std::string text;
  char part[4096];
  ssize_t got;
  while ((got = pread(output_fd_, part, sizeof(part),
                      static_cast<off_t>(text.size()))) > 0) {
    text.append(part, static_cast<size_t>(got));
  }
  return text;
}

absl::StatusOr<std::string> RunTool(const std::vector<std::string>& words) {
  auto child = ChildProcess::Start(words, words[0]);
  if (!child.ok()) return child.status();
  const auto deadline = ChildProcess::Clock::now() + kToolTime;
  absl::Status status = (*child)->Wait(deadline);
  // Let an `ip` command finish: if interrupted, it would leave half of its
  // work.
  while (absl::IsCancelled(status) && ChildProcess::Clock::now() < deadline) {
    std::this_thread::sleep_for(kLook);
    if (!(*child)->Running()) status = (*child)->Wait(deadline);
  }
  if (!status.ok()) return status;
  return (*child)->Output();
}

bool IsInstalled(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/usr/sbin");
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    if (access(absl::StrCat(folder, "/", program).c_str(), X_OK) == 0)
      return true;
  }
  return false;
}

}  // namespace urnic
