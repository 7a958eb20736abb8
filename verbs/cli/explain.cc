#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ras/errors/error_code.h"
#include "ras/facts/facts_json.h"
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

Facts FactsOf(const ErrorWords& error) {
  return {.kind = "error",
          .facts = {{"code", ErrorName(error.code)},
                    {"severity", std::string(NameOf(error.severity))},
                    {"text", std::string(error.text)},
                    {"cause", std::string(error.cause)},
                    {"action", std::string(error.action)}}};
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
    std::vector<Facts> list;
    for (const ErrorWords* error : chosen) list.push_back(FactsOf(*error));
    std::puts(JsonOf(list, /*details=*/true, /*pretty=*/false).c_str());
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

void AddExplainCommand(Command& urnic) {
  auto arguments = std::make_shared<ExplainArguments>();
  Command& command = urnic.AddSubcommand(
      "explain", "Say what an error code means, and what to do",
      [arguments] { return Explain(*arguments); });
  command.SetFooter(
      "A code is what uRNIC's messages begin with (URN3002), or the vendor_err "
      "of a work completion (1001). Without a code, all are listed.");
  command.AddOption("CODE", &arguments->codes, "As in URN1001 or 1001");
  command.AddOption("-j,--json", &arguments->json, "Print JSON");
}

}  // namespace urnic
