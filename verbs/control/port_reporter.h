#pragma once

// Reports state changes of a port to people: every change goes to the debug
// log, and faults that a person must fix also go to stderr. Otherwise a program
// would only find that its packets are not answered.

#include <set>
#include <string>

#include "datapath/port/port.h"

namespace urnic::control {

// A PortReport. Its port calls it, one call at a time.
class PortReporter {
 public:
  // `device` is how the lines begin: "urnic0".
  explicit PortReporter(std::string device) : device_(std::move(device)) {}

  // One line in the debug log. If the port needs help (PortInfo::remedy), one
  // line on stderr, once for each reason: a port tries again for ever. A port
  // that waits for its peer is none of stderr's business.
  void operator()(const PortInfo& info);

 private:
  std::string device_;
  std::set<std::string> complained_;
};

}  // namespace urnic::control
