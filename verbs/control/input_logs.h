#pragma once

// The queue pairs of a port whose inputs are logged (ras/inputs), so that what
// happened to them can be replayed: those that `urnic inputs start` names, and
// with URNIC_INPUTS the first ones of the program. Recordings (recorder.h) and
// dumps with --payload have the logs.
//
// URNIC_INPUTS: words with commas between them.
//   qps:4     from its creation on, as long as fewer than four are logged
//   kib:256   room for each log
// The log of a queue pair that was destroyed stays until there are more than
// kMost logs, or with URNIC_INPUTS more than so many.
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
  // Before it is destroyed.
  void OnDestroyed(EngineQp& qp);

  // RESOURCE_EXHAUSTED: kMost are logged. UNIMPLEMENTED: not for its transport.
  // A queue pair that is logged begins a new log.
  absl::Status Start(EngineQp& qp, uint32_t kib, Time now);
  // False: it is not logged.
  bool Stop(EngineQp& qp);

  // A line of facts for each.
  void Describe(const OpenNic& nic, std::string& out) const;
  // Room in recordings for the logs of URNIC_INPUTS.
  size_t BytesWanted() const {
    return size_t{options_.qps} * options_.kib << 10;
  }
  // Calls `part` with one log after the other, those of failed ones first,
  // without the token, until it returns false. Any thread that does not hold
  // the token.
  void Send(OpenNic& nic,
            const std::function<bool(std::string_view)>& part) const;

 private:
  struct Entry {
    std::shared_ptr<InputLog> log;
    EngineQp* qp;  // null: it was destroyed
  };
  std::list<Entry>::iterator Find(const EngineQp& qp);
  // False: there are too many, all of living queue pairs.
  bool MakeRoom(size_t most);

  InputOptions options_;
  std::list<Entry> entries_;  // the oldest first
};

// The answer to "inputs start QPN KIB" and "inputs stop QPN". `request`:
// without the first word. Any thread that does not hold the token.
std::string AnswerInputs(OpenNic& nic, std::string_view request);

}  // namespace urnic::control
