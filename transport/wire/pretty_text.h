#pragma once

// For pretty*.cc only.

#include <charconv>
#include <cstdint>
#include <string>

namespace urnic::wire {

inline std::string Hex(uint64_t value) {
  char digits[16];
  const auto end =
      std::to_chars(digits, digits + sizeof(digits), value, 16).ptr;
  return "0x" + std::string(digits, end);
}

inline void AddField(std::string& line, const char* name,
                     const std::string& value) {
  line.append(" ").append(name).append(" ").append(value);
}
inline void AddField(std::string& line, const char* name, uint64_t value) {
  AddField(line, name, std::to_string(value));
}

}  // namespace urnic::wire
