#pragma once

// The queue pairs of a port whose inputs are logged (ras/inputs), so that their
// behaviour can be replayed. `urnic inputs start` selects a queue pair, and
// URNIC_INPUTS selects the first ones of the program. Recordings (recorder.h)
// and dumps with --payload include the logs.
//
// URNIC_INPUTS: words with commas between them.
//   qps:4     logs new queue pairs while fewer than four are logged
//   kib:256   room for each log
// The log of a destroyed queue pair stays until there are more than kMost logs,
// or, with URNIC_INPUTS, more than `qps`.
//
// Thread: the holder of the engine's token, except where a comment says
// otherwise.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "ras/inputs/input_log.h"
#include "transport/base/time.h"

namespace urnic {
class EngineQp;
}

namespace urnic::control {

class OpenNic;

// The words of URNIC_INPUTS.
struct InputOptions {
  uint32_t qps = 0;
  uint32_t kib = 256;
};
// False: `mistake` says what is wrong.
bool ParseInputOptions(std::string_view text, InputOptions& options,
                       std::string& mistake);

class InputLogs {
 public:
  static constexpr uint32_t kMost = 64;
  static constexpr uint32_t kKibMin = InputLog::kBytesMin >> 10;
  static constexpr uint32_t kKibMax = InputLog::kBytesMax >> 10;

  // Reads URNIC_INPUTS.
  InputLogs();

  void OnCreated(EngineQp& qp, Time now);
  // Call this before the queue pair is destroyed.
  void OnDestroyed(EngineQp& qp);

  // Starts to log the queue pair; if it is logged already, it begins a new log.
  // RESOURCE_EXHAUSTED: kMost queue pairs are logged. UNIMPLEMENTED: its
  // transport cannot be logged.
  absl::Status Start(EngineQp& qp, uint32_t kib, Time now);
  // False: it is not logged.
  bool Stop(EngineQp& qp);

  // Appends a line of facts for each log.
  void Describe(const OpenNic& nic, std::string& out) const;
  // The room that recordings need for the logs of URNIC_INPUTS, in bytes.
  size_t BytesWanted() const {
    return size_t{options_.qps} * options_.kib << 10;
  }
  // Calls `part` with one log after the other, those of failed queue pairs
  // first, until it returns false. `part` is called without the token. Any
  // thread that does not hold the token.
  void Send(OpenNic& nic,
            const std::function<bool(std::string_view)>& part) const;

 private:
  struct Entry {
    std::shared_ptr<InputLog> log;
    EngineQp* qp;  // null: the queue pair was destroyed
  };
  std::list<Entry>::iterator Find(const EngineQp& qp);
  // False: there are `most` logs, and no queue pair of them is destroyed.
  bool MakeRoom(size_t most);

  InputOptions options_;
  std::list<Entry> entries_;  // the oldest first
};

// The answer to "inputs start QPN KIB" and "inputs stop QPN". `request`:
// without the first word. Any thread that does not hold the token.
std::string AnswerInputs(OpenNic& nic, std::string_view request);

}  // namespace urnic::control
