#pragma once

// The contents of a recording of a port (ras/recorder): its answers to `urnic
// show` and `urnic state`.

#include <cstdint>
#include <functional>

#include "ras/recorder/recording_builder.h"
#include "transport/base/time.h"

namespace urnic::control {

class OpenNic;

// The owner that a recording names.
RecordingOwner OwnerOf(const OpenNic& nic);

// How many entries of each list are recorded, counted from the newest.
struct NewestEntries {
  uint64_t events = UINT64_MAX;
  uint64_t failures = UINT64_MAX;  // errors, and snapshots
};

struct WhatToRecord {
  NewestEntries newest = {};
  // Masks the keys of regions and windows, and leaves out images and logs of
  // inputs, which contain keys and bytes of messages.
  bool without_secrets = false;
};

// Appends the answers to a recording that has begun, the most important first,
// because there may not be room for all. Ends early if `goes_on` returns false.
// Any thread that does not hold the token.
void RecordAnswers(OpenNic& nic, const WhatToRecord& what,
                   const std::function<bool()>& goes_on, RecordingBuilder& to);

// The header of a recording that was made now, and took `took`.
recording::HalfHeader HeaderOfNow(uint64_t number, Duration took);

}  // namespace urnic::control
