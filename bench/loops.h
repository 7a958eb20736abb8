#pragma once

// The registry of inner-loop benchmarks, and how they report. Each loop is a
// Google Benchmark function that processes packets; it says how many.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace urnic::bench {

struct Loop {
  std::string name;
  std::function<void(benchmark::State&)> run;
};

// All loops of this binary; filled by the Add functions below.
void AddWireLoops(std::vector<Loop>& loops);
void AddMemoryLoops(std::vector<Loop>& loops);
void AddRcLoops(std::vector<Loop>& loops);
void AddEngineLoops(std::vector<Loop>& loops);
void AddRudLoops(std::vector<Loop>& loops);
void AddRudEngineLoops(std::vector<Loop>& loops);
void AddIwarpLoops(std::vector<Loop>& loops);

// Counts the instructions that this thread retires in user mode, if the kernel
// and the (virtual) machine support it.
class InstructionCounter {
 public:
  InstructionCounter();
  ~InstructionCounter();
  InstructionCounter(const InstructionCounter&) = delete;
  InstructionCounter& operator=(const InstructionCounter&) = delete;

  bool available() const { return fd_ >= 0; }
  uint64_t Read() const;

 private:
  int fd_;
};

// Runs `body` until the benchmark has enough; each call processes `packets`.
// Reports packets per second, ns per packet and, if they can be counted,
// instructions per packet.
template <typename Body>
void Measure(benchmark::State& state, uint32_t packets, Body&& body) {
  const InstructionCounter instructions;
  const uint64_t before = instructions.Read();
  for (auto _ : state) body();
  const double total = static_cast<double>(state.iterations()) * packets;
  state.SetItemsProcessed(static_cast<int64_t>(total));
  state.counters["per_packet"] = benchmark::Counter(
      total, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  if (instructions.available()) {
    state.counters["instructions"] =
        static_cast<double>(instructions.Read() - before) / total;
  }
}

}  // namespace urnic::bench
