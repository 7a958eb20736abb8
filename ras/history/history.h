#pragma once

// The last rare events of an engine's connections, for people. The newest
// replaces the oldest.
//
// Thread: the holder of the engine's token.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ras/newest/newest.h"
#include "ras/trace/trace.h"
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

  // `now`: the engine's clock. `trace` is told of every event; null: there is
  // none. Both outlive the history.
  explicit History(const Time* now, Trace* trace = nullptr)
      : now_(*now), trace_(trace) {}

  [[gnu::cold, gnu::noinline]] void Add(HistoryEvent event, uint32_t qpn,
                                        uint32_t a, uint32_t b,
                                        bool iwarp = false,
                                        TracePlace place = TracePlace::Here());

  // As Newest: entries are Happenings.
  uint64_t added() const { return entries_.added(); }
  template <typename F>
  std::optional<uint64_t> Visit(uint64_t number, size_t most, F&& visit) const {
    return entries_.Visit(number, most,
                          [&](const Entry& entry) { visit(Of(entry)); });
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

  static Happening Of(const Entry& entry);

  const Time& now_;
  Trace* const trace_;
  Newest<Entry, kEntries> entries_;
};

}  // namespace urnic
