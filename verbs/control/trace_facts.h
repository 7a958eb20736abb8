#pragma once

// The trace of a port's engine (ras/trace) as lines of facts: `urnic trace`. Of
// all devices of the port, in the order of time. Any thread that does not hold
// the token.

#include <cstdint>
#include <optional>
#include <string>

namespace urnic::control {

class OpenNic;

// Reads what the trace has at one moment, a few entries at a time. The engine
// runs meanwhile, and keeps nothing new until this object is destroyed.
class TraceReader {
 public:
  explicit TraceReader(OpenNic& nic);
  ~TraceReader();
  TraceReader(const TraceReader&) = delete;
  TraceReader& operator=(const TraceReader&) = delete;

  // Appends some lines, from the entry `number` on, and returns the number to
  // continue from; none: that was all.
  std::optional<uint64_t> Describe(uint64_t number, std::string& out) const;

 private:
  OpenNic& nic_;
};

// A line for each component: its level, and how much the trace has.
void DescribeTraceLevels(OpenNic& nic, std::string& out);

// Sets the levels that the user has chosen for this program: URNIC_TRACE, as in
// SetTraceLevels(). A mistake is told, and changes nothing.
void SetChosenTraceLevels(OpenNic& nic);

}  // namespace urnic::control
