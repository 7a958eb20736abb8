#pragma once

// The text form of faults, for `urnic run --fault` and the bridge of the
// tests:
//
//   SPEC = ITEM *( "," ITEM )          each key once
//   ITEM = "loss=" P                   lost
//        | "burst=" ENTER ":" LEAVE [ ":" LOSS ]   lost in bursts, shares
//        | "delay=" T                  later
//        | "jitter=" T [ ":reorder" ]  up to this much more; in order, unless..
//        | "reorder=" P [ ":" T ]      held back for up to T
//        | "duplicate=" P [ ":" T ]    a copy, up to T later
//        | "corrupt=" P                one to three bits flipped
//        | "rate=" R                   a slow wire
//        | "buffer=" S                 the queue in front of it (256KB)
//        | "red=" MIN ":" MAX [ ":" P ]   sizes: ECN marks by its length
//        | "stall=" SPELL
//        | "die=" T                    from then on everything is lost
//        | "direction=" ( "both" | "out" | "in" )
//        | "down=" SPELL           the link is down
//        | "remove=" SPELL         the device is not there
//        | "freeze=" SPELL         it sends and receives nothing
//        | "stuck=" SPELL          it takes nothing to send
//        | "reset=" T [ ":" EVERY ]   it starts again from nothing
//        | "seed=" N                   0 to 2^64 - 1 (1)
//   SPELL = AFTER ":" LENGTH [ ":" EVERY ]   times
//   P = number "%"                     steps of 0.0001%
//   T = number ( "ns" | "us" | "ms" | "s" )
//   S = number ( "B" | "KB" | "MB" )   1 KB is 1024 bytes
//   R = number ( "bit" | "kbit" | "Mbit" | "Gbit" )   a second, powers of 1000
//
// A number may have a fraction; units may be in upper or lower case. What each
// item does to a frame: impairer.h.

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "transport/impair/impairer.h"

namespace urnic::impair {

enum class Direction : uint8_t { kBoth, kOut, kIn };

// Faults of the port's device, not of its wire.
struct DeviceFaults {
  Spell down;
  Spell removed;
  Spell frozen;
  Spell stuck;
  Spell reset;  // an instant; its length is 1 ns
};

struct FaultSpec {
  Config config;
  DeviceFaults device;
  Direction direction = Direction::kBoth;
  uint64_t seed = 1;
};

// INVALID_ARGUMENT: names the item, what is wrong with it, and what it may be.
absl::StatusOr<FaultSpec> ParseFaultSpec(std::string_view text);

}  // namespace urnic::impair
