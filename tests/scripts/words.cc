#include "tests/scripts/words.h"

#include <cmath>
#include <cstdlib>

namespace urnic::scripts {

Words::Words(std::string_view line) {
  line = line.substr(0, line.find('#'));
  size_t at = 0;
  while ((at = line.find_first_not_of(" \t\r", at)) != line.npos) {
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words_.emplace_back(line.substr(at, end - at));
    at = end;
  }
}

std::string_view Words::Peek() const {
  return empty() ? std::string_view() : std::string_view(words_[next_]);
}

std::string Words::Next() { return empty() ? "" : words_[next_++]; }

bool Words::Take(std::string_view word) {
  if (Peek() != word) return false;
  ++next_;
  return true;
}

std::optional<uint64_t> ParseNumber(std::string_view word) {
  if (word.empty() || word[0] < '0' || word[0] > '9') return std::nullopt;
  const std::string text(word);
  char* end = nullptr;
  uint64_t value = std::strtoull(text.c_str(), &end, 0);
  if (*end == 'k') value *= 1024, ++end;
  if (*end == 'M') value *= 1024 * 1024, ++end;
  if (*end != '\0') return std::nullopt;
  return value;
}

std::optional<uint64_t> Words::Number() {
  const auto value = ParseNumber(Peek());
  if (value) ++next_;
  return value;
}

std::optional<Duration> Words::TakeDuration() {
  const std::string text(Peek());
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return std::nullopt;
  const std::string_view unit(end);
  double scale = 1;
  if (unit == "ns" || (unit.empty() && value == 0)) {
    scale = 1;
  } else if (unit == "us") {
    scale = 1e3;
  } else if (unit == "ms") {
    scale = 1e6;
  } else if (unit == "s") {
    scale = 1e9;
  } else {
    return std::nullopt;
  }
  ++next_;
  return Duration::Nanoseconds(std::llround(value * scale));
}

}  // namespace urnic::scripts
