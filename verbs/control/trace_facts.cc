#include "verbs/control/trace_facts.h"

#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "ras/errors/error_code.h"
#include "ras/facts/facts.h"
#include "ras/history/history.h"
#include "ras/metrics/rx_verdict.h"
#include "ras/trace/trace.h"
#include "transport/wire/opcode_table.h"
#include "transport/work/image_fields.h"
#include "verbs/abi/rnic_abi.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/limits.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/owner.h"
#include "verbs/control/ring_facts.h"
#include "verbs/control/wall_time.h"

namespace urnic::control {
namespace {

constexpr char kVariable[] = "URNIC_TRACE";
// How many entries are described at a time.
constexpr size_t kStep = 256;

// Empty: the number has no name.
template <size_t kNames>
std::string_view NameIn(const char* const (&names)[kNames], uint64_t number) {
  return number < kNames && names[number] != nullptr ? names[number] : "";
}

std::string_view NameOfWcOpcode(uint64_t opcode) {
  switch (opcode) {
    case URNIC_WC_SEND:
      return "SEND";
    case URNIC_WC_RDMA_WRITE:
      return "RDMA_WRITE";
    case URNIC_WC_RDMA_READ:
      return "RDMA_READ";
    case URNIC_WC_COMP_SWAP:
      return "COMP_SWAP";
    case URNIC_WC_FETCH_ADD:
      return "FETCH_ADD";
    case URNIC_WC_BIND_MW:
      return "BIND_MW";
    case URNIC_WC_LOCAL_INV:
      return "LOCAL_INV";
    case URNIC_WC_FLUSH:
      return "FLUSH";
    case URNIC_WC_ATOMIC_WRITE:
      return "ATOMIC_WRITE";
    case URNIC_WC_RECV:
      return "RECV";
    case URNIC_WC_RECV_RDMA_WITH_IMM:
      return "RECV_RDMA_WITH_IMM";
    default:
      return "";
  }
}

std::string_view NameOfWord(TracePoint point, std::string_view word,
                            uint64_t value) {
  if (word == "verdict") return NameIn(kRxVerdictNames, value);
  if (word == "wc-status") return NameIn(kCompletionStatusNames, value);
  if (word == "wc-opcode") return NameOfWcOpcode(value);
  if (word == "state") return NameIn(kQpStateNames, value);
  const bool is_packet =
      point == TracePoint::kPacketReceived || point == TracePoint::kPacketSent;
  if (word == "opcode" && is_packet)
    return wire::InfoOf(static_cast<uint8_t>(value)).name;
  return "";
}

void AddWord(TracePoint point, std::string_view word, uint64_t value,
             FactWriter& facts) {
  if (word == "code") {
    facts.Add(word, ErrorName(static_cast<ErrorCode>(value)));
  } else if (const auto name = NameOfWord(point, word, value); !name.empty()) {
    facts.Add(word, name);
  } else if (word.starts_with("data-") || word == "tid") {
    facts.AddHex(word, value);
  } else {
    facts.Add(word, value);
  }
}

// The link of the subject; of the port's first device if there is no queue
// pair.
std::string LinkOf(const TraceSubject& subject, const OpenNic& nic) {
  if (subject.qpn == 0) return absl::StrCat(nic.name(), "/", kPortNumber);
  return LinkName(nic, subject.iwarp);
}

void DescribeOne(const TraceEvent& event, const OpenNic& nic, int64_t at_ns,
                 std::string& out) {
  const TracePointWords& words = WordsOf(event.point);
  FactWriter facts("trace", out);
  facts.Add("link", LinkOf(event.subject, nic));
  if (event.subject.qpn != 0) facts.Add("lqpn", event.subject.qpn);
  facts.Add("at", WallTimeText(at_ns));
  facts.Add("component",
            kTraceComponents[static_cast<size_t>(words.component)].name);
  facts.Add("level", words.level);
  facts.Add("point", words.name);
  if (event.point == TracePoint::kVerbBegins ||
      event.point == TracePoint::kVerbEnds) {
    facts.Add("verb", event.place.function);
  }
  if (event.point == TracePoint::kRare) {
    AddEvent(static_cast<HistoryEvent>(event.words[0]),
             static_cast<uint32_t>(event.words[1]),
             static_cast<uint32_t>(event.words[2]), facts);
  } else {
    for (size_t i = 0; i != event.words.size(); ++i) {
      if (!words.words[i].empty())
        AddWord(event.point, words.words[i], event.words[i], facts);
    }
  }
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  facts.Add("at-ns", at_ns);
  facts.Add("cpu", event.cpu);
  facts.Add("file", event.place.file);
  facts.Add("line", event.place.line);
  facts.Add("function", event.place.function);
  facts.Add("what", words.text);
}

}  // namespace

TraceReader::TraceReader(OpenNic& nic) : nic_(nic) {
  Engine::ControlScope scope(nic_.engine());
  nic_.engine().trace().Hold(true);
}

TraceReader::~TraceReader() {
  Engine::ControlScope scope(nic_.engine());
  nic_.engine().trace().Hold(false);
}

std::optional<uint64_t> TraceReader::Describe(uint64_t number,
                                              std::string& out) const {
  // The trace adds nothing meanwhile, so this needs no token.
  return nic_.engine().trace().Visit(
      number, kStep, [&](const TraceEvent& event) {
        DescribeOne(event, nic_, WallTimeOf(event.at), out);
      });
}

void DescribeTraceLevels(OpenNic& nic, std::string& out) {
  Engine::ControlScope scope(nic.engine());
  const Trace& trace = nic.engine().trace();
  for (size_t i = 0; i != TraceLevels::kComponents; ++i) {
    FactWriter facts("trace-level", out);
    facts.Add("link", LinkOf({}, nic));
    facts.Add("component", kTraceComponents[i].name);
    facts.Add("level", trace.levels().Of(static_cast<TraceComponent>(i)));
    AddOwner(ThisProcess(), facts);
    facts.BeginDetails();
    facts.Add("what", kTraceComponents[i].text);
    facts.Add("kept-of-all", trace.added() - trace.oldest());
    facts.Add("replaced-of-all", trace.oldest());
    facts.Add("missed-of-all", trace.missed());
  }
}

void SetChosenTraceLevels(OpenNic& nic) {
  const char* const chosen = std::getenv(kVariable);
  if (chosen == nullptr || *chosen == '\0') return;
  std::string mistake;
  if (!SetTraceLevels(chosen, nic.engine().trace().levels(), mistake)) {
    ComplainLoudly(absl::StrCat(kVariable, ": ", mistake,
                                "; the default levels are used"));
  }
}

}  // namespace urnic::control
