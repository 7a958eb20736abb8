#include "tests/scripts/runner.h"

#include <cstring>

#include "transport/work/request.h"

namespace urnic::scripts {
namespace {

using testing::Packet;
using testing::RecvWr;
using testing::SendWr;

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

bool IsContinuation(std::string_view line) {
  Words words(line);
  return words.Peek() == "..";
}

bool WrOpcode(const std::string& name, uint8_t& out) {
  for (const RequestKind& kind : kRequestKinds) {
    if (kind.name != name) continue;
    out = kind.opcode;
    return true;
  }
  const auto number = ParseNumber(name);
  if (number) out = static_cast<uint8_t>(*number);
  return number.has_value();
}

}  // namespace

bool Runner::Fail(const std::string& message) {
  if (error_.empty()) {
    error_ = "line " + std::to_string(line_) + ": " + message + "\n" + trace_;
  }
  return false;
}

void Runner::Note(const std::string& what) {
  char when[32];
  std::snprintf(when, sizeof(when), "%12.3f us ",
                static_cast<double>((now_ - Time::FromNs(1000000)).ns()) / 1e3);
  trace_ += when + what + "\n";
}

std::string Runner::Run(std::string_view text) {
  const auto lines = SplitLines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    line_ = static_cast<int>(i) + 1;
    Words words(lines[i]);
    if (words.empty()) continue;
    size_t next = i + 1;
    while (next < lines.size() && Words(lines[next]).empty()) ++next;
    const bool more = next < lines.size() && IsContinuation(lines[next]);
    if (!RunLine(words, more)) return error_;
  }
  if (end_ == nullptr) return "no steps";
  if (!ExpectNothingLeft()) return error_;
  return "";
}

bool Runner::RunLine(Words& words, bool more) {
  const std::string_view first = words.Peek();
  if (end_ == nullptr) {
    if (first[0] != '+') return SetUp(words);
    StartQp();
  }
  const bool continued = words.Take("..");
  if (!continued) {
    if (first[0] != '+') return Fail("a step starts with a time or '..'");
    Words time(first.substr(1));
    const auto delay = time.TakeDuration();
    if (!delay) return Fail("bad time '" + std::string(first) + "'");
    words.Next();
    if (!AdvanceTo(now_ + *delay)) return false;
  }
  const std::string verb = words.Next();
  if (!RunVerb(words, verb)) return false;
  if (!words.empty()) return Fail("unused word '" + words.Next() + "'");
  if (more) return true;
  return DeliverBurst() && (verb == ">" || verb == "expect" || Pump());
}

bool Runner::RunVerb(Words& words, const std::string& verb) {
  if (verb == "<") return Receive(words);
  if (verb == ">") return ExpectSent(words);
  if (verb == "expect") return Expect(words);
  if (verb == "post") return Post(words);
  if (verb == "recv") return PostRecv(words);
  if (verb == "modify") return Modify(words);
  if (verb == "reconfigure") {
    return SetUpQp(words) && (end_->qp().Reconfigure(config_), true);
  }
  if (verb == "mem") return SetMemory(words);
  if (verb == "alter") return Alter(words);
  if (verb == "break") return Break(words);
  if (verb == "transmit") return Transmit(words);
  if (verb == "wait") return true;
  if (verb == "restore") return host_.Restore(), true;
  if (verb == "dereg") {
    const auto it = regions_.find(words.Next());
    if (it == regions_.end()) return Fail("no such region");
    host_.Deregister(it->second.key);
    return true;
  }
  return Fail("unknown step '" + verb + "'");
}

bool Runner::Receive(Words& words) {
  PacketText text;
  const std::string problem = ParsePacketText(
      words, [this](const auto& w, auto& p) { return ResolvePlace(w, p); },
      text);
  if (!problem.empty()) return Fail(problem);
  if (text.marked) marked_ |= uint64_t{1} << burst_.size();
  burst_.push_back(BuildPacket(text));
  Note("< " + testing::Describe(burst_.back()));
  return true;
}

bool Runner::DeliverBurst() {
  if (burst_.empty()) return true;
  verdicts_ = end_->Deliver(burst_, now_, std::exchange(marked_, 0));
  if (verdicts_.size() != burst_.size()) return Fail("a packet did not parse");
  burst_.clear();
  return true;
}

bool Runner::AdvanceTo(Time target) {
  for (int i = 0; end_->qp().NextDeadline() <= target; ++i) {
    const Time due = end_->qp().NextDeadline();
    if (due > now_) now_ = due;
    Note("timer");
    end_->AdvanceTo(now_);
    if (!Pump()) return false;
    if (i > 1000 || end_->qp().NextDeadline() == due) {
      return Fail("a timer fires and does nothing");
    }
  }
  now_ = target;
  return true;
}

