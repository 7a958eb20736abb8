#include "verbs/control/recorded_answers.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "verbs/control/control_commands.h"
#include "verbs/control/failure_text.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/owner.h"
#include "verbs/control/ring_facts.h"

namespace urnic::control {
namespace {

constexpr std::string_view kImages = "state";

constexpr std::string_view kRequests[] = {
    "show dev",   "show link",     "show stat", "show qp",
    "show error", "show snapshot", "show tcp",  "show cm_id",
    "show event", kImages,         "show cq",   "show srq",
    "show pd",    "show ah",       "show mw",   "show mr"};

// Lists in the order of time.
using Describer = std::optional<uint64_t> (*)(OpenNic&, uint64_t, std::string&);
Describer DescriberOf(std::string_view request) {
  if (request == "show event") return DescribeEvents;
  if (request == "show error") return DescribeErrors;
  return request == "show snapshot" ? DescribeSnapshots : nullptr;
}

// Replaces the digits of keys, and of the numbers that are a part of them, in
// lines of facts. A masked number is a text.
std::string Masked(std::string_view lines) {
  std::string text(lines);
  for (const std::string_view name :
       {"\trkey:0x", "\tlkey:0x", "\tmrn=", "\tmwn="}) {
    for (size_t at = text.find(name); at != std::string::npos;
         at = text.find(name, at)) {
      at += name.size();
      if (text[at - 1] == '=') text[at - 1] = ':';
      for (; at != text.size() && std::isxdigit(text[at]) != 0; ++at)
        text[at] = 'x';
    }
  }
  return text;
}

void RecordAnswer(OpenNic& nic, std::string_view request, bool mask_keys,
                  const std::function<bool()>& goes_on, RecordingBuilder& to) {
  constexpr std::string_view kOk = "ok\n";
  bool first = true;
  AnswerControl(nic, request, [&](std::string_view part) {
    if (std::exchange(first, false)) part.remove_prefix(kOk.size());
    return (mask_keys ? to.Append(Masked(part)) : to.Append(part)) && goes_on();
  });
}

void RecordNewest(OpenNic& nic, Describer describe, const NewestEntries& newest,
                  RecordingBuilder& to) {
  const uint64_t end = [&] {
    Engine::ControlScope scope(nic.engine());
    return describe == DescribeEvents ? nic.engine().history().added()
                                      : nic.engine().failures().added();
  }();
  const uint64_t most =
      describe == DescribeEvents ? newest.events : newest.failures;
  std::optional<uint64_t> next = end - std::min(end, most);
  std::string lines;
  while (next.has_value()) {
    lines.clear();
    next = describe(nic, *next, lines);
    if (!to.Append(lines)) return;
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
    if (what.without_secrets && request == kImages) continue;
    if (!goes_on() || !to.BeginAnswer(request)) return;
    if (const Describer describe = DescriberOf(request)) {
      RecordNewest(nic, describe, what.newest, to);
    } else {
      const bool has_keys = request.starts_with("show m");
      RecordAnswer(nic, request, what.without_secrets && has_keys, goes_on, to);
    }
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
