#pragma once

// Trace events as CTF 1.8, the format of babeltrace2 and Trace Compass. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ras/facts/facts.h"

namespace urnic {

class CtfTrace {
 public:
  // An event of `urnic trace`; of each program, in the order of time. One
  // without a time, component, point or pid is left out.
  void Add(const Facts& event);

  // The text of the file "metadata".
  std::string Metadata() const;
  // The content of one file for each program, by pid.
  const std::map<std::string, std::string>& streams() const { return streams_; }

 private:
  // The number of a class of events: those of one point with the same facts.
  uint32_t ClassOf(const Facts& event);

  // Their descriptions are keys: "receive:packet-received", and the fields.
  std::map<std::string, uint32_t> classes_;
  std::map<std::string, std::string> streams_;
};

}  // namespace urnic
