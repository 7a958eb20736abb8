#include <map>

#include "tests/scripts/runner.h"
#include "transport/work/timers.h"

namespace urnic::scripts {

// "rwa": remote read, remote write, remote atomic. '-': none.
bool ParseAccess(const std::string& text, uint32_t& out) {
  static const std::map<char, uint32_t> kRights = {
      {'l', mem::kLocalWrite},       {'w', mem::kRemoteWrite},
      {'r', mem::kRemoteRead},       {'a', mem::kRemoteAtomic},
      {'i', mem::kRemoteInvalidate}, {'b', mem::kBindWindow},
      {'f', mem::kFlushGlobal},      {'p', mem::kFlushPersistent},
      {'z', mem::kZeroBased},        {'-', 0}};
  out = 0;
  for (const char c : text) {
    const auto it = kRights.find(c);
    if (it == kRights.end()) return false;
    out |= it->second;
  }
  return !text.empty();
}

Runner::Runner() : host_(1024 * 1024) {
  options_.qpn = 0x11;
  config_.dest_qpn = 0x22;
  config_.mtu = 256;
  config_.sq_psn = Psn(100);
  config_.rq_psn = Psn(200);
  config_.access = mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic;
  config_.timeout = AckTimeout(14);
  config_.max_rd_atomic = 4;
  config_.max_dest_rd_atomic = 4;
  config_.min_rnr_timer = 12;
}

bool Runner::SetUp(Words& words) {
  if (words.Take("qp")) return SetUpQp(words);
  if (words.Take("mr")) return SetUpRegion(words);
  if (words.Take("window")) return SetUpWindow(words);
  return Fail("expected 'qp', 'mr', 'window' or a time");
}

// window NAME type N [pd N]. Its key is the one that it will be bound to.
bool Runner::SetUpWindow(Words& words) {
  const std::string name = words.Next();
  uint64_t type = 0, pd = options_.pd;
  if (!words.Take("type") || !TakeNumber(words, "type", type)) {
    return Fail("window NAME type N");
  }
  if (words.Take("pd") && !TakeNumber(words, "pd", pd)) return false;
  const uint32_t key =
      host_.mrs().AllocateWindow(static_cast<uint32_t>(pd), type == 2);
  regions_[name].key = (key & ~0xffu) | ((key + 1) & 0xff);
  return true;
}

bool Runner::SetUpQp(Words& words) {
  while (!words.empty()) {
    const std::string key = words.Next();
    if (key == "sig-all") {
      options_.sq_sig_all = true;
    } else if (key == "access") {
      if (!ParseAccess(words.Next(), config_.access)) {
        return Fail("access is letters of lwra, or -");
      }
    } else if (key == "state") {
      const std::string state = words.Next();
      if (state != "rtr" && state != "init") return Fail("state rtr or init");
      start_state_ = state == "rtr" ? QpState::kRtr : QpState::kInit;
    } else {
      uint64_t n;
      if (!TakeNumber(words, key, n)) return false;
      if (!SetConfig(key, n)) return Fail("unknown word '" + key + "'");
    }
  }
  return true;
}

bool Runner::SetConfig(const std::string& key, uint64_t n) {
  const auto n32 = static_cast<uint32_t>(n);
  const auto n8 = static_cast<uint8_t>(n);
  if (key == "mtu") return config_.mtu = n32, true;
  if (key == "psn") return config_.sq_psn = Psn(n32), true;
  if (key == "peer-psn") return config_.rq_psn = Psn(n32), true;
  if (key == "timeout") return config_.timeout = AckTimeout(n8), true;
  if (key == "retry") return config_.retry_count = n8, true;
  if (key == "rnr-retry") return config_.rnr_retry = n8, true;
  if (key == "min-rnr") return config_.min_rnr_timer = n8, true;
  if (key == "rd-atomic") return config_.max_rd_atomic = n8, true;
  if (key == "dest-rd-atomic") return config_.max_dest_rd_atomic = n8, true;
  if (key == "window") return config_.window_packets = n32, true;
  if (key == "window-bytes") return config_.window_bytes = n32, true;
  if (key == "rate") return config_.bits_per_second = n * 1000000, true;
  if (key == "sge") return options_.max_sge = n32, true;
  if (key == "inline") return options_.max_inline = n32, true;
  if (key == "sq") return options_.sq_entries = n32, true;
  if (key == "hold") return options_.held_max = n32, true;
  if (key == "rq") return options_.rq_entries = n32, true;
  if (key == "xrc") return options_.xrc = true, options_.srqn = n32, true;
  return false;
}

// mr NAME len N [rights lwra] [pd N] [iova N]
bool Runner::SetUpRegion(Words& words) {
  const std::string name = words.Next();
  uint64_t length = 0, pd = options_.pd, iova = 0;
  uint32_t rights = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead |
                    mem::kRemoteAtomic;
  bool has_iova = false;
  while (!words.empty()) {
    if (words.Take("len")) {
      if (!TakeNumber(words, "len", length)) return false;
    } else if (words.Take("pd")) {
      if (!TakeNumber(words, "pd", pd)) return false;
    } else if (words.Take("iova")) {
      if (!TakeNumber(words, "iova", iova)) return false;
      has_iova = true;
    } else if (words.Take("rights")) {
      if (!ParseAccess(words.Next(), rights)) return Fail("rights are lwrai");
    } else {
      return Fail("unknown word '" + words.Next() + "'");
    }
  }
  if (name.empty() || regions_.count(name) != 0 || length == 0 ||
      memory_used_ + length + 4096 > host_.size()) {
    return Fail("mr NAME len N: bad name or length");
  }
  Region& region = regions_[name];
  region.offset = memory_used_;
  region.length = length;
  region.key =
      host_.RegisterAt(static_cast<uint32_t>(pd), region.offset, length, rights,
                       has_iova ? iova : host_.address(region.offset));
  // An unused page between regions.
  memory_used_ += (length + 8191) / 4096 * 4096;
  return true;
}

bool Runner::StartQp() {
  end_ = std::make_unique<testing::Endpoint>(host_, options_);
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    if (state <= start_state_) end_->qp().Modify(state, config_);
  }
  return true;
}

// "a", "a+16": in a region, by its host address; a number: at the peer.
bool Runner::ResolvePlace(const std::string& word, Place& out) const {
  if (const auto number = ParseNumber(word)) {
    out = Place{.address = *number};
    return true;
  }
  const size_t plus = word.find('+');
  const auto it = regions_.find(word.substr(0, plus));
  if (it == regions_.end()) return false;
  uint64_t skip = 0;
  if (plus != word.npos) {
    const auto number = ParseNumber(word.substr(plus + 1));
    if (!number) return false;
    skip = *number;
  }
  const size_t offset = it->second.offset + skip;
  out = Place{.address = host_.address(offset),
              .key = it->second.key,
              .offset = offset,
              .is_region = true};
  return true;
}

bool Runner::TakePlace(Words& words, Place& out) {
  const std::string word = words.Next();
  return ResolvePlace(word, out) || Fail("no place '" + word + "'");
}

bool Runner::TakeNumber(Words& words, const std::string& what, uint64_t& out) {
  const auto number = words.Number();
  if (!number) return Fail("'" + what + "' needs a number");
  out = *number;
  return true;
}

}  // namespace urnic::scripts
