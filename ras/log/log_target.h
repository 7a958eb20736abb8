#pragma once

// Where errors are written as they happen: the journal, syslog, or a file of
// JSON lines. A record is what `urnic show error` prints (ras/facts).
//
// Thread: one at a time for each target. Write() does not wait for a reader.

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ras/facts/facts.h"

namespace urnic {

class LogTarget {
 public:
  virtual ~LogTarget() = default;
  // 0, or the errno that Write() would return now. Writes no record, but
  // creates the file.
  virtual int Check() = 0;
  // 0, or an errno: the record is lost.
  virtual int Write(const Facts& record) = 0;
};

// "journal": the fields MESSAGE, PRIORITY and SYSLOG_IDENTIFIER, and one for
// each fact, as in URNIC_CODE and URNIC_LQPN. "syslog": a line of the facility
// "daemon". "json:FILE": appends one object per line to the file, which others
// may rename, remove or truncate at any time; mode 0600. A FIFO needs a reader.
//
// INVALID_ARGUMENT: another text. `journal`: the socket of the journal.
absl::StatusOr<std::unique_ptr<LogTarget>> MakeLogTarget(
    std::string_view text,
    std::string_view journal = "/run/systemd/journal/socket");

// The record as a sentence for people: "urnic0/1 qp 17: URN1001: WHAT WHY".
std::string LogSentence(const Facts& record);

}  // namespace urnic