bool Runner::TransmitOnce(uint32_t slots) {
  for (Packet& packet : end_->Transmit(now_, slots)) {
    Note("> " + testing::Describe(packet));
    sent_.push_back(Sent{now_, std::move(packet)});
  }
  return true;
}

bool Runner::Pump() {
  int idle = 0;
  while (!hold_ && end_->qp().HasWork()) {
    const size_t before = sent_.size();
    TransmitOnce(slots_);
    idle = sent_.size() == before ? idle + 1 : 0;
    if (idle > 2) return Fail("HasWork() but nothing to send");
  }
  end_->Poll();
  for (const testing::Completion& c : end_->TakeCompletions()) {
    Note(std::string("cqe ") + (c.recv ? "recv" : "send") + " id " +
         std::to_string(c.wr_id) + " status " + std::to_string(c.status));
    completions_.push_back(c);
  }
  end_->qp().CheckInvariants();
  return true;
}

bool Runner::PostField(const std::string& key, Words& words, SendWr& wr,
                       std::string& from, uint32_t& len) {
  uint64_t n = 0;
  if (key == "unsignaled") return wr.flags &= ~URNIC_SEND_SIGNALED, true;
  if (key == "fence") return wr.flags |= URNIC_SEND_FENCE, true;
  if (key == "solicited") return wr.flags |= URNIC_SEND_SOLICITED, true;
  if (key == "from" || key == "into") return from = words.Next(), true;
  if (key == "to" || key == "inv-key") {
    Place place;
    if (!TakePlace(words, place)) return false;
    if (key == "to") wr.remote_addr = place.address;
    if (key == "inv-key") wr.imm_or_key = place.key;
    return true;
  }
  if (key == "window" || key == "region") {
    Place place;
    if (!TakePlace(words, place)) return false;
    if (key == "window") {
      wr.rkey = wr.imm_or_key = place.key;
    } else {
      wr.xrc_srqn = place.key;
      wr.remote_addr = place.address;
    }
    return true;
  }
  if (key == "rights") {
    uint32_t rights = 0;
    if (!ParseAccess(words.Next(), rights)) return Fail("rights are letters");
    wr.swap = rights;
    return true;
  }
  if (key == "sge") {
    Place place;
    if (!TakePlace(words, place) || !TakeNumber(words, key, n)) return false;
    wr.sges.push_back({place.address, static_cast<uint32_t>(n), place.key});
    return true;
  }
  if (!TakeNumber(words, key, n)) return false;
  const auto n32 = static_cast<uint32_t>(n);
  if (key == "id") return wr.wr_id = n, true;
  if (key == "len") return len = n32, true;
  if (key == "rkey") return wr.rkey = n32, true;
  if (key == "srq") return wr.xrc_srqn = n32, true;
  if (key == "imm" || key == "inv") return wr.imm_or_key = n32, true;
  if (key == "level" || key == "bytes") return wr.compare_add = n, true;
  if (key == "range") return wr.swap = n, true;
  if (key == "compare" || key == "add") return wr.compare_add = n, true;
  if (key == "swap") return wr.swap = n, true;
  if (key == "lkey") {
    if (wr.sges.empty()) return Fail("lkey follows an sge");
    return wr.sges.back().lkey = n32, true;
  }
  if (key == "inline") {
    for (size_t i = 0; i < len; ++i) {
      wr.inline_data.push_back(PatternByte(static_cast<uint8_t>(n), i));
    }
    return true;
  }
  return Fail("unknown word '" + key + "'");
}

bool Runner::Post(Words& words) {
  SendWr wr{.wr_id = next_id_++};
  const std::string op = words.Next();
  if (!WrOpcode(op, wr.opcode)) return Fail("unknown request '" + op + "'");
  Note("post " + op + " id " + std::to_string(wr.wr_id));
  std::string from;
  uint32_t len = 0;
  while (!words.empty()) {
    if (!PostField(words.Next(), words, wr, from, len)) return false;
  }
  if (!from.empty()) {
    Place place;
    if (!ResolvePlace(from, place)) return Fail("no place '" + from + "'");
    wr.sges.push_back({place.address, len, place.key});
  }
  return end_->PostSend(wr) || Fail("the send queue is full");
}

bool Runner::PostRecv(Words& words) {
  RecvWr wr{.wr_id = next_id_++};
  while (!words.empty()) {
    uint64_t n;
    if (words.Take("id")) {
      if (!TakeNumber(words, "id", wr.wr_id)) return false;
    } else if (words.Take("sge")) {
      Place place;
      if (!TakePlace(words, place) || !TakeNumber(words, "sge", n)) {
        return false;
      }
      wr.sges.push_back({place.address, static_cast<uint32_t>(n), place.key});
    } else {
      return Fail("unknown word '" + words.Next() + "'");
    }
  }
  Note("recv id " + std::to_string(wr.wr_id));
  return end_->PostRecv(wr) || Fail("the receive queue is full");
}

