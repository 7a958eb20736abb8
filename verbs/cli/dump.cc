#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ras/recorder/recording.h"
#include "verbs/cli/command.h"
#include "verbs/cli/fact_list.h"
#include "verbs/cli/output_file.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

constexpr char kCommand[] = "dump";
constexpr uint32_t kPidMax = 1u << 22;  // of the kernel: PID_MAX_LIMIT

struct DumpArguments {
  std::string device;
  std::string process;
  std::string output;     // empty: a name of our own
  std::string collector;  // HOST:PORT, instead of a file
  int longest_ms = 20;
  bool payload = false;
};

absl::Status SystemError(const std::string& what, int error) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(error)));
}

// Where a dump goes. It is opened before the RNIC is stopped.
class Target {
 public:
  explicit Target(std::string name) : name_(std::move(name)) {}
  virtual ~Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const std::string& name() const { return name_; }
  virtual absl::Status Open() = 0;
  // All of it, or an error.
  virtual absl::Status Write(const std::string& bytes) = 0;

 private:
  const std::string name_;
};

// A file of this user alone.
class File : public Target {
 public:
  explicit File(const std::string& path) : Target(path), file_(path, 0600) {}
  absl::Status Open() override { return file_.Open(); }
  absl::Status Write(const std::string& bytes) override {
    return file_.Write(bytes);
  }

 private:
  ReplacedFile file_;
};

struct HostPort {
  std::string host;
  std::string port;
};

// Of HOST:PORT; an IPv6 address may be in brackets.
absl::StatusOr<HostPort> ParseHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--to \"", text, "\" is not HOST:PORT"));
  }
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  const std::string digits = text.substr(colon + 1);
  // getaddrinfo() would take such a port modulo 65536.
  uint32_t port;
  if (!absl::SimpleAtoi(digits, &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--to \"", text, "\": \"", digits, "\" is not a port from 1 to 65535"));
  }
  return HostPort{host, absl::StrCat(port)};
}

class Collector : public Target {
 public:
  Collector(const std::string& name, HostPort at)
      : Target(name), at_(std::move(at)) {}
  ~Collector() override {
    if (fd_ >= 0) close(fd_);
  }

  absl::Status Open() override {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int unknown =
        getaddrinfo(at_.host.c_str(), at_.port.c_str(), &hints, &found);
    if (unknown != 0)
      return absl::InternalError(
          absl::StrCat(name(), ": ", gai_strerror(unknown)));
    int error = 0;
    for (const addrinfo* at = found; at != nullptr && fd_ < 0; at = at->ai_next)
      error = Connect(*at);
    freeaddrinfo(found);
    return fd_ >= 0 ? absl::OkStatus() : SystemError(name(), error);
  }
  absl::Status Write(const std::string& bytes) override {
    int error = WriteAll(fd_, bytes);
    // The collector hangs up when it has everything.
    char end;
    if (error == 0 && (shutdown(fd_, SHUT_WR) != 0 || read(fd_, &end, 1) < 0))
      error = errno;
    return error == 0 ? absl::OkStatus() : SystemError(name(), error);
  }

 private:
  // Sets fd_, or returns an errno.
  int Connect(const addrinfo& at) {
    // Of connect(), and of each read() and write().
    constexpr timeval kPatience = {.tv_sec = 10, .tv_usec = 0};
    const int fd = socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    for (const int option : {SO_SNDTIMEO, SO_RCVTIMEO})
      (void)setsockopt(fd, SOL_SOCKET, option, &kPatience, sizeof(kPatience));
    if (connect(fd, at.ai_addr, at.ai_addrlen) == 0) {
      fd_ = fd;
      return 0;
    }
    const int error = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(fd);
    return error;
  }

  const HostPort at_;
  int fd_ = -1;
};

// "12.3 ms", or in microseconds below one.
std::string TimeText(uint64_t us) {
  char text[32];
  std::snprintf(
      text, sizeof(text), us < 1000 ? "%.0f us" : "%.1f ms",
      us < 1000 ? static_cast<double>(us) : static_cast<double>(us) / 1e3);
  return text;
}

