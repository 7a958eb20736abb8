#include "verbs/cli/help_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace urnic {
namespace {

// Where the explanations begin: behind "--process PID|DIR", the longest option.
constexpr size_t kExplanationColumn = 22;

std::string WrapLine(const std::string& line, size_t indent) {
  if (indent + line.size() <= kHelpColumns) return line;
  std::string wrapped;
  size_t column = indent;
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(line, ' '))) {
    if (column != indent && column + 1 + word.size() > kHelpColumns) {
      absl::StrAppend(&wrapped, "\n", std::string(indent, ' '));
      column = indent;
    }
    if (column != indent) {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
    column += word.size();
  }
  return wrapped;
}

}  // namespace

std::string WrapLines(std::string_view text, size_t indent) {
  std::string wrapped;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (begin != 0) absl::StrAppend(&wrapped, "\n", std::string(indent, ' '));
    wrapped += WrapLine(std::string(text.substr(begin, end - begin)), indent);
    begin = end + 1;
  }
  return wrapped;
}

std::string HelpEntry(const std::string& name, const std::string& explanation) {
  std::string entry = "  " + name;
  if (entry.size() + 2 > kExplanationColumn) {
    absl::StrAppend(&entry, "\n", std::string(kExplanationColumn, ' '));
  } else {
    entry.resize(kExplanationColumn, ' ');
  }
  return absl::StrCat(entry, WrapLines(explanation, kExplanationColumn), "\n");
}

}  // namespace urnic
