#include "transport/iwarp/options/options_spec.h"

#include <cstddef>
#include <iterator>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"

namespace urnic::iwarp {
namespace {

absl::string_view Abseil(std::string_view text) {
  return {text.data(), text.size()};
}

struct Word {
  std::string_view text;
  uint8_t value;
};

constexpr Word kSwitch[] = {{"on", true}, {"off", false}};
constexpr Word kRevisions[] = {{"1", 1}, {"2", 2}};
constexpr Word kRtrs[] = {
    {"any", static_cast<uint8_t>(Rtr::kAny)},
    {"zero", static_cast<uint8_t>(Rtr::kZero)},
    {"write", static_cast<uint8_t>(Rtr::kWrite)},
    {"read", static_cast<uint8_t>(Rtr::kRead)},
    {"none", static_cast<uint8_t>(Rtr::kNone)},
};
constexpr Word kEcns[] = {
    {"off", static_cast<uint8_t>(Ecn::kOff)},
    {"classic", static_cast<uint8_t>(Ecn::kClassic)},
    {"dctcp", static_cast<uint8_t>(Ecn::kDctcp)},
};

constexpr Word kTimeouts[] = {{"off", 0}};

struct Key {
  std::string_view name;
  std::span<const Word> words;
  void (*set)(Options& options, uint32_t value);
  // Where a number from 1 on is a choice, too: the largest one.
  uint32_t max = 0;
};

constexpr Key kKeys[] = {
    {"crc", kSwitch, [](Options& o, uint32_t v) { o.crc = v != 0; }},
    {"markers", kSwitch, [](Options& o, uint32_t v) { o.markers = v != 0; }},
    {"mpa", kRevisions,
     [](Options& o, uint32_t v) { o.mpa_revision = static_cast<uint8_t>(v); }},
    {"rtr", kRtrs, [](Options& o, uint32_t v) { o.rtr = static_cast<Rtr>(v); }},
    {"ecn", kEcns, [](Options& o, uint32_t v) { o.ecn = static_cast<Ecn>(v); }},
    {"timeout", kTimeouts,
     [](Options& o, uint32_t v) { o.timeout_seconds = v; },
     Options::kMaxTimeoutSeconds},
};

// "crc=on or off", "timeout=off, or 1 to 86400 seconds"
std::string Form(const Key& key) {
  std::string form = absl::StrCat(Abseil(key.name), "=");
  for (const Word& word : key.words) {
    const bool last = &word == &key.words.back();
    absl::StrAppend(&form,
                    &word == &key.words.front() ? ""
                    : last                      ? " or "
                                                : ", ",
                    Abseil(word.text));
  }
  if (key.max != 0) absl::StrAppend(&form, ", or 1 to ", key.max, " seconds");
  return form;
}

absl::Status Wrong(std::string_view item, const char* what,
                   const std::string& form) {
  return Refusal(
      ErrorCode::kBadSpec,
      absl::StrCat("iwarp: \"", Abseil(item), "\" ", what, "; write ", form));
}

absl::Status ReadItem(std::string_view item, uint32_t& seen, Options& options) {
  const size_t equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  for (const Key& key : kKeys) {
    if (name != key.name || equals == std::string_view::npos) continue;
    const uint32_t bit = 1u << (&key - kKeys);
    if ((seen & bit) != 0) return Wrong(item, "is given twice", Form(key));
    seen |= bit;
    for (const Word& word : key.words) {
      if (item.substr(equals + 1) != word.text) continue;
      key.set(options, word.value);
      return absl::OkStatus();
    }
    uint32_t number = 0;
    if (absl::SimpleAtoi(Abseil(item.substr(equals + 1)), &number) &&
        number >= 1 && number <= key.max) {
      key.set(options, number);
      return absl::OkStatus();
    }
    return Wrong(item, "is not a choice", Form(key));
  }
  std::string names;
  for (const Key& key : kKeys) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", Abseil(key.name), "=");
  }
  return Wrong(item, "is not an option", names);
}

}  // namespace

absl::StatusOr<Options> ParseOptions(std::string_view text) {
  static_assert(std::size(kKeys) <= 32);
  Options options;
  if (text.empty()) return options;
  uint32_t seen = 0;
  for (;;) {
    const size_t comma = text.find(',');
    absl::Status read = ReadItem(text.substr(0, comma), seen, options);
    if (!read.ok()) return read;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  // The frames of revision 1 have no place for it.
  const bool asks = options.rtr != Rtr::kAny && options.rtr != Rtr::kNone;
  if (options.mpa_revision == 1 && asks) {
    return Refusal(
        ErrorCode::kBadSpec,
        "iwarp: revision 1 of MPA has no RTR; write mpa=2, or no rtr=");
  }
  return options;
}

}  // namespace urnic::iwarp
