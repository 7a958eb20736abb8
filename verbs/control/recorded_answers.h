#pragma once

// What is recorded of a port: its answers to `urnic show` and `urnic state`
// (ras/recorder).

#include <cstdint>
#include <functional>

#include "ras/recorder/recording_builder.h"
#include "transport/base/time.h"

namespace urnic::control {

class OpenNic;

// Who records.
RecordingOwner OwnerOf(const OpenNic& nic);

// How many entries of a list in the order of time.
struct NewestEntries {
  uint64_t events = UINT64_MAX;
  uint64_t failures = UINT64_MAX;  // errors, and snapshots
};

struct WhatToRecord {
  NewestEntries newest = {};
  // Without keys of memory: masks those of regions and windows, and leaves
  // images and logs of inputs out, which have keys and bytes of messages.
  bool without_secrets = false;
};

// Appends the answers to a recording that has begun, the most important first,
// since room may not last. Ends early if `goes_on` returns false. Any thread
// that does not hold the token.
void RecordAnswers(OpenNic& nic, const WhatToRecord& what,
                   const std::function<bool()>& goes_on, RecordingBuilder& to);

// Recorded now; it took so long.
recording::HalfHeader HeaderOfNow(uint64_t number, Duration took);

}  // namespace urnic::control
