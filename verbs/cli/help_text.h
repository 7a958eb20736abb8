#pragma once

// How the help of the command and of its subcommands looks: in lines of at most
// kHelpColumns characters. Pure.

#include <cstddef>
#include <string>
#include <string_view>

namespace urnic {

inline constexpr size_t kHelpColumns = 80;

// Breaks the lines of `text` that are too long at their blanks, and leaves the
// others as they are: examples and tables. Every line begins after `indent`
// columns. The first line is returned without these blanks, because it follows
// what is in these columns. A word that is longer than a line is not broken.
std::string WrapLines(std::string_view text, size_t indent);

// "  --port DEV        What the RNIC sends through": an option, an argument or
// a subcommand, with a line feed.
std::string HelpEntry(const std::string& name, const std::string& explanation);

}  // namespace urnic
