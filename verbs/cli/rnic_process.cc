#include "verbs/cli/rnic_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "verbs/cli/format_text.h"
#include "verbs/preload/run_dir.h"

namespace urnic {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr size_t kAnswerBytesMax = 512u << 20;
constexpr int kPatiencesOfAnAnswer = 6;
constexpr size_t kAskedAtOnceMax = 32;

void AddDevices(void* context, const char* path, unsigned long long pid) {
  auto* list = static_cast<std::vector<RnicProcess>*>(context);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() != URNIC_CONTROL_SUFFIX) continue;
    list->push_back({.device = entry.path().stem(),
                     .directory = path,
                     .pid = pid,
                     .is_second_name = entry.is_symlink(error)});
  }
}

// Whether the pid means the same process to us: see verbs/preload/run_dir.h.
bool IsOurPidNamespace(const std::string& directory) {
  struct stat ours = {};
  return stat("/proc/self/ns/pid", &ours) == 0 &&
         fs::path(directory).filename().string().starts_with(
             absl::StrCat("urnic-", ours.st_ino, "-"));
}

std::string Program(unsigned long long pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/comm"));
  std::string name;
  std::getline(file, name);
  return name;
}

bool IsProcess(const RnicProcess& rnic, const std::string& wanted) {
  std::error_code error;
  return wanted.empty() || wanted == absl::StrCat(rnic.pid) ||
         fs::equivalent(wanted, rnic.directory, error);
}

std::string Wanted(const std::string& device, const std::string& process) {
  return absl::StrCat(device.empty() ? "an RNIC" : device, " open",
                      process.empty() ? "" : " in process ", process);
}

// Of a user that is not us, empty for root and for all that is ours.
std::string OthersProcess(const std::string& process) {
  struct stat proc = {};
  const bool is_pid =
      !process.empty() &&
      process.find_first_not_of("0123456789") == std::string::npos;
  if (!is_pid || geteuid() == 0 ||
      stat(absl::StrCat("/proc/", process).c_str(), &proc) != 0 ||
      proc.st_uid == geteuid()) {
    return "";
  }
  return absl::StrCat("process ", process,
                      " is another user's: only that user and root may look");
}

class Socket {
 public:
  explicit Socket(milliseconds patience)
      : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)),
        patience_(patience) {
    const timeval time = {.tv_sec = patience.count() / 1000,
                          .tv_usec = patience.count() % 1000 * 1000};
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // 0 or an errno.
  int Connect(const RnicProcess& rnic) {
    // Through the directory's descriptor: an address holds only 107 characters.
    const int directory = open(rnic.directory.c_str(), O_PATH | O_CLOEXEC);
    if (directory < 0) return errno;
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof(address.sun_path),
                  "/proc/self/fd/%d/%s" URNIC_CONTROL_SUFFIX, directory,
                  rnic.device.c_str());
    const bool done = connect(fd_, reinterpret_cast<sockaddr*>(&address),
                              sizeof(address)) == 0;
    const int error = done ? 0 : errno;
    close(directory);
    return error;
  }
  // The answer, joined from all its packets; an errno if it is incomplete.
  // EMSGSIZE, ETIME: it is longer, or takes longer, than any answer.
  std::string Exchange(const std::string& request, int* error) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + kPatiencesOfAnAnswer * patience_;
    std::string answer;
    std::string packet(URNIC_CONTROL_ANSWER_MAX, '\0');
    ssize_t bytes = send(fd_, request.data(), request.size(), MSG_NOSIGNAL);
    while (bytes >= 0 &&
           (bytes = recv(fd_, packet.data(), packet.size(), 0)) > 0) {
      answer.append(packet.data(), static_cast<size_t>(bytes));
      *error = answer.size() > kAnswerBytesMax ? EMSGSIZE
               : Clock::now() > deadline       ? ETIME
                                               : 0;
      if (*error != 0) return answer;
    }
    *error = bytes < 0 ? errno : answer.empty() ? ECONNRESET : 0;
    return answer;
  }

 private:
  const int fd_;
  const milliseconds patience_;
};

std::string TextOf(int error) {
  switch (error) {
    case EAGAIN:
      return "the program may be stopped (kill -CONT)";
    case ETIME:
      return "its answer does not end";
    case EMSGSIZE:
      return absl::StrCat("its answer is longer than ", kAnswerBytesMax >> 20,
                          " MiB");
    default:
      return std::strerror(error);
  }
}

fs::path SocketOf(const RnicProcess& rnic) {
  return fs::path(rnic.directory) / (rnic.device + URNIC_CONTROL_SUFFIX);
}

// The program was killed in another PID namespace and left its files behind.
bool IsLeftOver(const RnicProcess& rnic) {
  return Socket(kPatience).Connect(rnic) == ECONNREFUSED;
}

}  // namespace

