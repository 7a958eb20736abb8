#pragma once

// The RNICs of running programs, and how to ask them
// (verbs/control/control_protocol.h).

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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
// them.
absl::StatusOr<RnicProcess> FindOneRnic(const std::string& device,
                                        const std::string& process);

// The answer without its first line. UNAVAILABLE: the program does not answer
// this user. FAILED_PRECONDITION: it refuses; the message is the program's.
absl::StatusOr<std::string> AskRnic(const RnicProcess& rnic,
                                    const std::string& request);

// FAILED_PRECONDITION: for an answer that the command cannot read.
absl::Status Unreadable(const RnicProcess& rnic, const absl::Status& why);

}  // namespace urnic
