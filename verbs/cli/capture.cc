#include "ras/capture/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ras/capture/pcapng.h"
#include "verbs/cli/command.h"
#include "verbs/cli/output_file.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/cli/rnic_process.h"
#include "verbs/identity/ip_route.h"

namespace urnic {
namespace {

constexpr char kCommand[] = "capture";
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr uint64_t kCountMax = 1'000'000'000'000;
// How often frames are fetched. A program keeps 16 MB of them.
constexpr auto kPeriod = 20ms;
// How often programs are looked for that have started since.
constexpr auto kSearchPeriod = 500ms;

struct CaptureArguments {
  std::string process;
  std::string output = "-";
  std::string peer;
  uint32_t lqpn = 0;
  uint32_t snap_bytes = Capture::kSnapMax;
  uint64_t count = 0;
  double seconds = 0;
};

void Say(const std::string& text) {
  std::fprintf(stderr, "urnic %s: %s\n", kCommand, text.c_str());
}

// A file that only its owner may read, or stdout.
class Output {
 public:
  explicit Output(const std::string& path)
      : fd_(path == "-"
                ? STDOUT_FILENO
                : open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                       0600)) {
    // An old file may be readable for others.
    struct stat file;
    if (fd_ < 0 || fstat(fd_, &file) != 0 ||
        (path != "-" && S_ISREG(file.st_mode) && fchmod(fd_, 0600) != 0)) {
      error_ = errno;
    }
  }
  ~Output() {
    if (fd_ > STDERR_FILENO) close(fd_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // 0 or an errno.
  int error() const { return error_; }
  void Write(const std::string& text) {
    if (error_ == 0) error_ = WriteAll(fd_, text);
  }

 private:
  const int fd_;
  int error_ = 0;
};

// The programs that are captured, and the file of their frames.
class Session {
 public:
  Session(const CaptureArguments& arguments, Output* output)
      : arguments_(arguments), output_(*output) {
    std::string head;
    pcapng::AppendSection("urnic capture", head);
    output_.Write(head);
  }
  // Ends the captures, and says what was lost.
  ~Session() {
    uint64_t lost = 0;
    for (const auto& [name, port] : ports_) {
      if (!port.captures) continue;
      const auto answer = AskRnic(port.rnic, "capture stop");
      if (answer.ok()) lost += std::strtoull(answer->c_str(), nullptr, 10);
    }
    Say(absl::StrCat(packets_, " frames, ", lost, " lost for lack of room"));
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  uint64_t packets() const { return packets_; }
  bool any_refused() const { return any_refused_; }
  // Whether some program is captured now.
  bool any() const {
    for (const auto& [name, port] : ports_) {
      if (port.captures) return true;
    }
    return false;
  }

  // Begins with programs that have started since. Those that cannot be captured
  // are named once.
  absl::Status Search() {
    const auto found = FindRnics("", arguments_.process);
    if (!found.ok()) return found.status();
    for (const RnicProcess& rnic : *found) {
      const auto [at, is_new] =
          ports_.try_emplace(absl::StrCat(rnic.directory, "/", rnic.device));
      if (is_new) Begin(rnic, at->second);
    }
    return absl::OkStatus();
  }

  void Fetch() {
    for (auto& [name, port] : ports_) {
      if (port.captures) FetchFrom(port);
    }
  }

 private:
  struct Port {
    RnicProcess rnic;
    uint32_t interface = 0;
    bool captures = false;
  };

  void Begin(const RnicProcess& rnic, Port& port) {
    port.rnic = rnic;
    std::string request = absl::StrCat("capture start ", arguments_.snap_bytes);
    if (arguments_.lqpn != 0)
      absl::StrAppend(&request, " lqpn ", arguments_.lqpn);
    if (!arguments_.peer.empty())
      absl::StrAppend(&request, " peer ", arguments_.peer);
    const auto answer = AskRnic(rnic, request);
    if (!answer.ok()) {
      any_refused_ = true;
      return Say(absl::IsUnavailable(answer.status())
                     ? std::string(answer.status().message())
                     : absl::StrCat(rnic.device, " of ", rnic.Describe(), ": ",
                                    answer.status().message()));
    }
    port.captures = true;
    port.interface = interfaces_++;
    std::string block;
    pcapng::AppendInterface(rnic.device, rnic.Describe(), block);
    output_.Write(block);
  }

  void FetchFrom(Port& port) {
    auto frames = AskRnic(port.rnic, "capture read");
    // The program has ended, or was stopped for long.
    if (!frames.ok()) {
      port.captures = false;
      return;
    }
    const auto count = pcapng::SetInterface(port.interface, *frames);
    if (!count.has_value()) {
      port.captures = false;
      any_refused_ = true;
      return Say(std::string(
          Unreadable(port.rnic,
                     absl::DataLossError("it has other blocks than packets"))
              .message()));
    }
    packets_ += *count;
    output_.Write(*frames);
  }

  const CaptureArguments& arguments_;
  Output& output_;
  std::map<std::string, Port> ports_;
  uint32_t interfaces_ = 0;
  uint64_t packets_ = 0;
  bool any_refused_ = false;
};

// Readable as soon as the user, or a pipe's reader, wants us to end.
int EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

// Empty: there is none.
std::string MistakeIn(const CaptureArguments& arguments) {
  if (arguments.output == "-" && isatty(STDOUT_FILENO) != 0) {
    return "frames are not for a terminal: choose a file, --output FILE, or "
           "pipe "
           "them to wireshark -k -i -";
  }
  const std::string& peer = arguments.peer;
  if (peer.empty()) return "";
  // A route to it has more words, and would complain about itself.
  urnic_ip_route route;
  if (peer.find(' ') == std::string::npos &&
      urnic_ip_route_parse(peer.c_str(), peer.size(), &route, nullptr, 0) ==
          0) {
    return "";
  }
  return absl::StrCat(
      "--peer: \"", peer,
      "\" is not IP or IP/LEN; LEN is at most 32, or 128 of IPv6, and no bit "
      "of the IP is set beyond it");
}

int Run(const CaptureArguments& arguments) {
  if (const std::string mistake = MistakeIn(arguments); !mistake.empty()) {
    Say(mistake);
    return kExitUsage;
  }
  Output output(arguments.output);
  if (output.error() != 0) {
    Say(absl::StrCat(arguments.output, ": ", std::strerror(output.error())));
    return kExitFailed;
  }
  pollfd ending = {EndingSignals(), POLLIN, 0};
  Session session(arguments, &output);
  const auto begin = Clock::now();
  auto search = begin;
  bool any = false;
  for (;;) {
    if (Clock::now() >= search) {
      // Programs may start later, but not one that the user has named.
      const absl::Status status = session.Search();
      if (!status.ok() &&
          (!absl::IsNotFound(status) || (!arguments.process.empty() && !any))) {
        Say(std::string(status.message()));
        return kExitFailed;
      }
      any |= session.any();
      search = Clock::now() + kSearchPeriod;
    }
    const bool last =
        poll(&ending, 1, static_cast<int>(kPeriod.count())) != 0 ||
        (arguments.seconds != 0 &&
         Clock::now() - begin >=
             std::chrono::duration<double>(arguments.seconds));
    session.Fetch();
    if (output.error() == EPIPE) return kExitOk;  // the reader has seen enough
    if (output.error() != 0) {
      Say(absl::StrCat(arguments.output, ": ", std::strerror(output.error())));
      return kExitFailed;
    }
    const bool gone = !arguments.process.empty() && !session.any();
    const bool enough =
        arguments.count != 0 && session.packets() >= arguments.count;
    if (last || gone || enough)
      return session.any_refused() ? kExitFailed : kExitOk;
  }
}

}  // namespace

void AddCaptureCommand(Command& urnic) {
  auto arguments = std::make_shared<CaptureArguments>();
  Command& command = urnic.AddSubcommand(
      kCommand, "Write the frames of RNICs in running programs for Wireshark",
      [arguments] { return Run(*arguments); });
  command.SetFooter(
      "Writes pcapng until it is interrupted: urnic capture | tshark -r -. "
      "Each frame that arrived has the verdict on it as its comment. Programs "
      "that start meanwhile are captured, too. Shows programs of the same "
      "user; root sees all.");
  AddProcessOption(command, &arguments->process);
  command.AddOption("--output", &arguments->output,
                    "Write into this file; - is stdout, the default",
                    {.type = "FILE"});
  command.AddOption("--lqpn", &arguments->lqpn,
                    "Only frames of this queue pair",
                    {.type = "QPN", .range = {1, 0xffffff}});
  command.AddOption("--peer", &arguments->peer,
                    "Only IP packets to or from this address or network",
                    {.type = "IP[/LEN]"});
  command.AddOption("--snap", &arguments->snap_bytes,
                    "Keep only the first bytes of each frame; default 9216",
                    {.type = "BYTES", .range = {1, Capture::kSnapMax}});
  command.AddOption("--count", &arguments->count, "Stop after N frames",
                    {.type = "N", .range = {1, kCountMax}});
  command.AddOption("--seconds", &arguments->seconds,
                    "End after this many seconds; fractions are allowed",
                    {.type = "N", .range = {0.001, 1e6}});
}

}  // namespace urnic
