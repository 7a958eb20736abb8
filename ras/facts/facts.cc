#include "ras/facts/facts.h"

#include <algorithm>
#include <cstdio>

namespace urnic {
namespace {

constexpr std::string_view kSpecial = "\t\n\\";
constexpr std::string_view kEscaped = "tn\\";

bool IsName(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

bool IsNumber(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<std::string> Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      plain += text[i];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    const size_t which = kEscaped.find(text[i]);
    if (which == std::string_view::npos) return std::nullopt;
    plain += kSpecial[which];
  }
  return plain;
}

std::optional<Fact> ParseFact(std::string_view text) {
  const size_t end = text.find_first_of("=:");
  if (end == std::string_view::npos || !IsName(text.substr(0, end))) {
    return std::nullopt;
  }
  Fact fact{.name = std::string(text.substr(0, end)),
            .value = "",
            .is_number = text[end] == '='};
  const auto value = Unescape(text.substr(end + 1));
  if (!value || (fact.is_number && !IsNumber(*value))) return std::nullopt;
  fact.value = *value;
  return fact;
}

}  // namespace

void FactWriter::Add(std::string_view name, std::string_view text) {
  Begin(name, ':');
  for (const char c : text) {
    const size_t which = kSpecial.find(c);
    if (which == std::string_view::npos) {
      out_ += c;
    } else {
      out_ += '\\';
      out_ += kEscaped[which];
    }
  }
}

void FactWriter::AddHex(std::string_view name, uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "0x%llx",
                static_cast<unsigned long long>(value));
  Add(name, std::string_view(text));
}

const std::string* Facts::Find(std::string_view name) const {
  const auto at = std::ranges::find(facts, name, &Fact::name);
  return at == facts.end() ? nullptr : &at->value;
}

std::optional<Facts> ParseFacts(std::string_view line) {
  Facts parsed;
  bool details = false;
  bool first = true;
  while (true) {
    const size_t end = std::min(line.find('\t'), line.size());
    const std::string_view word = line.substr(0, end);
    if (first) {
      if (!IsName(word)) return std::nullopt;
      parsed.kind = word;
      first = false;
    } else if (word == "-" && !details) {
      details = true;
    } else if (auto fact = ParseFact(word)) {
      fact->is_detail = details;
      parsed.facts.push_back(*std::move(fact));
    } else {
      return std::nullopt;
    }
    if (end == line.size()) return parsed;
    line.remove_prefix(end + 1);
  }
}

}  // namespace urnic
