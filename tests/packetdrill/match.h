#pragma once

// Comparisons of the segments that we send with the packets of a script.
// README.md has the rules.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tests/packetdrill/script.h"
#include "tests/packetdrill/stack.h"

namespace urnic::packetdrill {

// Time stamps of scripts are names: the first packet of ours that has one
// tells what it stands for.
class Timestamps {
 public:
  // A time stamp of ours that the peer echoes.
  uint32_t Live(uint32_t script) const;
  // We have sent it. False: not the time that the script says (in ticks of
  // `tick_us`, with this tolerance).
  bool OnSent(uint32_t script, uint32_t live, int64_t tick_us,
              Duration tolerance);

 private:
  struct Pair {
    uint32_t script = 0;
    uint32_t live = 0;
  };
  std::map<uint32_t, uint32_t> live_;
  std::optional<Pair> first_;
};

// Our numbers for a number of the script. Those of SYNs are absolute in a
// script, all others count from the SYN of their direction.
struct Origin {
  SeqNum ours;             // of our SYN
  SeqNum peers;            // of the peer's SYN
  uint32_t peers_syn = 0;  // the number that the script gives to it
};

// A part of what the script says: the packet may be sent as several segments.
struct Part {
  uint32_t offset = 0;  // bytes that were sent before
  bool is_first = true;
  bool is_last = true;
};

// "": they agree. The payload's length is compared by the caller.
std::string Difference(const Packet& expected, const Part& part,
                       const Sent& sent, const Origin& origin,
                       const Options& options, Timestamps& timestamps);

// As a script would say it.
std::string Describe(const Sent& sent, const Origin& origin);

}  // namespace urnic::packetdrill
