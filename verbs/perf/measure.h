#pragma once

// The tests of `urnic perf rud`. Each runs at the client; Serve() is what the
// server does meanwhile. With both ends in one program, the client's test also
// runs the server.

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "verbs/perf/end.h"

namespace urnic::perf {

enum class Operation : uint8_t { kWrite, kRead, kSend };

struct RateResult {
  uint64_t operations = 0;
  double seconds = 0;
};
// Keeps `depth` operations of `bytes` under way for so long, after a tenth of
// the time that does not count. `also` is called after each poll, and ends the
// test by an error.
absl::StatusOr<RateResult> MeasureRate(
    End& end, Operation operation, uint64_t bytes, uint32_t depth,
    double seconds, const std::function<absl::Status()>& also);

struct LatencyResult {
  uint64_t rounds = 0;
  // Of one way, in microseconds.
  double minimum = 0, median = 0, p99 = 0, p999 = 0, maximum = 0;
};
// Messages that the server sends back; half of the round trip. A read: all of
// it. A write: until its event, all of it.
absl::StatusOr<LatencyResult> MeasureLatency(
    End& end, Operation operation, uint64_t bytes, double seconds,
    const std::function<absl::Status()>& also);

// What the server does: polls, and sends messages back if it echoes.
class Server {
 public:
  Server(End& end, bool echoes) : end_(end), echoes_(echoes) {}
  // Once. An error of the endpoint, or of an answer.
  absl::Status Serve();

 private:
  End& end_;
  const bool echoes_;
};

}  // namespace urnic::perf
