// Parsing, hashing and writing of headers, a burst of 32 frames at a time.

#include <cstring>
#include <memory>

#include "bench/frames.h"
#include "bench/loops.h"
#include "transport/wire/frame.h"
#include "transport/wire/icrc.h"

namespace urnic::bench {
namespace {

constexpr uint32_t kBurst = 32;
// BTH, RETH and 8 bytes; BTH, RETH and 4 KB.
constexpr uint32_t kSmallCovered = 12 + 16 + 8;
constexpr uint32_t kLargeCovered = 12 + 16 + 4096;

std::unique_ptr<Frame[]> Burst(uint32_t payload_bytes) {
  auto frames = std::make_unique<Frame[]>(kBurst);
  for (uint32_t i = 0; i < kBurst; ++i) {
    WriteOnlyFrame(payload_bytes, 0x7000, 1, 2, Psn(i), frames[i]);
  }
  return frames;
}

void Parse(benchmark::State& state) {
  const std::unique_ptr<Frame[]> frames = Burst(8);
  wire::FrameView view;
  wire::RocePacket packet;
  Measure(state, kBurst, [&] {
    for (const Frame& frame : std::span(frames.get(), kBurst)) {
      auto verdict = wire::ParseFrame(frame.bytes.data(), frame.size, view);
      auto form = wire::ParseRoce(view.payload, view.payload_bytes, packet);
      benchmark::DoNotOptimize(verdict);
      benchmark::DoNotOptimize(form);
      benchmark::DoNotOptimize(packet);
    }
  });
}

void IcrcVerify(benchmark::State& state, uint32_t payload_bytes) {
  const std::unique_ptr<Frame[]> frames = Burst(payload_bytes);
  const size_t headers = BenchHeaders().size();
  const uint32_t prefix =
      wire::IcrcPrefix(frames[0].bytes.data() + 14, wire::Framing::kIpv4);
  Measure(state, kBurst, [&] {
    for (const Frame& frame : std::span(frames.get(), kBurst)) {
      bool right = wire::VerifyIcrcAfter(prefix, frame.bytes.data() + headers,
                                         frame.size - headers);
      benchmark::DoNotOptimize(right);
    }
  });
}

// The hash alone; each packet waits for the previous one. Measures its latency.
void IcrcChain(benchmark::State& state, uint32_t covered) {
  const std::unique_ptr<Frame[]> frames = Burst(covered - 28);
  uint32_t hash = 1;
  Measure(state, 1, [&] {
    hash = wire::IcrcExtend(hash, frames[0].bytes.data() + 42, covered);
    benchmark::DoNotOptimize(hash);
  });
}

void HeaderWrite(benchmark::State& state) {
  const wire::HeaderTemplate headers = BenchHeaders();
  const auto frames = std::make_unique<Frame[]>(kBurst);
  Measure(state, kBurst, [&] {
    for (uint32_t i = 0; i < kBurst; ++i) {
      headers.Write(frames[i].bytes.data(), 40);
      benchmark::ClobberMemory();
    }
  });
}

}  // namespace

void AddWireLoops(std::vector<Loop>& loops) {
  loops.push_back({"wire/parse", Parse});
  loops.push_back({"wire/icrc_verify/36", [](benchmark::State& state) {
                     IcrcVerify(state, kSmallCovered - 28);
                   }});
  loops.push_back({"wire/icrc_verify/4124", [](benchmark::State& state) {
                     IcrcVerify(state, kLargeCovered - 28);
                   }});
  loops.push_back({"wire/icrc_latency/36", [](benchmark::State& state) {
                     IcrcChain(state, kSmallCovered);
                   }});
  loops.push_back({"wire/icrc_latency/4124", [](benchmark::State& state) {
                     IcrcChain(state, kLargeCovered);
                   }});
  loops.push_back({"wire/header_write", HeaderWrite});
}

}  // namespace urnic::bench
