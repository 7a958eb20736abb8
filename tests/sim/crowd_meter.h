#pragma once

// What the flows of a crowd achieve while it runs.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/sim/crowd.h"

namespace urnic::sim {

struct CrowdOutcome {
  double goodput_percent = 0;  // of what the slow link carries
  double resent_percent = 0;
  double dropped_percent = 0;    // at the slow link
  double duplicate_percent = 0;  // of what the receiver gets
  double not_held_percent = 0;
  uint64_t timeouts = 0;
  uint64_t failed = 0;
  double jain = 1;
  uint64_t windows = 0;
  double window_jain = 1;  // mean and minimum of the windows
  double window_jain_min = 1;
  Duration stall;               // the longest time without progress of a flow
  uint64_t starved = 0;         // seconds without progress, of all flows
  Duration queue;               // mean time in the buffer and on the wire
  std::vector<uint64_t> bytes;  // of each flow
};

// Measures the first `flows` flows, from now on.
class CrowdMeter {
 public:
  CrowdMeter(Crowd& crowd, const CrowdConfig& config, size_t flows);

  void Run(Duration time);
  CrowdOutcome Result();

 private:
  Duration Window() const;
  void OnTick(Duration tick);
  void EndSilence(Duration& silent);
  void OnWindow();

  Crowd& crowd_;
  const CrowdConfig config_;
  const size_t flows_;
  const CrowdReading first_;
  CrowdReading last_;
  CrowdReading window_begin_;
  Duration time_;
  std::vector<Duration> silent_;  // for how long each flow has made no progress
  Duration stall_;
  uint64_t starved_ = 0;
  uint64_t windows_ = 0;
  double jain_sum_ = 0;
  double jain_min_ = 1;
};

}  // namespace urnic::sim
