#pragma once

// A process that is to be signalled, and no other: pids are reused, and a run
// directory (verbs/preload/run_dir.h) may have been made by someone who wants
// that root ends the program of another user.

#include <sys/types.h>

#include <string>

namespace urnic {

// Of the process that a run directory names. 0: none, or one of another PID
// namespace, where its pid means another process.
pid_t OurPidOf(const std::string& run_directory);

// Why this kernel cannot hold a process; empty: it can.
std::string WhyNoHeldProcess();

class HeldProcess {
 public:
  // Holds the process that has this pid, by a pidfd, and then compares its
  // start time with that of the directory's name. So it is the process that
  // made the directory, and from now on no other can take its place. For root,
  // the directory must belong to root or to the owner of the process.
  explicit HeldProcess(const std::string& run_directory);
  ~HeldProcess();
  HeldProcess(const HeldProcess&) = delete;
  HeldProcess& operator=(const HeldProcess&) = delete;

  // It has ended, or did so before.
  bool has_ended() const { return has_ended_; }
  // Why it must not be signalled; empty: it is held, or has ended.
  const std::string& mistake() const { return mistake_; }
  // Of the process, as `mistake()` and `has_ended()` will say.
  void Signal(int signal);

 private:
  void Open(const std::string& run_directory);

  int fd_ = -1;
  bool has_ended_ = false;
  std::string mistake_;
};

}  // namespace urnic
