#pragma once

#include <string>
#include <string_view>

#include "ras/facts/facts.h"

namespace urnic {

// The value of a fact; empty: it is not known.
inline std::string ValueOf(const Facts& object, std::string_view name) {
  const std::string* const value = object.Find(name);
  return value == nullptr ? "" : *value;
}

}  // namespace urnic
