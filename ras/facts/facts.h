#pragma once

// What is known about one object: its kind and a list of named values. Written
// as one line of text, so that it can be sent, stored and read by people:
//
//   KIND TAB FACT TAB FACT .. LF
//
// A fact is NAME=NUMBER or NAME:TEXT. Those after a TAB "-" are details: people
// see them if they ask for more. In texts, tab, line feed and backslash are
// written as \t, \n and \\.
//
// Plain functions and values. Thread: one at a time for each object.

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace urnic {

// Appends the line of one object to a string, which outlives it.
class FactWriter {
 public:
  // `kind`, and each `name`: lower-case letters, digits, '-' and '_'. A name is
  // used once for an object.
  FactWriter(std::string_view kind, std::string& out) : out_(out) {
    out_ += kind;
  }
  ~FactWriter() { out_ += '\n'; }
  FactWriter(const FactWriter&) = delete;
  FactWriter& operator=(const FactWriter&) = delete;

  template <std::integral T>
  void Add(std::string_view name, T number) {
    Begin(name, '=');
    out_ += std::to_string(number);
  }
  void Add(std::string_view name, std::string_view text);
  void Add(std::string_view name, const char* text) {
    Add(name, std::string_view(text));
  }
  // A text such as "0x1f": keys and addresses.
  void AddHex(std::string_view name, uint64_t value);
  // Those that follow are details. Once at most.
  void BeginDetails() { out_ += "\t-"; }

 private:
  void Begin(std::string_view name, char kind) {
    out_ += '\t';
    out_ += name;
    out_ += kind;
  }

  std::string& out_;
};

struct Fact {
  std::string name;
  std::string value;
  bool is_number = false;
  bool is_detail = false;
};

struct Facts {
  std::string kind;
  std::vector<Fact> facts;

  // The value; null: it is not known.
  const std::string* Find(std::string_view name) const;
};

// A line without its line feed. Empty: it is not one that a FactWriter writes.
std::optional<Facts> ParseFacts(std::string_view line);

}  // namespace urnic
