#include "verbs/control/input_logs.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/roce_qp.h"
#include "ras/errors/refusal.h"
#include "ras/facts/facts.h"
#include "verbs/control/answer.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/owner.h"

namespace urnic::control {
namespace {

constexpr char kVariable[] = "URNIC_INPUTS";

std::vector<std::string> WordsOf(std::string_view text, char between) {
  return absl::StrSplit(absl::string_view(text.data(), text.size()), between,
                        absl::SkipEmpty());
}

// Parses "NAME:NUMBER", with a number from `least` to `most`.
bool ParseWord(std::string_view word, std::string_view name, uint32_t least,
               uint32_t most, uint32_t& value) {
  if (!word.starts_with(name)) return false;
  word.remove_prefix(name.size());
  uint32_t read = 0;
  if (!absl::SimpleAtoi(absl::string_view(word.data(), word.size()), &read) ||
      read < least || read > most) {
    return false;
  }
  value = read;
  return true;
}

// Null: no queue pair has this number.
EngineQp* FindQp(OpenNic& nic, uint32_t qpn) {
  Network& network = nic.network();
  if (EngineQp* const qp = network.qps().Find(qpn)) return qp;
  return network.iwarp_qps().Find(qpn);
}

}  // namespace

bool ParseInputOptions(std::string_view text, InputOptions& options,
                       std::string& mistake) {
  InputOptions read;
  for (const std::string& word : WordsOf(text, ',')) {
    if (ParseWord(word, "qps:", 0, InputLogs::kMost, read.qps) ||
        ParseWord(word, "kib:", InputLogs::kKibMin, InputLogs::kKibMax,
                  read.kib)) {
      continue;
    }
    mistake = absl::StrCat(
        "\"", word, "\" is unknown, or too much; the words are qps:4 (to ",
        InputLogs::kMost, ") and kib:256 (", InputLogs::kKibMin, " to ",
        InputLogs::kKibMax, ")");
    return false;
  }
  options = read;
  return true;
}

InputLogs::InputLogs() {
  const char* const chosen = std::getenv(kVariable);
  std::string mistake;
  if (chosen != nullptr && !ParseInputOptions(chosen, options_, mistake)) {
    ComplainLoudly(
        absl::StrCat(kVariable, ": ", mistake, "; no inputs are logged"));
  }
}

std::list<InputLogs::Entry>::iterator InputLogs::Find(const EngineQp& qp) {
  return std::ranges::find_if(entries_,
                              [&](const Entry& e) { return e.qp == &qp; });
}

bool InputLogs::MakeRoom(size_t most) {
  while (entries_.size() >= most) {
    const auto ended = std::ranges::find_if(
        entries_, [](const Entry& e) { return e.qp == nullptr; });
    if (ended == entries_.end()) return false;
    entries_.erase(ended);
  }
  return true;
}

void InputLogs::OnCreated(EngineQp& qp, Time now) {
  if (options_.qps == 0 || !MakeRoom(options_.qps)) return;
  (void)Start(qp, options_.kib, now);
}

void InputLogs::OnDestroyed(EngineQp& qp) {
  if (const auto found = Find(qp); found != entries_.end()) found->qp = nullptr;
}

absl::Status InputLogs::Start(EngineQp& qp, uint32_t kib, Time now) {
  (void)Stop(qp);
  if (!MakeRoom(kMost)) {
    return Refusal(ErrorCode::kNoPlace,
                   absl::StrCat("the inputs of ", kMost,
                                " queue pairs are logged already; stop one"));
  }
  auto log = std::make_shared<InputLog>(qp.qpn(), size_t{kib} << 10);
  if (!qp.LogInputs(log, now)) {
    return Refusal(
        ErrorCode::kNotBuilt,
        absl::StrCat("queue pair ", qp.qpn(),
                     ": only the inputs of RC and of iWARP are logged"));
  }
  entries_.push_back({std::move(log), &qp});
  return absl::OkStatus();
}

bool InputLogs::Stop(EngineQp& qp) {
  const auto found = Find(qp);
  if (found == entries_.end()) return false;
  (void)qp.LogInputs(nullptr, Time());
  entries_.erase(found);
  return true;
}

void InputLogs::Describe(const OpenNic& nic, std::string& out) const {
  for (const Entry& entry : entries_) {
    FactWriter facts("inputs", out);
    facts.Add("dev", nic.name());
    facts.Add("lqpn", entry.log->qpn());
    facts.Add("queue-pair", entry.qp != nullptr ? "lives" : "destroyed");
    facts.Add("kib", entry.log->bytes() >> 10);
    facts.Add("used", entry.log->used());
    facts.Add("segments", entry.log->segments());
    facts.Add("lost", entry.log->lost_ever());
    AddOwner(ThisProcess(), facts);
  }
}

void InputLogs::Send(OpenNic& nic,
                     const std::function<bool(std::string_view)>& part) const {
  std::vector<std::shared_ptr<InputLog>> logs;
  {
    Engine::ControlScope scope(nic.engine());
    // Queue pairs that have failed come first: there may not be room for all.
    const auto is_over = [](const Entry& entry) {
      return entry.qp == nullptr || entry.qp->state() == QpState::kErr;
    };
    for (const bool over : {true, false}) {
      for (const Entry& entry : entries_) {
        if (is_over(entry) == over) logs.push_back(entry.log);
      }
    }
  }
  std::string bytes;
  for (const auto& log : logs) {
    bytes.clear();
    bytes.reserve(log->bytes() + 256);
    {
      Engine::ControlScope scope(nic.engine());
      log->AppendTo(bytes);
    }
    if (!part(bytes)) return;
  }
}

std::string AnswerInputs(OpenNic& nic, std::string_view request) {
  const std::vector<std::string> words = WordsOf(request, ' ');
  const bool starts = words.size() == 3 && words[0] == "start";
  const bool stops = words.size() == 2 && words[0] == "stop";
  uint32_t qpn = 0;
  uint32_t kib = InputLogs::kKibMin;
  if ((!starts && !stops) || !absl::SimpleAtoi(words[1], &qpn) ||
      (starts && !absl::SimpleAtoi(words[2], &kib)) ||
      kib < InputLogs::kKibMin || kib > InputLogs::kKibMax) {
    return RefusedAnswer(
        absl::StrCat("inputs takes start QPN KIB and stop QPN; KIB is ",
                     InputLogs::kKibMin, " to ", InputLogs::kKibMax));
  }
  Engine::ControlScope scope(nic.engine());
  EngineQp* const qp = FindQp(nic, qpn);
  if (qp == nullptr)
    return RefusedAnswer(absl::StrCat("there is no queue pair ", qpn));
  if (stops) {
    return nic.input_logs().Stop(*qp)
               ? "ok\n"
               : RefusedAnswer(absl::StrCat("the inputs of queue pair ", qpn,
                                            " are not logged"));
  }
  const absl::Status started =
      nic.input_logs().Start(*qp, kib, nic.engine().Now());
  return started.ok() ? "ok\n" : RefusedAnswer(std::string(started.message()));
}

}  // namespace urnic::control
