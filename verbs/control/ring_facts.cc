#include "verbs/control/ring_facts.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "ras/errors/error_code.h"
#include "ras/facts/facts.h"
#include "ras/history/history.h"
#include "transport/iwarp/tcp/image_fields.h"
#include "transport/work/image_fields.h"
#include "verbs/control/failure_text.h"
#include "verbs/control/limits.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/owner.h"

namespace urnic::control {
namespace {

// How many entries are described while the engine waits.
constexpr size_t kStep = 32;

void DescribeEvent(const Happening& happening, const OpenNic& nic, Time now,
                   std::string& out) {
  const HistoryWords& words = WordsOf(happening.event);
  FactWriter facts("event", out);
  facts.Add("link", LinkName(nic, happening.iwarp));
  facts.Add("lqpn", happening.qpn);
  facts.Add("at", WallTimeText(now - happening.at));
  facts.Add("event", words.name);
  switch (happening.event) {
    case HistoryEvent::kState:
      facts.Add(words.a, kQpStateNames[happening.a]);
      facts.Add(words.b, kQpStateNames[happening.b]);
      break;
    case HistoryEvent::kConnectionEnded:
      facts.Add(words.a, tcp::kEndNames[happening.a]);
      facts.Add(words.b, happening.b);
      break;
    case HistoryEvent::kTerminateSent:
    case HistoryEvent::kTerminateReceived:
      facts.AddHex(words.a, happening.a);
      break;
    case HistoryEvent::kRequestFailed:
      facts.Add(words.a, kCompletionStatusNames[happening.a]);
      if (happening.b != 0) facts.Add(words.b, kRxVerdictNames[happening.b]);
      break;
    default:
      facts.Add(words.a, happening.a);
      if (!words.b.empty()) facts.Add(words.b, happening.b);
  }
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  facts.Add("what", words.text);
}

// `ring`: a History or Failures.
template <typename Ring, typename F>
std::optional<uint64_t> DescribeRing(OpenNic& nic, const Ring& ring,
                                     uint64_t number, const F& describe,
                                     std::string& out) {
  Engine::ControlScope scope(nic.engine());
  const Time now = nic.engine().Now();
  return ring.Visit(number, kStep,
                    [&](const auto& entry) { describe(entry, nic, now, out); });
}

}  // namespace

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
  return DescribeRing(nic, nic.engine().failures(), number, DescribeError, out);
}

void DescribeError(const Failure& failure, const OpenNic& nic, Time now,
                   std::string& out) {
  const ErrorWords& words = WordsOf(failure.code);
  FactWriter facts("error", out);
  facts.Add("link", LinkName(nic, failure.iwarp));
  if (failure.qpn != 0) facts.Add("lqpn", failure.qpn);
  if (failure.cqn != 0) facts.Add("cqn", failure.cqn);
  if (failure.srqn != 0) facts.Add("srqn", failure.srqn);
  facts.Add("at", WallTimeText(now - failure.at));
  facts.Add("code", ErrorName(failure.code));
  facts.Add("severity", NameOf(words.severity));
  if (failure.has_peer) facts.Add("peer", PeerText(failure));
  facts.Add("what", words.text);
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
