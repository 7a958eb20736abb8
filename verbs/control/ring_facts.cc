#include "verbs/control/ring_facts.h"

#include <cstddef>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "ras/errors/error_code.h"
#include "ras/facts/facts.h"
#include "ras/history/history.h"
#include "ras/presence/presence.h"
#include "transport/iwarp/tcp/image_fields.h"
#include "transport/work/image_fields.h"
#include "verbs/control/failure_text.h"
#include "verbs/control/limits.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/owner.h"
#include "verbs/control/untold.h"
#include "verbs/control/wall_time.h"

namespace urnic::control {
namespace {

// How many entries are described while the engine waits.
constexpr size_t kStep = 4;

void DescribeEvent(const Happening& happening, const OpenNic& nic,
                   std::string& out) {
  FactWriter facts("event", out);
  facts.Add("link", LinkName(nic, happening.iwarp));
  facts.Add("lqpn", happening.qpn);
  facts.Add("at", WallTimeText(happening.at));
  AddEvent(happening.event, happening.a, happening.b, facts);
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  facts.Add("what", WordsOf(happening.event).text);
}

// Adds the lines of the failure's state. Each begins with the facts that
// identify the failure.
void DescribeState(const Failure& failure, const OpenNic&, std::string& out) {
  for (std::string_view rest = failure.state; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    const size_t kind_bytes = line.find('\t');
    {
      FactWriter facts("snapshot", out);
      facts.Add("failed-lqpn", failure.qpn);
      facts.Add("failed-at", WallTimeText(failure.at));
      facts.Add("code", ErrorName(failure.code));
      facts.Add("object", line.substr(0, kind_bytes));
    }
    out.pop_back();
    out += line.substr(kind_bytes);
    out += '\n';
  }
}

// `ring`: a History or Failures.
template <typename Ring, typename F>
std::optional<uint64_t> DescribeRing(OpenNic& nic, const Ring& ring,
                                     uint64_t number, const F& describe,
                                     std::string& out) {
  Engine::ControlScope scope(nic.engine());
  return ring.Visit(number, kStep,
                    [&](const auto& entry) { describe(entry, nic, out); });
}

}  // namespace

void NoteUntold(OpenNic& nic) {
  TakeNested([&](pid_t thread, const char* verb, uint32_t times) {
    Engine::ControlScope scope(nic.engine());
    nic.engine().failures().Add(
        {.code = ErrorCode::kVerbInVerb,
         .text =
             absl::StrCat(verb != nullptr ? verb : "a verb that posts or polls",
                          ": thread ", thread, " was inside a verb"),
         .times = times});
  });
  TakeUntold([&](ErrorCode code, const std::string& text) {
    Engine::ControlScope scope(nic.engine());
    nic.engine().failures().Add({.code = code, .text = text});
  });
  for (const Allocation& one : nic.memory().TakeDamaged()) {
    Engine::ControlScope scope(nic.engine());
    nic.engine().failures().Add(
        {.code = ErrorCode::kObjectDamaged,
         .text = absl::StrCat("behind ", one.bytes, " bytes of a ", one.type,
                              ", made in ", one.place.file, ":", one.place.line,
                              "; found when it was freed")});
  }
}

void AddEvent(HistoryEvent event, uint32_t a, uint32_t b, FactWriter& facts) {
  const HistoryWords& words = WordsOf(event);
  facts.Add("event", words.name);
  switch (event) {
    case HistoryEvent::kState:
      facts.Add(words.a, kQpStateNames[a]);
      facts.Add(words.b, kQpStateNames[b]);
      break;
    case HistoryEvent::kConnectionEnded:
      facts.Add(words.a, tcp::kEndNames[a]);
      facts.Add(words.b, b);
      break;
    case HistoryEvent::kTerminateSent:
    case HistoryEvent::kTerminateReceived:
      facts.AddHex(words.a, a);
      break;
    case HistoryEvent::kRequestFailed:
      facts.Add(words.a, kCompletionStatusNames[a]);
      if (b != 0) facts.Add(words.b, kRxVerdictNames[b]);
      break;
    default:
      facts.Add(words.a, a);
      if (!words.b.empty()) facts.Add(words.b, b);
  }
}

std::string LinkName(const OpenNic& nic, bool iwarp) {
  char device[URNIC_DEVICE_NAME_SIZE];
  urnic_device_name(iwarp ? URNIC_DEVICE_IWARP : URNIC_DEVICE_ROCE,
                    nic.identity().ordinal, device);
  return absl::StrCat(device, "/", kPortNumber);
}

std::optional<uint64_t> DescribeEvents(OpenNic& nic, uint64_t number,
                                       std::string& out) {
  return DescribeRing(nic, nic.engine().history(), number, DescribeEvent, out);
}

std::optional<uint64_t> DescribeErrors(OpenNic& nic, uint64_t number,
                                       std::string& out) {
  if (number == 0) NoteUntold(nic);
  return DescribeRing(nic, nic.engine().failures(), number, DescribeError, out);
}

std::optional<uint64_t> DescribeSnapshots(OpenNic& nic, uint64_t number,
                                          std::string& out) {
  return DescribeRing(nic, nic.engine().failures(), number, DescribeState, out);
}

void DescribeError(const Failure& failure, const OpenNic& nic,
                   std::string& out) {
  const ErrorWords& words = WordsOf(failure.code);
  FactWriter facts("error", out);
  facts.Add("link", LinkName(nic, failure.iwarp));
  if (failure.qpn != 0) facts.Add("lqpn", failure.qpn);
  if (failure.cqn != 0) facts.Add("cqn", failure.cqn);
  if (failure.srqn != 0) facts.Add("srqn", failure.srqn);
  facts.Add("at", WallTimeText(failure.at));
  facts.Add("code", ErrorName(failure.code));
  facts.Add("severity", NameOf(words.severity));
  if (failure.has_peer) facts.Add("peer", PeerText(failure));
  facts.Add("what", words.text);
  if (!failure.operation.empty()) facts.Add("operation", failure.operation);
  const std::string why = WhyText(failure);
  if (!why.empty()) facts.Add("why", why);
  if (failure.times > 1) facts.Add("times", failure.times);
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  if (failure.has_request) {
    facts.Add("wc-status", kCompletionStatusNames[failure.status]);
    facts.Add("wr-id", failure.wr_id);
  }
  facts.Add("cause", words.cause);
  facts.Add("action", words.action);
}

}  // namespace urnic::control
