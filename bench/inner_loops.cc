// The inner loops of the packet path, one by one: `./dev bench --loops`, or
// bench/instructions.sh for the count that does not depend on the machine.
//
//   inner_loops [--iterations=N] [--no-eal] [Google Benchmark's own flags]
//
// With --iterations every loop runs exactly N times, instead of long enough:
// bench/instructions.sh subtracts two such runs.

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "bench/loops.h"

namespace urnic::bench {

InstructionCounter::InstructionCounter() {
  perf_event_attr attr = {};
  attr.type = PERF_TYPE_HARDWARE;
  attr.size = sizeof(attr);
  attr.config = PERF_COUNT_HW_INSTRUCTIONS;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  fd_ = static_cast<int>(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

InstructionCounter::~InstructionCounter() {
  if (fd_ >= 0) close(fd_);
}

uint64_t InstructionCounter::Read() const {
  uint64_t count = 0;
  if (fd_ < 0 || read(fd_, &count, sizeof(count)) != sizeof(count)) return 0;
  return count;
}

namespace {

int Run(int argc, char** argv) {
  int64_t iterations = 0;
  bool eal = true;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("--iterations=")) {
      iterations = std::atoll(arg.substr(13).data());
    } else if (arg == "--no-eal") {
      eal = false;
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  std::vector<Loop> loops;
  AddWireLoops(loops);
  AddMemoryLoops(loops);
  AddRcLoops(loops);
  AddRudLoops(loops);
  if (eal) {
    AddEngineLoops(loops);
    AddRudEngineLoops(loops);
    AddIwarpLoops(loops);
  }
  for (const Loop& loop : loops) {
    auto* registered =
        benchmark::RegisterBenchmark(loop.name.c_str(), loop.run);
    if (iterations != 0) registered->Iterations(iterations);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace urnic::bench

int main(int argc, char** argv) { return urnic::bench::Run(argc, argv); }
