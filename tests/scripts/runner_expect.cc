#include <cstring>

#include "tests/scripts/runner.h"

namespace urnic::scripts {
namespace {

// The names of enum ibv_wc_status, shortened.
const std::map<std::string, uint8_t>& StatusNames() {
  static const std::map<std::string, uint8_t> kNames = {
      {"ok", URNIC_WC_SUCCESS},
      {"local-length", URNIC_WC_LOC_LEN_ERR},
      {"local-qp-op", URNIC_WC_LOC_QP_OP_ERR},
      {"local-prot", URNIC_WC_LOC_PROT_ERR},
      {"flushed", URNIC_WC_WR_FLUSH_ERR},
      {"bind", URNIC_WC_MW_BIND_ERR},
      {"bad-response", URNIC_WC_BAD_RESP_ERR},
      {"remote-invalid", URNIC_WC_REM_INV_REQ_ERR},
      {"remote-access", URNIC_WC_REM_ACCESS_ERR},
      {"remote-op", URNIC_WC_REM_OP_ERR},
      {"retry-exceeded", URNIC_WC_RETRY_EXC_ERR},
      {"rnr-exceeded", URNIC_WC_RNR_RETRY_EXC_ERR}};
  return kNames;
}

std::string Show(const testing::Completion& c) {
  std::string status = std::to_string(c.status);
  for (const auto& [name, value] : StatusNames()) {
    if (value == c.status) status = name;
  }
  return std::string(c.recv ? "recv" : "send") + " id " +
         std::to_string(c.wr_id) + " " + status + " len " +
         std::to_string(c.byte_len) + " opcode " + std::to_string(c.opcode) +
         " imm " + std::to_string(c.imm_or_key) + " flags " +
         std::to_string(c.wc_flags) + (c.solicited ? " solicited" : "");
}

}  // namespace

bool Runner::ExpectSent(Words& words) {
  if (words.Take("nothing")) {
    if (sent_.empty()) return true;
    return Fail("sent " + testing::Describe(sent_.front().packet));
  }
  PacketText want;
  const std::string problem = ParsePacketText(
      words, [this](const auto& w, auto& p) { return ResolvePlace(w, p); },
      want);
  if (!problem.empty()) return Fail(problem);
  if (sent_.empty()) return Fail("nothing was sent");
  const Sent sent = std::move(sent_.front());
  sent_.pop_front();
  const std::string shown = testing::Describe(sent.packet);
  if (const std::string e = Mismatch(want, sent.packet); !e.empty()) {
    return Fail(e + ": sent " + shown);
  }
  if (sent.when != now_) {
    return Fail("sent " + std::to_string((now_ - sent.when).ns()) +
                " ns earlier: " + shown);
  }
  return true;
}

bool Runner::Expect(Words& words) {
  if (words.Take("cqe")) return ExpectCompletion(words);
  if (words.Take("mem")) return ExpectMemory(words);
  if (words.Take("deadline")) return ExpectDeadline(words);
  if (words.Take("verdicts")) return ExpectVerdicts(words);
  if (words.Take("state")) return ExpectState(words);
  if (words.Take("event")) return ExpectEvent(words);
  if (words.Take("no-cqe")) {
    return completions_.empty() || Fail("there is " + Show(completions_[0]));
  }
  return ExpectCounter(words);
}

// expect cqe send|recv id N STATUS [len N] [imm N] [inv N] [op N] [solicited]
bool Runner::ExpectCompletion(Words& words) {
  if (completions_.empty()) return Fail("no completion");
  const testing::Completion c = completions_.front();
  completions_.pop_front();
  const bool recv = words.Take("recv");
  if (!recv && !words.Take("send")) return Fail("cqe send or recv");
  bool fits = recv == c.recv;
  bool solicited = false;
  while (!words.empty()) {
    const std::string key = words.Next();
    const auto status = StatusNames().find(key);
    if (status != StatusNames().end()) {
      fits &= c.status == status->second;
      continue;
    }
    if (key == "solicited") {
      solicited = true;
      continue;
    }
    uint64_t n;
    if (!TakeNumber(words, key, n)) return false;
    if (key == "id") {
      fits &= c.wr_id == n;
    } else if (key == "len") {
      fits &= c.byte_len == n;
    } else if (key == "op") {
      fits &= c.opcode == n;
    } else if (key == "imm") {
      fits &= c.imm_or_key == n && c.wc_flags == URNIC_WC_WITH_IMM;
    } else if (key == "inv") {
      fits &= c.imm_or_key == n && c.wc_flags == URNIC_WC_WITH_INV;
    } else {
      return Fail("unknown word '" + key + "'");
    }
  }
  fits &= solicited == c.solicited;
  return fits || Fail("completed " + Show(c));
}

// expect mem PLACE len N data K | expect mem PLACE len N zero |
// expect mem PLACE u64 N
bool Runner::ExpectMemory(Words& words) {
  Place place;
  uint64_t n = 0, data = 0;
  if (!TakePlace(words, place)) return false;
  if (words.Take("u64")) {
    if (!TakeNumber(words, "u64", n)) return false;
    uint64_t got;
    std::memcpy(&got, host_.bytes(place.offset, 8).data(), 8);
    return got == n || Fail("memory is " + std::to_string(got));
  }
  if (!words.Take("len") || !TakeNumber(words, "len", n)) {
    return Fail("expect mem PLACE len N data K");
  }
  const bool zero = words.Take("zero");
  if (!zero && (!words.Take("data") || !TakeNumber(words, "data", data))) {
    return Fail("expect mem PLACE len N data K");
  }
  const auto bytes = host_.bytes(place.offset, n);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint8_t want =
        zero ? uint8_t{0} : PatternByte(static_cast<uint8_t>(data), i);
    if (bytes[i] != want) {
      return Fail("memory byte " + std::to_string(i) + " is " +
                  std::to_string(bytes[i]) + ", expected " +
                  std::to_string(want));
    }
  }
  return true;
}