std::string RnicProcess::Describe() const {
  if (pid == 0) return directory;
  if (!IsOurPidNamespace(directory)) {
    return absl::StrCat("process ", pid, " of another PID namespace, ",
                        directory);
  }
  const std::string program = Program(pid);
  return absl::StrCat("process ", pid,
                      program.empty() ? "" : " (" + program + ")", ", ",
                      directory);
}

absl::StatusOr<std::vector<RnicProcess>> FindRnics(const std::string& device,
                                                   const std::string& process) {
  std::vector<RnicProcess> list;
  urnic_run_dir_visit(AddDevices, &list);
  const auto choose = [&] {
    std::erase_if(list, [&](const RnicProcess& rnic) {
      return (device.empty() ? rnic.is_second_name : rnic.device != device) ||
             !IsProcess(rnic, process);
    });
  };
  choose();
  // A program whose XDG_RUNTIME_DIR differs from ours.
  if (list.empty() && process.find('/') != std::string::npos) {
    AddDevices(&list, process.c_str(), 0);
    choose();
  }
  std::erase_if(list, IsLeftOver);
  const auto key = [](const RnicProcess& r) {
    return std::tie(r.pid, r.directory, r.device);
  };
  std::sort(list.begin(), list.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  list.erase(std::unique(list.begin(), list.end(),
                         [&](const auto& a, const auto& b) {
                           return key(a) == key(b);
                         }),
             list.end());
  if (!list.empty()) return list;
  if (const std::string others = OthersProcess(process); !others.empty())
    return absl::NotFoundError(others);
  return absl::NotFoundError(
      absl::StrCat("no program has ", Wanted(device, process),
                   "; a device exists while a program has it open (looked for "
                   "its run directory in " URNIC_RUN_DIR_PLACES
                   "); urnic show recording lists what ended programs left"));
}

absl::StatusOr<RnicProcess> FindOneRnic(const std::string& device,
                                        const std::string& process,
                                        const char* pid_option) {
  auto list = FindRnics(device, process);
  if (!list.ok()) return list.status();
  if (list->size() == 1) return list->front();
  std::string text =
      absl::StrCat(list->size(), " programs have ", Wanted(device, process),
                   "; choose one by ", pid_option, " PID or --process DIR:");
  for (const RnicProcess& rnic : *list) {
    absl::StrAppend(&text, "\n  ", rnic.Describe());
  }
  return absl::FailedPreconditionError(text);
}

absl::Status Unreadable(const RnicProcess& rnic, const absl::Status& why) {
  return absl::FailedPreconditionError(absl::StrCat(
      rnic.device, " of ", rnic.Describe(),
      ": cannot read its answer: ", Printable(std::string(why.message())),
      "; the program may use another version of uRNIC"));
}

absl::StatusOr<std::string> AskRnic(const RnicProcess& rnic,
                                    const std::string& request,
                                    milliseconds patience) {
  Socket socket(patience);
  int error = socket.Connect(rnic);
  std::string answer;
  if (error == 0) answer = socket.Exchange(request, &error);
  if (error != 0) {
    std::error_code not_allowed;
    if (!fs::exists(SocketOf(rnic), not_allowed) && !not_allowed) {
      return absl::NotFoundError(
          absl::StrCat(rnic.device, " of ", rnic.Describe(), " has ended"));
    }
    return absl::UnavailableError(
        absl::StrCat(rnic.device, " of ", rnic.Describe(),
                     " does not answer: ", TextOf(error)));
  }
  constexpr std::string_view kOk = "ok\n";
  constexpr std::string_view kError = "error\n";
  if (answer.starts_with(kOk)) return answer.substr(kOk.size());
  constexpr size_t kShownMax = 200;
  if (!answer.starts_with(kError)) {
    return Unreadable(
        rnic, absl::FailedPreconditionError(absl::StrCat(
                  "it begins with \"", answer.substr(0, kShownMax), "\"")));
  }
  answer.erase(0, kError.size());
  while (answer.ends_with('\n')) answer.pop_back();
  // A list is longer than one line.
  answer.resize(std::min(answer.size(), size_t{URNIC_CONTROL_ANSWER_MAX}));
  return absl::FailedPreconditionError(PrintableLines(answer));
}

std::vector<absl::StatusOr<std::string>> AskRnics(
    const std::vector<RnicProcess>& rnics, const std::string& request,
    milliseconds patience) {
  std::vector<absl::StatusOr<std::string>> answers(rnics.size());
  std::atomic<size_t> next = 0;
  const auto ask = [&] {
    for (size_t i; (i = next++) < rnics.size();)
      answers[i] = AskRnic(rnics[i], request, patience);
  };
  std::vector<std::jthread> others;
  for (size_t i = 1; i < std::min(rnics.size(), kAskedAtOnceMax); ++i)
    others.emplace_back(ask);
  ask();
  others.clear();
  return answers;
}

}  // namespace urnic
