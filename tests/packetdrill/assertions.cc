#include "tests/packetdrill/assertions.h"

#include <cstdint>
#include <optional>
#include <string_view>

#include "tests/packetdrill/cursor.h"
#include "tests/packetdrill/tcp_info.h"

namespace urnic::packetdrill {
namespace {

// comparison := sum { ("==" | "!=" | "<=" | ">=" | "<" | ">") sum }
// sum        := value { ("+" | "-") value }
// value      := number | name
class Evaluator {
 public:
  Evaluator(std::string_view text, const Stack& stack)
      : cursor_(text), stack_(stack) {}

  // Unset: missing() says why.
  std::optional<bool> Comparison() {
    auto left = Sum();
    bool all = true;
    bool any = false;
    while (left) {
      cursor_.SkipSpaces();
      const std::string_view op = TakeOperator();
      if (op.empty()) break;
      const auto right = Sum();
      if (!right) return std::nullopt;
      all &= Holds(*left, op, *right);
      any = true;
      left = right;
    }
    cursor_.SkipSpaces();
    if (!left) return std::nullopt;
    if (!any || !cursor_.at_end()) {
      missing_ = "an expression of Python";
      return std::nullopt;
    }
    return all;
  }
  const std::string& missing() const { return missing_; }
  // "tcpi_snd_cwnd is 10": the fields that were read.
  const std::string& fields() const { return fields_; }

 private:
  std::string_view TakeOperator() {
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (cursor_.Take(op)) return op;
    }
    return "";
  }
  static bool Holds(int64_t a, std::string_view op, int64_t b) {
    if (op == "==") return a == b;
    if (op == "!=") return a != b;
    if (op == "<=") return a <= b;
    if (op == ">=") return a >= b;
    return op == "<" ? a < b : a > b;
  }
  std::optional<int64_t> Sum() {
    auto value = Value();
    while (value) {
      cursor_.SkipSpaces();
      const bool plus = cursor_.Take("+");
      if (!plus && !cursor_.Take("-")) break;
      const auto right = Value();
      if (!right) return std::nullopt;
      value = plus ? *value + *right : *value - *right;
    }
    return value;
  }
  std::optional<int64_t> Value() {
    cursor_.SkipSpaces();
    if (const auto number = cursor_.TakeNumber()) return *number;
    const std::string name = cursor_.TakeWord();
    const auto value = TcpInfo(name, stack_);
    if (!value) {
      missing_ = name.empty() ? "an expression of Python" : name;
    } else if (name.starts_with("tcpi_")) {
      if (!fields_.empty()) fields_ += ", ";
      fields_ += name + " is " + std::to_string(*value);
    }
    return value;
  }

  Cursor cursor_;
  const Stack& stack_;
  std::string missing_;
  std::string fields_;
};

// One statement.
Outcome Check(std::string statement, const Stack& stack,
              std::set<std::string>& skipped) {
  const size_t begin = statement.find_first_not_of(" \t\\");
  if (begin == std::string::npos) return {};
  statement.erase(0, begin);
  if (statement.starts_with("print")) return {};
  constexpr std::string_view kAssert = "assert ";
  if (!statement.starts_with(kAssert)) {
    skipped.insert("code other than assertions");
    return {};
  }
  statement.erase(0, kAssert.size());
  // The message behind the comma is of no use here.
  const std::string condition = statement.substr(0, statement.find(','));
  Evaluator evaluator(condition, stack);
  const auto holds = evaluator.Comparison();
  if (!holds) {
    skipped.insert(evaluator.missing());
    return {};
  }
  if (*holds) return {};
  return Differs("assert " + condition + ": " + evaluator.fields());
}

}  // namespace

Outcome CheckAssertions(const std::string& code, const Stack& stack,
                        std::set<std::string>& skipped) {
  Cursor cursor(code);
  while (!cursor.at_end()) {
    // Statements end with a line or a semicolon.
    const std::string statement = cursor.TakeWhile(
        [](char c) { return c != '\n' && c != ';' && c != '#'; });
    const Outcome outcome = Check(statement, stack, skipped);
    if (!outcome.ok()) return outcome;
    if (cursor.peek() == '#') {
      cursor.TakeUntil("\n");
    } else {
      cursor.Skip();
    }
  }
  return {};
}

}  // namespace urnic::packetdrill