// What the program says of the standstill.
std::string StandstillText(const Recording& recording) {
  const Recording::Answer* const answer = recording.Find("dump");
  if (answer == nullptr) return "it does not say how long the RNIC stood still";
  const auto facts = ParseFactList(answer->text);
  if (!facts.ok() || facts->size() != 1)
    return "it does not say how long the RNIC stood still";
  const std::string* const us = facts->front().Find("stood-still-us");
  const std::string* const whole = facts->front().Find("of-one-moment");
  uint64_t number = 0;
  if (us != nullptr) (void)absl::SimpleAtoi(*us, &number);
  return absl::StrCat(
      "the RNIC stood still for ", TimeText(number),
      whole != nullptr && *whole == "no"
          ? "; that was not enough for all, so the rest is of later moments "
            "(--longest)"
          : "");
}

int Dump(const DumpArguments& arguments) {
  // A collector that hangs up is an errno.
  signal(SIGPIPE, SIG_IGN);
  std::unique_ptr<Target> target;
  if (!arguments.collector.empty()) {
    const auto at = ParseHostPort(arguments.collector);
    if (!at.ok()) return Complain(kCommand, at.status());
    target = std::make_unique<Collector>(arguments.collector, *at);
  }
  const auto rnic = FindOneRnic(arguments.device, arguments.process, "--pid");
  if (!rnic.ok()) return Complain(kCommand, rnic.status());
  if (target == nullptr) {
    target = std::make_unique<File>(
        arguments.output.empty()
            ? absl::StrCat(rnic->device, "-", rnic->pid, ".dump")
            : arguments.output);
  }
  if (absl::Status s = target->Open(); !s.ok()) return Complain(kCommand, s);
  const auto answer =
      AskRnic(*rnic, absl::StrCat("dump ", arguments.longest_ms,
                                  arguments.payload ? " payload" : ""));
  if (!answer.ok()) return Complain(kCommand, answer.status());
  const auto recording = ParseRecording(*answer);
  if (!recording.ok())
    return Complain(kCommand, Unreadable(*rnic, recording.status()));
  if (absl::Status s = target->Write(*answer); !s.ok())
    return Complain(kCommand, s);
  std::fprintf(stderr, "urnic dump: %s of %s: %zu bytes to %s; %s\n",
               rnic->device.c_str(), rnic->Describe().c_str(), answer->size(),
               target->name().c_str(), StandstillText(*recording).c_str());
  return kExitOk;
}

}  // namespace

void AddDumpCommand(Command& urnic) {
  auto arguments = std::make_shared<DumpArguments>();
  Command& command = urnic.AddSubcommand(
      "dump", "Write the state of an RNIC, all of one moment, into a file",
      [arguments] { return Dump(*arguments); });
  command.SetFooter(
      "The RNIC of the program stands still meanwhile. The keys of memory are "
      "masked, without --payload. urnic show reads the file with --from.");
  command.AddOption("DEVICE", &arguments->device,
                    "Only this device, for example urnic0");
  AddProcessOption(command, &arguments->process);
  command.AddOption(
      "--pid", &arguments->process, "The same as --process",
      {.type = "PID", .range = {1, kPidMax}, .excludes = "--process"});
  command.AddOption("--output", &arguments->output,
                    "The file; DEVICE-PID.dump if it is not given",
                    {.type = "FILE"});
  command.AddOption("--to", &arguments->collector,
                    "Send it to this TCP port instead",
                    {.type = "HOST:PORT", .excludes = "--output"});
  command.AddOption("--longest", &arguments->longest_ms,
                    "Milliseconds after which the RNIC goes on, even if not "
                    "all is copied; 20 if it is not given",
                    {.type = "MS", .range = {0, 10'000}});
  command.AddOption("--payload", &arguments->payload,
                    "Also images and logs of inputs, with their keys and the "
                    "bytes of messages");
}

}  // namespace urnic
