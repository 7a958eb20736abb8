// Any text as faults. A refusal says why; with an accepted text, frames of any
// length at any time are all accounted for.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "transport/base/check.h"
#include "transport/impair/fault_spec.h"
#include "transport/impair/line.h"

namespace {

using urnic::Duration;
using urnic::Time;
using urnic::impair::Count;

constexpr uint32_t kFrames = 16;
constexpr uint32_t kFrameBytes = 200;

void CheckLimits(const urnic::impair::Config& c) {
  URNIC_CHECK(c.loss_ppm <= urnic::impair::kAll);
  URNIC_CHECK(c.bursts.leave_ppm != 0);
  URNIC_CHECK(c.delay >= Duration() && c.delay <= Duration::Seconds(10));
  URNIC_CHECK((c.bits_per_second == 0) == (c.buffer_bytes == 0));
  URNIC_CHECK(c.red.max_bytes <= c.buffer_bytes);
  URNIC_CHECK(c.stall.every == Duration() || c.stall.every > c.stall.length);
}

void Run(const urnic::impair::FaultSpec& spec, const uint8_t* data,
         size_t size) {
  Time now = Time::FromNs(1'000'000'000);
  urnic::impair::Line line(spec.config, spec.seed, now, kFrames, kFrameBytes);
  for (size_t i = 0; i < size; ++i) {
    now = now + Duration::Microseconds(1 << (data[i] % 24));
    std::vector<uint8_t> frame(14 + data[i] % (kFrameBytes - 14), data[i]);
    if (line.Enter(now, frame)) line.OnDelivered(1);
    Time last;
    while (!line.Due(now).empty()) {
      URNIC_CHECK(line.NextDue() <= now && line.NextDue() >= last);
      last = line.NextDue();
      line.Pop();
      line.OnDelivered(1);
    }
  }
  const auto counts = line.Read();
  uint64_t ends = line.under_way();
  for (const Count count :
       {Count::k_delivered, Count::k_lost, Count::k_burst_lost,
        Count::k_overflowed, Count::k_red_dropped, Count::k_dead,
        Count::k_no_room, Count::k_failed}) {
    ends += counts.of(count);
  }
  URNIC_CHECK(counts.of(Count::k_offered) + counts.of(Count::k_duplicated) ==
              ends);
}

}  // namespace

// The text ends at the first line break; what follows is the traffic.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const void* end = size == 0 ? nullptr : std::memchr(data, '\n', size);
  const size_t text =
      end == nullptr
          ? size
          : static_cast<size_t>(static_cast<const uint8_t*>(end) - data);
  const std::string_view words(reinterpret_cast<const char*>(data), text);
  const auto spec = urnic::impair::ParseFaultSpec(words);
  if (!spec.ok()) {
    URNIC_CHECK(!spec.status().message().empty());
    return 0;
  }
  CheckLimits(spec->config);
  // The text itself is traffic, too.
  Run(*spec, data, size);
  return 0;
}
