#pragma once

// How the help of the command and of its subcommands looks: in lines of at most
// kHelpColumns characters.

#include <CLI/CLI.hpp>
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

// Given to the command, and inherited by the subcommands that are added later.
class HelpFormatter : public CLI::Formatter {
 public:
  // `usage`: what follows "Usage: ", if CLI11 cannot compose it.
  explicit HelpFormatter(std::string usage = "");

  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option,
                          bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_footer(const CLI::App* app) const override;

 private:
  const std::string usage_;
};

}  // namespace urnic
