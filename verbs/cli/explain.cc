#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ras/errors/error_code.h"
#include "verbs/cli/command.h"

namespace urnic {
namespace {

struct ExplainArguments {
  std::vector<std::string> codes;
  bool json = false;
};

std::string Line(const char* name, std::string_view text) {
  if (text.empty()) return "";
  return absl::StrCat("  ", name, ": ", std::string(text), "\n");
}

// The whole of one code.
std::string TextOf(const ErrorWords& error) {
  return absl::StrCat(ErrorName(error.code), " (", NameOf(error.severity),
                      "): ", std::string(error.text), "\n",
                      Line("cause", error.cause), Line("action", error.action));
}

nlohmann::ordered_json JsonOf(const ErrorWords& error) {
  return {{"code", ErrorName(error.code)},
          {"severity", NameOf(error.severity)},
          {"text", error.text},
          {"cause", error.cause},
          {"action", error.action}};
}

int Explain(const ExplainArguments& arguments) {
  std::vector<const ErrorWords*> chosen;
  for (const std::string& text : arguments.codes) {
    const auto code = ParseErrorCode(text);
    if (!code) {
      std::fprintf(
          stderr,
          "urnic explain: unknown code \"%s\"; urnic explain without a "
          "code lists all\n",
          text.c_str());
      return kExitUsage;
    }
    chosen.push_back(&WordsOf(*code));
  }
  const bool all = chosen.empty();
  if (all) {
    for (const ErrorWords& error : AllErrors()) chosen.push_back(&error);
  }
  if (arguments.json) {
    auto list = nlohmann::ordered_json::array();
    for (const ErrorWords* error : chosen) list.push_back(JsonOf(*error));
    std::puts(list.dump().c_str());
    return kExitOk;
  }
  for (const ErrorWords* error : chosen) {
    if (all) {
      std::printf("%s %s\n", ErrorName(error->code).c_str(),
                  std::string(error->text).c_str());
    } else {
      std::fputs(TextOf(*error).c_str(), stdout);
    }
  }
  return kExitOk;
}

}  // namespace

void AddExplainCommand(CLI::App& app, int* exit_status) {
  CLI::App* command = app.add_subcommand(
      "explain", "Say what an error code means, and what to do");
  command->footer(
      "A code is what uRNIC's messages begin with (URN3002), or the vendor_err "
      "of a work completion (1001). Without a code, all are listed.");
  auto arguments = std::make_shared<ExplainArguments>();
  command->add_option("CODE", arguments->codes, "As in URN1001 or 1001")
      ->configurable(false);
  command->add_flag("-j,--json", arguments->json, "Print JSON");
  command->callback(
      [arguments, exit_status] { *exit_status = Explain(*arguments); });
}

}  // namespace urnic
