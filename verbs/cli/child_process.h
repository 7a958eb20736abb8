#pragma once

// Programs that a subcommand runs itself. Their output is captured, and Ctrl-C
// leads to an orderly end.
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

// From now on SIGINT, SIGTERM and SIGHUP do not end this process. Instead
// StopRequested() becomes true, and a wait for a child returns CANCELLED.
void CatchStopSignals();
bool StopRequested();
// The signal that arrived; 0 if none.
int StopSignal();

// A running program. It has its own process group, so that Ctrl-C reaches only
// us, and default signal handling.
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  // `name` is its name in messages, because words[0] may be a wrapper.
  // NOT_FOUND: PATH has no such program; otherwise INTERNAL.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& words, const std::string& name);
  // Kills it and its process group if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool Running();
  // OK: it ended with status 0. DEADLINE_EXCEEDED: it still runs at `deadline`.
  // CANCELLED: StopRequested(). ABORTED: it failed; the message contains its
  // last lines. Every error names the program.
  absl::Status Wait(Clock::time_point deadline);
  // True once a socket of the program's network namespace listens on the port
  // and that namespace is the one behind `name_space`, a file ("": any one).
  bool Listens(uint16_t tcp_port, const std::string& name_space) const;
  // Its output so far, stdout and stderr together.
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

// Runs a short command to its end, regardless of signals, and returns its
// output. Statuses as of Start() and Wait().
absl::StatusOr<std::string> RunTool(const std::vector<std::string>& words);

// True if PATH has such a program.
bool IsInstalled(const std::string& program);

}  // namespace urnic
