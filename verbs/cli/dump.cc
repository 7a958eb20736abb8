#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
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
#include "verbs/cli/rnic_command.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

constexpr char kCommand[] = "dump";

struct DumpArguments {
  std::string device;
  std::string process;
  std::string output;     // empty: a name of our own
  std::string collector;  // HOST:PORT, instead of a file
  uint32_t longest_ms = 20;
  bool payload = false;
};

absl::Status SystemError(const std::string& what, int error) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(error)));
}

// Where a dump goes. It is opened before the RNIC is stopped.
class Target {
 public:
  explicit Target(std::string name) : name_(std::move(name)) {}
  virtual ~Target() {
    if (fd_ >= 0) close(fd_);
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const std::string& name() const { return name_; }
  virtual absl::Status Open() = 0;
  // All of it, or an error.
  virtual absl::Status Write(const std::string& bytes) = 0;

 protected:
  // 0 or an errno.
  int WriteAll(const std::string& bytes) const {
    for (size_t done = 0; done != bytes.size();) {
      const ssize_t written = write(fd_, &bytes[done], bytes.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      done += static_cast<size_t>(written);
    }
    return 0;
  }

  int fd_ = -1;

 private:
  const std::string name_;
};

// A file of this user alone. It has its name only when it is whole.
class File : public Target {
 public:
  explicit File(const std::string& path)
      : Target(path), part_(absl::StrCat(path, ".", getpid(), ".part")) {}
  ~File() override {
    if (fd_ >= 0) unlink(part_.c_str());
  }

  absl::Status Open() override {
    struct stat there = {};
    if (stat(name().c_str(), &there) == 0 && !S_ISREG(there.st_mode))
      return absl::InternalError(name() + ": it exists, and is not a file");
    fd_ = open(part_.c_str(),
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd_ >= 0 ? absl::OkStatus() : SystemError(part_, errno);
  }
  absl::Status Write(const std::string& bytes) override {
    const int error = WriteAll(bytes);
    if (error != 0) return SystemError(part_, error);
    if (rename(part_.c_str(), name().c_str()) != 0)
      return SystemError(name(), errno);
    return absl::OkStatus();
  }

 private:
  const std::string part_;
};

class Collector : public Target {
 public:
  using Target::Target;

  // `name()` is HOST:PORT; an IPv6 address may be in brackets.
  absl::Status Open() override {
    const size_t colon = name().rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == name().size())
      return absl::InvalidArgumentError("--to \"" + name() +
                                        "\" is not HOST:PORT");
    std::string host = name().substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']'))
      host = host.substr(1, host.size() - 2);
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int unknown =
        getaddrinfo(host.c_str(), &name()[colon + 1], &hints, &found);
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
    int error = WriteAll(bytes);
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
  const auto rnic = FindOneRnic(arguments.device, arguments.process);
  if (!rnic.ok()) return Complain(kCommand, rnic.status());
  std::unique_ptr<Target> target;
  if (!arguments.collector.empty()) {
    target = std::make_unique<Collector>(arguments.collector);
  } else {
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

void AddDumpCommand(CLI::App& app, int* exit_status) {
  CLI::App* command = app.add_subcommand(
      "dump", "Write the state of an RNIC, all of one moment, into a file");
  command->footer(
      "The RNIC of the program stands still meanwhile. The keys of memory are "
      "masked, without --payload. urnic show reads the file with --from.");
  auto arguments = std::make_shared<DumpArguments>();
  command
      ->add_option("DEVICE", arguments->device,
                   "Only this device, for example urnic0")
      ->configurable(false);
  AddProcessOption(*command, &arguments->process);
  command->add_option("--pid", arguments->process, "The same as --process")
      ->type_name("PID")
      ->configurable(false);
  auto* const output =
      command
          ->add_option("--output", arguments->output,
                       "The file; DEVICE-PID.dump if it is not given")
          ->type_name("FILE")
          ->configurable(false);
  command
      ->add_option("--to", arguments->collector,
                   "Send it to this TCP port instead")
      ->type_name("HOST:PORT")
      ->excludes(output)
      ->configurable(false);
  command
      ->add_option("--longest", arguments->longest_ms,
                   "Milliseconds after which the RNIC goes on, even if not "
                   "all is copied; 20 if it is not given")
      ->type_name("MS")
      ->check(CLI::Range(0, 10'000))
      ->configurable(false);
  command
      ->add_flag(
          "--payload", arguments->payload,
          "Also images and logs of inputs, with their keys and the bytes "
          "of messages")
      ->configurable(false);
  command->callback(
      [arguments, exit_status] { *exit_status = Dump(*arguments); });
}

}  // namespace urnic