bool Runner::Modify(Words& words) {
  static const std::map<std::string, QpState> kStates = {
      {"reset", QpState::kReset}, {"init", QpState::kInit},
      {"rtr", QpState::kRtr},     {"rts", QpState::kRts},
      {"sqd", QpState::kSqd},     {"err", QpState::kErr}};
  const std::string name = words.Next();
  const auto it = kStates.find(name);
  if (it == kStates.end()) return Fail("no state '" + name + "'");
  while (!words.empty()) {
    const std::string key = words.Next();
    uint64_t n;
    if (!TakeNumber(words, key, n)) return false;
    if (!SetConfig(key, n)) return Fail("unknown word '" + key + "'");
  }
  Note("modify " + name);
  end_->qp().Modify(it->second, config_);
  return true;
}

// alter sq INDEX op|flags|len|inline|sges N, alter sq|rq producer N: changes
// the rings as a broken or hostile program might.
bool Runner::Alter(Words& words) {
  const bool sq = words.Take("sq");
  if (!sq && !words.Take("rq")) return Fail("alter sq or rq");
  testing::FakeRing& ring = sq ? end_->rings().sq() : end_->rings().rq();
  uint64_t index = 0, n = 0;
  if (words.Take("producer")) {
    if (!TakeNumber(words, "producer", n)) return false;
    ring.indices().producer += static_cast<uint32_t>(n);
    return true;
  }
  if (!TakeNumber(words, "alter", index)) return false;
  const std::string key = words.Next();
  if (!TakeNumber(words, key, n)) return false;
  uint8_t* entry = ring.entry(static_cast<uint32_t>(index));
  const auto n32 = static_cast<uint32_t>(n);
  if (!sq) {
    if (key != "sges") return Fail("alter rq INDEX sges N");
    std::memcpy(entry + offsetof(urnic_rq_wqe, num_sge), &n32, 4);
    return true;
  }
  urnic_sq_wqe wqe;
  std::memcpy(&wqe, entry, sizeof(wqe));
  if (key == "op") wqe.opcode = static_cast<uint8_t>(n);
  if (key == "flags") wqe.flags = static_cast<uint8_t>(n);
  if (key == "sges") wqe.num_sge = static_cast<uint8_t>(n);
  if (key == "inline") wqe.inline_bytes = n32;
  std::memcpy(entry, &wqe, sizeof(wqe));
  if (key == "len") {
    std::memcpy(entry + sizeof(wqe) + offsetof(urnic_sge, length), &n32, 4);
  }
  return true;
}

// mem PLACE len N data K, mem PLACE u64 N
bool Runner::SetMemory(Words& words) {
  Place place;
  uint64_t n = 0, data = 0;
  if (!TakePlace(words, place)) return false;
  if (words.Take("u64")) {
    if (!TakeNumber(words, "u64", n)) return false;
    std::memcpy(host_.bytes(place.offset, 8).data(), &n, 8);
    return true;
  }
  if (!words.Take("len") || !TakeNumber(words, "len", n) ||
      !words.Take("data") || !TakeNumber(words, "data", data)) {
    return Fail("mem PLACE len N data K");
  }
  const auto bytes = host_.bytes(place.offset, n);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = PatternByte(static_cast<uint8_t>(data), i);
  }
  return true;
}

bool Runner::Break(Words& words) {
  Place place;
  uint64_t n = 0;
  if (!TakePlace(words, place) || !words.Take("len") ||
      !TakeNumber(words, "len", n)) {
    return Fail("break PLACE len N unmapped|readonly");
  }
  const std::string how = words.Next();
  if (how != "unmapped" && how != "readonly") return Fail("broken how?");
  host_.Break(place.offset, n,
              how == "unmapped" ? testing::FakeHost::Damage::kUnmapped
                                : testing::FakeHost::Damage::kReadOnly);
  return true;
}

// transmit hold | auto | slots N | N
bool Runner::Transmit(Words& words) {
  uint64_t n = 0;
  if (words.Take("hold")) return hold_ = true;
  if (words.Take("auto")) return hold_ = false, true;
  if (words.Take("slots")) {
    if (!TakeNumber(words, "slots", n)) return false;
    slots_ = static_cast<uint32_t>(n);
    return true;
  }
  return TakeNumber(words, "transmit", n) &&
         TransmitOnce(static_cast<uint32_t>(n));
}

}  // namespace urnic::scripts
