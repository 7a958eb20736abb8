#pragma once

// The last rare events of an engine's connections, for people. The newest
// replaces the oldest.
//
// Thread: the holder of the engine's token.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "transport/base/time.h"

namespace urnic {

enum class HistoryEvent : uint8_t {
#define URNIC_HISTORY_EVENT(enumerator, name, a, b, text) enumerator,
#include "ras/history/history_events.def"
#undef URNIC_HISTORY_EVENT
};

// What people read of an event.
struct HistoryWords {
  std::string_view name;
  std::string_view a;  // the name of a word; empty: it has no meaning
  std::string_view b;
  std::string_view text;
};
const HistoryWords& WordsOf(HistoryEvent event);

struct Happening {
  Time at;
  uint32_t qpn = 0;
  HistoryEvent event = {};
  bool iwarp = false;  // numbers of RoCE and iWARP are different spaces
  uint32_t a = 0;
  uint32_t b = 0;
};

class History {
 public:
  static constexpr uint32_t kEntries = 16384;  // a power of two

  // `now`: the engine's clock; outlives the history.
  explicit History(const Time* now)
      : now_(*now),
        entries_(std::make_unique_for_overwrite<Entry[]>(kEntries)) {}

  [[gnu::cold, gnu::noinline]] void Add(HistoryEvent event, uint32_t qpn,
                                        uint32_t a, uint32_t b,
                                        bool iwarp = false);

  // All events so far; those before added() - kEntries are gone.
  uint64_t added() const { return added_; }

  // Calls visit(const Happening&) for at most `most` events, from that number
  // on or the oldest that is left. Returns the number to continue from; none:
  // that was all.
  template <typename F>
  std::optional<uint64_t> Visit(uint64_t number, size_t most, F&& visit) const {
    if (added_ > kEntries && number < added_ - kEntries)
      number = added_ - kEntries;
    for (; number < added_ && most != 0; ++number, --most) visit(At(number));
    if (number >= added_) return std::nullopt;
    return number;
  }

 private:
  // Without initializers: memory that was never used is not resident.
  struct Entry {
    int64_t at_ns;
    uint32_t qpn;
    uint32_t a;
    uint32_t b;
    HistoryEvent event;
    bool iwarp;
  };

  Happening At(uint64_t number) const;

  const Time& now_;
  uint64_t added_ = 0;
  const std::unique_ptr<Entry[]> entries_;
};

}  // namespace urnic
