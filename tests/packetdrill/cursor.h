#pragma once

// Reads the text of a script from the front.

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/base/time.h"

namespace urnic::packetdrill {

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  int line() const { return line_; }
  bool at_end() const { return at_ == text_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool LooksAt(std::string_view what) const {
    return text_.substr(at_, what.size()) == what;
  }
  void Skip(size_t count = 1) {
    for (; count != 0 && !at_end(); --count) line_ += text_[at_++] == '\n';
  }
  bool Take(std::string_view what) {
    if (!LooksAt(what)) return false;
    Skip(what.size());
    return true;
  }

  // Comments count as spaces.
  void SkipSpaces() {
    while (true) {
      SkipInLine();
      if (peek() != '\n') return;
      Skip();
    }
  }
  // Not across the end of the line, except within a comment.
  void SkipInLine() {
    while (true) {
      if (peek() == ' ' || peek() == '\t' || peek() == '\r') {
        Skip();
      } else if (LooksAt("//")) {
        while (!at_end() && peek() != '\n') Skip();
      } else if (LooksAt("/*")) {
        while (!at_end() && !LooksAt("*/")) Skip();
        Take("*/");
      } else {
        return;
      }
    }
  }

  // Up to `end`, which is skipped.
  std::string TakeUntil(std::string_view end) {
    std::string taken;
    while (!at_end() && !LooksAt(end)) {
      taken += peek();
      Skip();
    }
    Take(end);
    return taken;
  }
  template <typename F>
  std::string TakeWhile(F&& is_part) {
    std::string taken;
    while (!at_end() && is_part(peek())) {
      taken += peek();
      Skip();
    }
    return taken;
  }
  std::string TakeWord() {
    return TakeWhile([](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    });
  }
  std::optional<uint32_t> TakeNumber() {
    if (!IsDigit(peek())) return std::nullopt;
    uint64_t value = 0;
    while (IsDigit(peek())) {
      value = value * 10 + static_cast<uint64_t>(peek() - '0');
      Skip();
    }
    return static_cast<uint32_t>(value);
  }
  // Seconds with a fraction: "0", ".1", "0.215".
  std::optional<Duration> TakeSeconds() {
    const bool fraction = peek() == '.' && IsDigit(peek(1));
    if (!IsDigit(peek()) && !fraction) return std::nullopt;
    int64_t ns = int64_t{TakeNumber().value_or(0)} * 1'000'000'000;
    if (peek() == '.' && IsDigit(peek(1))) {
      Skip();
      for (int64_t unit = 100'000'000; IsDigit(peek()); unit /= 10) {
        ns += (peek() - '0') * unit;
        Skip();
      }
    }
    return Duration::Nanoseconds(ns);
  }

 private:
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  const std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace urnic::packetdrill
