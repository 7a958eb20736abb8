#pragma once

// The trace of a port's engine (ras/trace) as lines of facts, for `urnic
// trace`. It includes all devices of the port, in the order of time. Any thread
// that does not hold the token.

#include <cstdint>
#include <optional>
#include <string>

namespace urnic::control {

class OpenNic;

// Reads the trace as it is at one moment, a few entries at a time. The engine
// runs meanwhile, but adds no entries until this object is destroyed.
class TraceReader {
 public:
  explicit TraceReader(OpenNic& nic);
  ~TraceReader();
  TraceReader(const TraceReader&) = delete;
  TraceReader& operator=(const TraceReader&) = delete;

  // Appends some lines, from the entry `number` on, and returns the number to
  // continue from; none: there are no more.
  std::optional<uint64_t> Describe(uint64_t number, std::string& out) const;

 private:
  OpenNic& nic_;
};

// A line for each component: its level, and how many entries the trace has.
void DescribeTraceLevels(OpenNic& nic, std::string& out);

// Sets the levels that the user has chosen for this program: URNIC_TRACE, as in
// SetTraceLevels(). A mistake is reported, and changes nothing.
void SetChosenTraceLevels(OpenNic& nic);

}  // namespace urnic::control
