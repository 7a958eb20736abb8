#include "verbs/control/recorded_answers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "datapath/engine/engine.h"
#include "verbs/control/control_commands.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/owner.h"
#include "verbs/control/ring_facts.h"
#include "verbs/control/wall_time.h"

namespace urnic::control {
namespace {

constexpr std::string_view kImages = "state";
constexpr std::string_view kInputs = "inputs";

constexpr std::string_view kRequests[] = {
    "show dev",      "show link",   "show stat",   "show qp",    "show error",
    "show snapshot", "show tcp",    "show cm_id",  "show event", kImages,
    "show cq",       "show srq",    "show pd",     "show ah",    "show mw",
    "show mr",       "show memory", "show inputs", kInputs};

// The functions for requests that list entries in the order of time.
using Describer = std::optional<uint64_t> (*)(OpenNic&, uint64_t, std::string&);
Describer DescriberOf(std::string_view request) {
  if (request == "show event") return DescribeEvents;
  if (request == "show error") return DescribeErrors;
  return request == "show snapshot" ? DescribeSnapshots : nullptr;
}

// Replaces each number that begins with or follows `prefix`. The first `kept`
// characters of the prefix stay.
void Mask(std::string& text, std::string_view prefix, size_t kept) {
  constexpr std::string_view kMasked = "masked";
  for (size_t at = text.find(prefix); at != std::string::npos;
       at = text.find(prefix, at)) {
    at += kept;
    // "=" marks a number, and ":" a text, which a masked number is.
    if (kept != 0 && text[at - 1] == '=') text[at - 1] = ':';
    const size_t end = text.find_first_not_of("x0123456789abcdef", at);
    text.replace(at, std::min(end, text.size()) - at, kMasked);
    at += kMasked.size();
  }
}

// Snapshots without the lines that are images.
std::string WithoutImages(std::string_view lines) {
  std::string kept;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n') + 1);
    if (line.find("\tobject:image\t") == std::string_view::npos) kept += line;
    lines.remove_prefix(line.size());
  }
  return kept;
}

// Lines of facts without keys, and without numbers that are parts of keys.
std::string WithoutKeys(std::string_view request, std::string_view lines) {
  std::string text(lines);
  // The message of a refused call may contain a key.
  if (request == "show error") Mask(text, "0x", /*kept=*/0);
  if (request == "show snapshot") text = WithoutImages(text);
  if (request == "show mr" || request == "show mw" ||
      request == "show snapshot") {
    for (const std::string_view name :
         {"\trkey:", "\tlkey:", "\tregion-key:", "\tmrn=", "\tmwn="})
      Mask(text, name, name.size());
  }
  return text;
}

// Sends an answer in parts, until `part` returns false.
void Answer(OpenNic& nic, std::string_view request, const NewestEntries& newest,
            const std::function<bool(std::string_view)>& part) {
  const Describer describe = DescriberOf(request);
  if (describe == nullptr) {
    constexpr std::string_view kOk = "ok\n";
    bool first = true;
    return AnswerControl(nic, request, [&](std::string_view text) {
      if (std::exchange(first, false)) text.remove_prefix(kOk.size());
      return part(text);
    });
  }
  const bool are_events = describe == DescribeEvents;
  const uint64_t end = [&] {
    Engine::ControlScope scope(nic.engine());
    return are_events ? nic.engine().history().added()
                      : nic.engine().failures().added();
  }();
  std::optional<uint64_t> next =
      end - std::min(end, are_events ? newest.events : newest.failures);
  std::string lines;
  while (next.has_value()) {
    lines.clear();
    next = describe(nic, *next, lines);
    if (!part(lines)) return;
  }
}

}  // namespace

RecordingOwner OwnerOf(const OpenNic& nic) {
  const Owner& owner = ThisProcess();
  return {.pid = static_cast<uint32_t>(owner.pid),
          .program = owner.program,
          .port = nic.name()};
}

void RecordAnswers(OpenNic& nic, const WhatToRecord& what,
                   const std::function<bool()>& goes_on, RecordingBuilder& to) {
  for (const std::string_view request : kRequests) {
    if (what.without_secrets && (request == kImages || request == kInputs))
      continue;
    if (!goes_on() || !to.BeginAnswer(request)) return;
    Answer(nic, request, what.newest, [&](std::string_view part) {
      const bool fits = what.without_secrets
                            ? to.Append(WithoutKeys(request, part))
                            : to.Append(part);
      return fits && goes_on();
    });
  }
}

recording::HalfHeader HeaderOfNow(uint64_t number, Duration took) {
  return {.number = number,
          .at_ns = WallTimeNow(),
          .bytes = 0,
          .crc32c = 0,
          .took_us = static_cast<uint32_t>(took.ns() / 1000)};
}

}  // namespace urnic::control
