#pragma once

// Programs that a subcommand runs for itself, with what they print kept aside,
// and Ctrl-C turned into an orderly end.
//
// Thread: the main thread only.

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace urnic {

// From here on SIGINT, SIGTERM and SIGHUP do not end this process: they make
// StopRequested() true, and a wait for a child returns CANCELLED.
void CatchStopSignals();
bool StopRequested();
// The signal that came, 0 if none.
int StopSignal();

// One running program. It has its own process group, so that Ctrl-C reaches
// only us, and default signal handling.
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  // `name` is what messages call it: words[0] may be a wrapper. NOT_FOUND when
  // there is no such program in PATH; INTERNAL otherwise.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& words, const std::string& name);
  // Kills it and its process group if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool Running();
  // OK when it ended with status 0. DEADLINE_EXCEEDED: still running at
  // `deadline`. CANCELLED: StopRequested(). ABORTED: it failed; the message
  // holds its last lines. In all these cases but the first, the message names
  // the program.
  absl::Status Wait(Clock::time_point deadline);
  // True once a socket of the program's network namespace listens on the port
  // and that namespace is the one behind `name_space`, a file ("": any one).
  bool Listens(uint16_t tcp_port, const std::string& name_space) const;
  // What it has printed so far, stdout and stderr together.
  std::string Output() const;

 private:
  ChildProcess(std::string name, pid_t pid, int output_fd)
      : name_(std::move(name)), pid_(pid), output_fd_(output_fd) {}
  absl::Status Verdict() const;

  const std::string name_;
  const pid_t pid_;
  const int output_fd_;
  const Clock::time_point start_ = Clock::now();
  bool ended_ = false;
  int wait_status_ = 0;
};

// Runs a short command to its end, whatever signals come meanwhile, and returns
// what it printed. Statuses as for Start() and Wait().
absl::StatusOr<std::string> RunTool(const std::vector<std::string>& words);

// True if PATH has such a program.
bool IsInstalled(const std::string& program);

}  // namespace urnic