// expect deadline TIME | never, from now.
bool Runner::ExpectDeadline(Words& words) {
  const Time deadline = end_->qp().NextDeadline();
  if (words.Take("never")) {
    return deadline.IsInfinite() || Fail("there is a deadline");
  }
  const auto want = words.TakeDuration();
  if (!want) return Fail("deadline needs a time or 'never'");
  if (deadline.IsInfinite()) return Fail("there is no deadline");
  return deadline - now_ == *want ||
         Fail("the deadline is in " + std::to_string((deadline - now_).ns()) +
              " ns");
}

bool Runner::ExpectVerdicts(Words& words) {
  for (const RxVerdict verdict : verdicts_) {
    const std::string name = kRxVerdictNames[static_cast<size_t>(verdict)];
    if (!words.Take(name)) return Fail("the verdict is " + name);
  }
  return true;
}

bool Runner::ExpectState(Words& words) {
  static const std::map<std::string, QpState> kStates = {
      {"reset", QpState::kReset}, {"init", QpState::kInit},
      {"rtr", QpState::kRtr},     {"rts", QpState::kRts},
      {"sqd", QpState::kSqd},     {"err", QpState::kErr}};
  const auto it = kStates.find(words.Next());
  if (it == kStates.end()) return Fail("no such state");
  return end_->qp().state() == it->second ||
         Fail("the state is " +
              std::to_string(static_cast<int>(end_->qp().state())));
}

bool Runner::ExpectEvent(Words& words) {
  static const std::map<std::string, QpEvent> kEvents = {
      {"none", QpEvent::kNone},
      {"fatal", QpEvent::kFatal},
      {"request-error", QpEvent::kRequestError},
      {"access-error", QpEvent::kAccessError},
      {"established", QpEvent::kCommEstablished},
      {"drained", QpEvent::kSqDrained}};
  const auto it = kEvents.find(words.Next());
  if (it == kEvents.end()) return Fail("no such event");
  const QpEvent got = end_->TakeEvent();
  return got == it->second ||
         Fail("the event is " + std::to_string(static_cast<int>(got)));
}

bool Runner::ExpectCounter(Words& words) {
  const rc::SendState& s = end_->qp().send_state();
  const std::map<std::string, uint64_t> values = {
      {"sent", s.counters.requests_sent},
      {"resent", s.counters.requests_resent},
      {"timeouts", s.counters.timeouts},
      {"sequence-naks", s.counters.sequence_naks},
      {"rnr-naks", s.counters.rnr_naks},
      {"window", s.path->cc.window()},
      {"sq-consumer", end_->rings().sq().indices().consumer},
      {"rq-consumer", end_->rings().rq().indices().consumer},
      {"expected-psn", end_->qp().responder().expected_psn().value()}};
  const std::string name = words.Next();
  const auto it = values.find(name);
  if (it == values.end()) return Fail("cannot expect '" + name + "'");
  uint64_t n;
  if (!TakeNumber(words, name, n)) return false;
  return it->second == n || Fail(name + " is " + std::to_string(it->second));
}

bool Runner::ExpectNothingLeft() {
  ++line_;
  if (!sent_.empty()) {
    return Fail("left over: " + testing::Describe(sent_.front().packet));
  }
  if (!completions_.empty()) return Fail("left over: " + Show(completions_[0]));
  return true;
}

}  // namespace urnic::scripts
