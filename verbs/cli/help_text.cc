#include "verbs/cli/help_formatter.h"

#include <algorithm>
#include <utility>
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

// "  --port DEV        What the RNIC sends through".
std::string Entry(const std::string& name, const std::string& explanation) {
  std::string entry = "  " + name;
  if (entry.size() + 2 > kExplanationColumn) {
    absl::StrAppend(&entry, "\n", std::string(kExplanationColumn, ' '));
  } else {
    entry.resize(kExplanationColumn, ' ');
  }
  return absl::StrCat(entry, WrapLines(explanation, kExplanationColumn), "\n");
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

HelpFormatter::HelpFormatter(std::string usage) : usage_(std::move(usage)) {}

std::string HelpFormatter::make_usage(const CLI::App* app,
                                      std::string name) const {
  if (usage_.empty()) return CLI::Formatter::make_usage(app, name);
  return absl::StrCat("Usage: ", usage_, "\n");
}

// The usage line shows which arguments are required, and the explanations name
// the variables of the environment.
std::string HelpFormatter::make_option(const CLI::Option* option,
                                       bool is_positional) const {
  std::string name = make_option_name(option, is_positional);
  const bool takes_value = option->get_type_size() != 0;
  if (!is_positional && takes_value)
    absl::StrAppend(&name, " ", option->get_type_name());
  return Entry(name, option->get_description());
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return Entry(command->get_name(), command->get_description());
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  const std::string& footer = app->get_footer();
  return footer.empty() ? "" : WrapLines(footer, 0) + "\n";
}

}  // namespace urnic
