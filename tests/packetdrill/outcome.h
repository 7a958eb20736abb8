#pragma once

// What a script says about our TCP.

#include <cstdint>
#include <string>
#include <utility>

namespace urnic::packetdrill {

enum class Result : uint8_t {
  kPasses,
  kDiffers,        // our TCP does something else than the script says
  kNotApplicable,  // the script needs what our TCP, or the interpreter, lacks
};
inline constexpr const char* kResultNames[] = {"passes", "differs",
                                               "not applicable"};

struct Outcome {
  Result result = Result::kPasses;
  std::string text = {};  // what differs, or what is missing
  int line = 0;           // of the script; 0: not known
  bool ok() const { return result == Result::kPasses; }
};

inline Outcome Differs(std::string text) {
  return {Result::kDiffers, std::move(text)};
}
inline Outcome NotApplicable(std::string text) {
  return {Result::kNotApplicable, std::move(text)};
}

}  // namespace urnic::packetdrill
