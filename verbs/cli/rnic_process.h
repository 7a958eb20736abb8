#pragma once

// The RNICs of running programs, and how to ask them
// (verbs/control/control_protocol.h).

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "verbs/control/control_protocol.h"

namespace urnic {

// A device that a program has open.
struct RnicProcess {
  std::string device;          // "urnic0"
  std::string directory;       // the program's run directory
  unsigned long long pid = 0;  // 0: found by its directory alone
  // The port has another name, which also reaches it.
  bool is_second_name = false;

  // "process 12 (ib_write_bw), /run/user/0/urnic-..", without the program's
  // name if the pid is one of another PID namespace (a container).
  std::string Describe() const;
};

// All ports that this user may access, ordered by pid and device. `device` and
// `process` (a pid or a run directory, as a user writes it) may be empty, which
// means any. Without a `device`, a port with two devices is listed once.
// NOT_FOUND: no match. Leftovers of killed programs are ignored.
absl::StatusOr<std::vector<RnicProcess>> FindRnics(const std::string& device,
                                                   const std::string& process);

// The only match. FAILED_PRECONDITION: there are several; the message lists
// them, and says that `pid_option` chooses one.
absl::StatusOr<RnicProcess> FindOneRnic(const std::string& device,
                                        const std::string& process,
                                        const char* pid_option = "--process");

// How long a program may be silent. A whole answer may take six times as long,
// and be half a GiB long: whoever may make a directory in /tmp can claim to be
// a program with an RNIC, and never end its answer.
inline constexpr std::chrono::milliseconds kPatience{
    1000 * URNIC_CONTROL_TIMEOUT_SECONDS};

// The answer without its first line. It may be that of another user's program,
// and have any bytes. UNAVAILABLE: the program does not answer this user, or
// not in time. NOT_FOUND: it has ended, or closed its RNIC, since it was found.
// FAILED_PRECONDITION: it refuses; the message is the program's.
absl::StatusOr<std::string> AskRnic(
    const RnicProcess& rnic, const std::string& request,
    std::chrono::milliseconds patience = kPatience);

// The same, of all of them at the same time, so that those that do not answer
// cost the time of one. In the order of `rnics`.
std::vector<absl::StatusOr<std::string>> AskRnics(
    const std::vector<RnicProcess>& rnics, const std::string& request,
    std::chrono::milliseconds patience = kPatience);

// FAILED_PRECONDITION: for an answer that the command cannot read.
absl::Status Unreadable(const RnicProcess& rnic, const absl::Status& why);

}  // namespace urnic
