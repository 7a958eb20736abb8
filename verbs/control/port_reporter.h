#pragma once

// Reports state changes of a port to the user. Every change goes to the debug
// log. Faults that the user must fix also go to stderr; otherwise a program
// would only notice that its packets are not answered.

#include <set>
#include <string>

#include "datapath/port/port.h"

namespace urnic::control {

// A PortReport (datapath/port). Its port calls it, one call at a time.
class PortReporter {
 public:
  // Each line begins with `device`: "urnic0".
  explicit PortReporter(std::string device) : device_(std::move(device)) {}

  // Writes a line to the debug log. If the user must act (PortInfo::remedy),
  // also writes a line to stderr, but once for each reason, because a port
  // retries forever. A port that waits for its peer is not reported on stderr.
  void operator()(const PortInfo& info);

 private:
  std::string device_;
  std::set<std::string> complained_;
};

}  // namespace urnic::control
