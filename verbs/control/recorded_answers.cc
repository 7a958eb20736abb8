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

constexpr std::string_view kEvents = "show event";

constexpr std::string_view kRequests[] = {
    "show dev",      "show link", "show stat", "show error",
    "show snapshot", "show qp",   "show tcp",  "show cm_id",
    kEvents,         "state",     "show cq",   "show srq",
    "show pd",       "show ah",   "show mw",   "show mr"};

// Replaces the digits of keys in lines of facts.
std::string Masked(std::string_view lines) {
  std::string text(lines);
  for (const std::string_view name : {"\trkey:0x", "\tlkey:0x"}) {
    for (size_t at = text.find(name); at != std::string::npos;
         at = text.find(name, at)) {
      at += name.size();
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

void RecordEvents(OpenNic& nic, uint64_t events, RecordingBuilder& to) {
  const auto added = [&] {
    Engine::ControlScope scope(nic.engine());
    return nic.engine().history().added();
  };
  const uint64_t end = added();
  std::optional<uint64_t> next = end - std::min(end, events);
  std::string lines;
  while (next.has_value()) {
    lines.clear();
    next = DescribeEvents(nic, *next, lines);
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
    if (!goes_on() || !to.BeginAnswer(request)) return;
    if (request == kEvents) {
      RecordEvents(nic, what.events, to);
    } else {
      // Images are not text.
      const bool has_keys = request.starts_with("show m");
      RecordAnswer(nic, request, what.mask_keys && has_keys, goes_on, to);
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
