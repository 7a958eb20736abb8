#include "transport/impair/fault_spec.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"

namespace urnic::impair {
namespace {

constexpr uint64_t kMilli = 1'000'000;
constexpr uint64_t kSecond = 1'000'000'000;
// A value beyond these limits is likely a typing mistake.
constexpr uint64_t kDelayMaxNs = 10 * kSecond;
constexpr uint64_t kAgeMaxNs = 86'400 * kSecond;
constexpr uint64_t kRateMin = 10'000;
constexpr uint64_t kRateMax = 1'000'000'000'000;
// A jumbo frame fits; and 2^30 bytes at the lowest rate fit a Duration.
constexpr uint64_t kBufferMin = 10 * 1024;
constexpr uint64_t kBufferMax = 1024 * 1024 * 1024;
constexpr uint64_t kBufferDefault = 256 * 1024;
// The least default for holding a frame back: longer than a burst.
constexpr Duration kHeldBackLeast = Duration::Microseconds(100);

absl::string_view Abseil(std::string_view text) {
  return {text.data(), text.size()};
}

bool SameLetters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

struct Unit {
  std::string_view name;
  uint64_t factor;
};
constexpr Unit kShares[] = {{"%", 10'000}};
constexpr Unit kTimes[] = {
    {"ns", 1}, {"us", 1000}, {"ms", kMilli}, {"s", kSecond}};
constexpr Unit kSizes[] = {{"B", 1}, {"KB", 1024}, {"MB", 1024 * 1024}};
constexpr Unit kRates[] = {
    {"bit", 1}, {"kbit", 1000}, {"Mbit", 1'000'000}, {"Gbit", 1'000'000'000}};

// "1.5ms" in the smallest unit; empty: not a number with such a unit, more than
// nine digits, or not a whole number of the smallest unit.
std::optional<uint64_t> Measure(std::string_view text,
                                std::span<const Unit> units) {
  uint64_t value = 0;
  uint64_t scale = 1;  // of the fraction
  bool fraction = false;
  size_t digits = 0;
  for (; !text.empty(); text.remove_prefix(1)) {
    const char c = text.front();
    if (c == '.' && !fraction && digits != 0) {
      fraction = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    if (++digits > 9) return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
    if (fraction) scale *= 10;
  }
  if (digits == 0 || (fraction && scale == 1)) return std::nullopt;
  for (const Unit& unit : units) {
    if (!SameLetters(text, unit.name)) continue;
    const uint64_t scaled = value * unit.factor;  // below 10^18
    if (scaled % scale != 0) return std::nullopt;
    return scaled / scale;
  }
  return std::nullopt;
}

// The values of one item, taken one by one. After a value that is wrong or
// missing, ok() is false.
class Values {
 public:
  explicit Values(std::string_view text) : rest_(text) {}

  bool done() const { return !more_; }
  bool ok() const { return ok_; }

  std::string_view Word() {
    if (!more_) ok_ = false;
    const size_t colon = rest_.find(':');
    const std::string_view word = rest_.substr(0, colon);
    more_ = colon != std::string_view::npos;
    rest_ = more_ ? rest_.substr(colon + 1) : std::string_view();
    return word;
  }
  uint64_t Take(std::span<const Unit> units, uint64_t min, uint64_t max) {
    const std::optional<uint64_t> value = Measure(Word(), units);
    if (!value || *value < min || *value > max) ok_ = false;
    return ok_ ? *value : min;
  }
  uint32_t Share() { return static_cast<uint32_t>(Take(kShares, 0, kAll)); }
  Duration Time(uint64_t min_ns, uint64_t max_ns) {
    return Duration::Nanoseconds(
        static_cast<int64_t>(Take(kTimes, min_ns, max_ns)));
  }
  void Fail() { ok_ = false; }

 private:
  std::string_view rest_;
  bool more_ = true;
  bool ok_ = true;
};

struct Draft {
  FaultSpec spec;
  bool reorder_by_delay = false;  // no T was given
};

struct Key {
  std::string_view name;
  void (*read)(Values& values, Draft& draft);
  const char* form;  // and its limits
};

void ReadBurst(Values& values, Draft& draft) {
  Bursts& bursts = draft.spec.config.bursts;
  bursts.enter_ppm = values.Share();
  bursts.leave_ppm = values.Share();
  if (bursts.leave_ppm == 0) values.Fail();
  if (!values.done()) bursts.loss_ppm = values.Share();
}

void ReadJitter(Values& values, Draft& draft) {
  draft.spec.config.jitter = values.Time(0, kDelayMaxNs);
  if (values.done()) return;
  if (values.Word() != "reorder") values.Fail();
  draft.spec.config.jitter_reorders = true;
}

void ReadReorder(Values& values, Draft& draft) {
  draft.spec.config.reorder_ppm = values.Share();
  draft.reorder_by_delay = values.done();
  if (!values.done())
    draft.spec.config.reorder_by = values.Time(1, kDelayMaxNs);
}

void ReadDuplicate(Values& values, Draft& draft) {
  draft.spec.config.duplicate_ppm = values.Share();
  if (!values.done())
    draft.spec.config.duplicate_by = values.Time(0, kDelayMaxNs);
}

void ReadRed(Values& values, Draft& draft) {
  Red& red = draft.spec.config.red;
  red.min_bytes = values.Take(kSizes, 0, kBufferMax);
  red.max_bytes = values.Take(kSizes, 1, kBufferMax);
  if (!values.done()) red.max_ppm = values.Share();
  if (red.min_bytes >= red.max_bytes) values.Fail();
}

void ReadSpell(Values& values, Spell& spell) {
  spell.after = values.Time(0, kAgeMaxNs);
  spell.length = values.Time(1, kAgeMaxNs);
  if (values.done()) return;
  spell.every = values.Time(1, kAgeMaxNs);
  if (spell.every <= spell.length) values.Fail();
}

void ReadReset(Values& values, Draft& draft) {
  Spell& reset = draft.spec.device.reset;
  reset.after = values.Time(1, kAgeMaxNs);
  reset.length = Duration::Nanoseconds(1);
  if (!values.done()) reset.every = values.Time(kMilli, kAgeMaxNs);
}

void ReadDirection(Values& values, Draft& draft) {
  const std::string_view word = values.Word();
  if (word == "both") {
    draft.spec.direction = Direction::kBoth;
  } else if (word == "out") {
    draft.spec.direction = Direction::kOut;
  } else if (word == "in") {
    draft.spec.direction = Direction::kIn;
  } else {
    values.Fail();
  }
}

void ReadSeed(Values& values, Draft& draft) {
  const std::string_view word = values.Word();
  uint64_t seed = 0;
  if (word.empty()) values.Fail();
  for (const char c : word) {
    const auto digit = static_cast<uint64_t>(c - '0');
    if (c < '0' || c > '9' || seed > (UINT64_MAX - digit) / 10) {
      return values.Fail();
    }
    seed = seed * 10 + digit;
  }
  draft.spec.seed = seed;
}

#define URNIC_SPELL                                                         \
  "AFTER:LENGTH[:EVERY], times of up to 86400s, LENGTH above 0s and below " \
  "EVERY"
constexpr Key kKeys[] = {
    {"loss", [](Values& v, Draft& d) { d.spec.config.loss_ppm = v.Share(); },
     "loss=P, a share of 0% to 100% in steps of 0.0001%"},
    {"burst", ReadBurst,
     "burst=ENTER:LEAVE[:LOSS], shares of 0% to 100%, LEAVE above 0%"},
    {"delay",
     [](Values& v, Draft& d) { d.spec.config.delay = v.Time(0, kDelayMaxNs); },
     "delay=T of 0s to 10s, as in 1.5ms"},
    {"jitter", ReadJitter,
     "jitter=T or jitter=T:reorder, T of 0s to 10s, as in 200us"},
    {"reorder", ReadReorder,
     "reorder=P[:T], a share of 0% to 100%, held back for up to T of 1ns to "
     "10s"},
    {"duplicate", ReadDuplicate,
     "duplicate=P[:T], a share of 0% to 100%, the copy up to T of 0s to 10s "
     "later"},
    {"corrupt",
     [](Values& v, Draft& d) { d.spec.config.corrupt_ppm = v.Share(); },
     "corrupt=P, a share of 0% to 100% in steps of 0.0001%"},
    {"rate",
     [](Values& v, Draft& d) {
       d.spec.config.bits_per_second = v.Take(kRates, kRateMin, kRateMax);
     },
     "rate=R of 10kbit to 1000Gbit, as in 2.5Gbit"},
    {"buffer",
     [](Values& v, Draft& d) {
       d.spec.config.buffer_bytes = v.Take(kSizes, kBufferMin, kBufferMax);
     },
     "buffer=S of 10KB to 1024MB"},
    {"red", ReadRed,
     "red=MIN:MAX[:P], sizes of up to 1024MB with MIN below MAX, and a share "
     "of 0% to 100%"},
    {"stall", [](Values& v, Draft& d) { ReadSpell(v, d.spec.config.stall); },
     "stall=" URNIC_SPELL},
    {"die",
     [](Values& v, Draft& d) {
       d.spec.config.die_after = v.Time(1, kAgeMaxNs);
     },
     "die=T of 1ns to 86400s"},
    {"direction", ReadDirection, "direction=both, out or in"},
    {"down", [](Values& v, Draft& d) { ReadSpell(v, d.spec.device.down); },
     "down=" URNIC_SPELL},
    {"remove", [](Values& v, Draft& d) { ReadSpell(v, d.spec.device.removed); },
     "remove=" URNIC_SPELL},
    {"freeze", [](Values& v, Draft& d) { ReadSpell(v, d.spec.device.frozen); },
     "freeze=" URNIC_SPELL},
    {"stuck", [](Values& v, Draft& d) { ReadSpell(v, d.spec.device.stuck); },
     "stuck=" URNIC_SPELL},
    {"reset", ReadReset,
     "reset=AFTER[:EVERY], times of up to 86400s, AFTER above 0s and EVERY of "
     "1ms at least"},
    {"seed", ReadSeed, "seed=N of 0 to 18446744073709551615"},
};

#undef URNIC_SPELL

absl::Status Wrong(std::string_view item, const char* what,
                   std::string_view form) {
  return Refusal(ErrorCode::kBadSpec,
                 absl::StrCat("fault: \"", Abseil(item), "\" ", what,
                              "; write ", Abseil(form)));
}

absl::Status ReadItem(std::string_view item, uint32_t& seen, Draft& draft) {
  const size_t equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  for (const Key& key : kKeys) {
    if (name != key.name || equals == std::string_view::npos) continue;
    const uint32_t bit = 1u << (&key - kKeys);
    if ((seen & bit) != 0) return Wrong(item, "is given twice", key.form);
    seen |= bit;
    Values values(item.substr(equals + 1));
    key.read(values, draft);
    if (values.ok() && values.done()) return absl::OkStatus();
    return Wrong(item, "is wrong or out of range", key.form);
  }
  std::string names;
  for (const Key& key : kKeys) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", Abseil(key.name), "=");
  }
  return Wrong(item, "is not a fault", names);
}

// The defaults and rules that concern several items.
absl::Status Join(Draft& draft) {
  Config& config = draft.spec.config;
  if (draft.reorder_by_delay)
    config.reorder_by = std::max(config.delay * 10, kHeldBackLeast);
  if (config.bits_per_second == 0 &&
      (config.buffer_bytes != 0 || config.red.max_bytes != 0)) {
    return Refusal(
        ErrorCode::kBadSpec,
        "fault: buffer= and red= describe the queue of a slow wire; also give "
        "its rate=");
  }
  if (config.bits_per_second != 0 && config.buffer_bytes == 0) {
    config.buffer_bytes = kBufferDefault;
  }
  if (config.red.max_bytes > config.buffer_bytes) {
    return Refusal(
        ErrorCode::kBadSpec,
        absl::StrCat("fault: red= goes up to ", config.red.max_bytes,
                     " bytes, but the buffer holds ", config.buffer_bytes,
                     "; give a larger buffer="));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FaultSpec> ParseFaultSpec(std::string_view text) {
  static_assert(std::size(kKeys) <= 32);
  Draft draft;
  uint32_t seen = 0;
  for (;;) {
    const size_t comma = text.find(',');
    absl::Status read = ReadItem(text.substr(0, comma), seen, draft);
    if (!read.ok()) return read;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  absl::Status joined = Join(draft);
  if (!joined.ok()) return joined;
  return draft.spec;
}

}  // namespace urnic::impair
