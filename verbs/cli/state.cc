#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "transport/work/image.h"
#include "verbs/cli/command.h"
#include "verbs/cli/image_view.h"
#include "verbs/cli/recorded.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/cli/rnic_process.h"

namespace urnic {
namespace {

struct StateArguments {
  std::string device;
  std::string process;
  std::string from;               // a recording, instead of programs
  std::optional<std::string> qp;  // as a user writes it
  std::optional<uint32_t> qpn;    // the same, parsed; none: all, in short
};

int Complain(const std::string& what) {
  std::fprintf(stderr, "urnic state: %s\n", what.c_str());
  return kExitFailed;
}

//= IBTA 10.2.4.4: a queue pair number has 24 bits
std::optional<uint32_t> ReadQpn(const std::string& text) {
  constexpr uint32_t kMax = 0xffffff;
  uint32_t qpn;
  const bool is_hex = text.starts_with("0x");
  if (!(is_hex ? absl::SimpleHexAtoi(text, &qpn)
               : absl::SimpleAtoi(text, &qpn)) ||
      qpn > kMax) {
    return std::nullopt;
  }
  return qpn;
}

// The part of an image that was asked for.
std::string Chosen(const ImageView& view, const StateArguments& arguments) {
  if (!arguments.qpn) return "  " + view.line + "\n";
  return arguments.qpn == view.qpn ? view.members : "";
}

// Appends one image after the other to `shown`. FAILED_PRECONDITION: an image
// is invalid, or something else is between them.
absl::Status ShowImages(const std::string& answer,
                        const StateArguments& arguments, std::string& shown) {
  std::span<const uint8_t> rest(reinterpret_cast<const uint8_t*>(answer.data()),
                                answer.size());
  while (!rest.empty()) {
    const size_t bytes = ImageLength(rest);
    if (bytes == 0 || bytes > rest.size())
      return absl::FailedPreconditionError("it is not a list of images");
    const auto view = ViewImage(rest.first(bytes));
    if (!view.ok())
      return absl::FailedPreconditionError(absl::StrCat(
          "an image is invalid: ", std::string(view.status().message())));
    shown += Chosen(*view, arguments);
    rest = rest.subspan(bytes);
  }
  return absl::OkStatus();
}

// Prints the images of an answer under a heading. False: it has none that was
// asked for.
bool PrintImages(const std::string& heading, const std::string& answer,
                 const StateArguments& arguments, absl::Status& status) {
  std::string shown;
  status = ShowImages(answer, arguments, shown);
  if (arguments.qpn && shown.empty()) return false;
  std::printf("%s\n%s", heading.c_str(), shown.c_str());
  return true;
}

int ComplainOfQpn(uint32_t qpn) {
  char text[80];
  std::snprintf(text, sizeof(text),
                "no queue pair 0x%06x; to list all, leave --qp out", qpn);
  return Complain(text);
}

int ShowRecorded(const StateArguments& arguments) {
  const auto answer = RecordedAnswer(arguments.from, "state", "state");
  if (!answer.ok()) return Complain(std::string(answer.status().message()));
  absl::Status status;
  const bool any = PrintImages(arguments.from, answer->text, arguments, status);
  if (!status.ok())
    return Complain(
        absl::StrCat(arguments.from, ": ", std::string(status.message())));
  if (!any) return ComplainOfQpn(*arguments.qpn);
  return answer->is_cut ? kExitFailed : kExitOk;
}

int ShowRunning(const StateArguments& arguments) {
  const auto found = FindRnics(arguments.device, arguments.process);
  if (!found.ok()) return Complain(std::string(found.status().message()));
  int exit_status = kExitOk;
  bool any = false;
  const auto answers = AskRnics(*found, "state");
  for (size_t i = 0; i != answers.size(); ++i) {
    const RnicProcess& rnic = (*found)[i];
    const auto& answer = answers[i];
    if (absl::IsNotFound(answer.status())) continue;
    if (!answer.ok()) {
      exit_status = Complain(std::string(answer.status().message()));
      continue;
    }
    absl::Status status;
    any |= PrintImages(rnic.device + ", " + rnic.Describe(), *answer, arguments,
                       status);
    if (!status.ok())
      exit_status = Complain(std::string(Unreadable(rnic, status).message()));
  }
  if (any || exit_status != kExitOk) return exit_status;
  return ComplainOfQpn(*arguments.qpn);
}

int Show(StateArguments arguments) {
  if (arguments.qp) {
    arguments.qpn = ReadQpn(*arguments.qp);
    if (!arguments.qpn) {
      (void)Complain("--qp \"" + *arguments.qp +
                     "\" is not a QPN (0 to 0xffffff)");
      return kExitUsage;
    }
  }
  if (arguments.from.empty()) return ShowRunning(arguments);
  if (arguments.device.empty()) return ShowRecorded(arguments);
  (void)Complain("a recording is of one port: leave DEVICE or --from out");
  return kExitUsage;
}

}  // namespace

void AddStateCommand(Command& urnic) {
  auto arguments = std::make_shared<StateArguments>();
  Command& command = urnic.AddSubcommand(
      "state",
      "Show the state of queue pairs and connections of running programs",
      [arguments] { return Show(*arguments); });
  command.SetFooter(
      "Prints one line for each queue pair and for each connection of rdma_cm. "
      "With --qp, prints all fields of that queue pair and of its connection. "
      "Shows programs of the same user; root sees all.");
  command.AddOption("DEVICE", &arguments->device,
                    "Only this device, for example urnic0");
  AddProcessOption(command, &arguments->process);
  AddFromOption(command, &arguments->from);
  command.AddOption("--qp", &arguments->qp,
                    "All fields of the queue pair with this number",
                    {.type = "QPN"});
}

}  // namespace urnic
