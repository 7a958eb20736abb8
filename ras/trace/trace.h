#pragma once

// What the parts of an RNIC do, in the order of time, for people (document E,
// 5.3.1). Each component has a level from 0 to 9, which may change at any time:
// what has this level or a lower one is kept in a ring.
//
//   1  errors                       7  entry to and exit from what runs for
//   2  rare events: the default        each burst of packets
//   4  entry to and exit from       8  each packet and completion
//      functions                    9  the first bytes of each frame
//   5  what they do                 3, 6  reserved
//
// From 7 on the levels are hot. A loop over packets does not look at levels: it
// exists twice, and asks once for each burst which of the two is to run
// (TraceLevels::hot()).
//
// Threads: any may read and set levels. The ring belongs to the holder of the
// engine's token; while it is held (Hold()), any thread may read it.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ras/newest/newest.h"
#include "transport/base/time.h"

namespace urnic {

enum class TraceComponent : uint8_t {
#define URNIC_TRACE_COMPONENT(enumerator, name, text) enumerator,
#include "ras/trace/trace_points.def"
};

enum class TracePoint : uint8_t {
#define URNIC_TRACE_POINT(enumerator, component, level, name, a, b, c, d, \
                          text)                                           \
  enumerator,
#include "ras/trace/trace_points.def"
};

namespace trace_level {
inline constexpr uint8_t kOff = 0;
inline constexpr uint8_t kError = 1;
inline constexpr uint8_t kRare = 2;
inline constexpr uint8_t kFunctions = 4;
inline constexpr uint8_t kInternals = 5;
inline constexpr uint8_t kHotFunctions = 7;
inline constexpr uint8_t kHotInternals = 8;
inline constexpr uint8_t kData = 9;
inline constexpr uint8_t kDefault = kRare;
}  // namespace trace_level

struct TraceComponentWords {
  std::string_view name;
  std::string_view text;
};
inline constexpr TraceComponentWords kTraceComponents[] = {
#define URNIC_TRACE_COMPONENT(enumerator, name, text) {name, text},
#include "ras/trace/trace_points.def"
};

struct TracePointWords {
  TraceComponent component;
  uint8_t level;
  std::string_view name;
  std::string_view words[4];  // empty: unused
  std::string_view text;
};
inline constexpr TracePointWords kTracePoints[] = {
#define URNIC_TRACE_POINT(enumerator, component, level, name, a, b, c, d, \
                          text)                                           \
  {TraceComponent::component, trace_level::level, name, {a, b, c, d}, text},
#include "ras/trace/trace_points.def"
};
constexpr const TracePointWords& WordsOf(TracePoint point) {
  return kTracePoints[static_cast<size_t>(point)];
}

class TraceLevels {
 public:
  static constexpr size_t kComponents = std::size(kTraceComponents);

  TraceLevels() {
    for (auto& level : levels_) level = trace_level::kDefault;
  }

  uint8_t Of(TraceComponent component) const {
    return levels_[static_cast<size_t>(component)].load(
        std::memory_order_relaxed);
  }
  // REQUIRES: level <= trace_level::kData
  void Set(TraceComponent component, uint8_t level);

  bool Wants(TracePoint point) const {
    const TracePointWords& words = WordsOf(point);
    return Of(words.component) >= words.level;
  }
  // Whether any component has a hot level.
  bool hot() const { return hot_.load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<uint8_t>, kComponents> levels_;
  std::atomic<bool> hot_{false};
};

// Sets levels from text: "receive=8,verbs=4", or "all=5". False: nothing was
// set; `mistake` says why.
bool SetTraceLevels(std::string_view text, TraceLevels& levels,
                    std::string& mistake);

// Whose event it is. Numbers of RoCE and iWARP are different spaces.
struct TraceSubject {
  uint32_t qpn = 0;  // 0: of no queue pair
  bool iwarp = false;
};

// Where in the source it happened. (Not std::source_location: the compiler of
// our fuzzers lacks it.) The texts live as long as the program.
struct TracePlace {
  static constexpr TracePlace Here(const char* file = __builtin_FILE(),
                                   const char* function = __builtin_FUNCTION(),
                                   uint16_t line = __builtin_LINE()) {
    return {file, function, line};
  }

  const char* file = "";
  const char* function = "";
  uint16_t line = 0;
};

struct TraceEvent {
  Time at;
  TracePoint point = {};
  TraceSubject subject;
  uint16_t cpu = 0;
  std::array<uint64_t, 4> words = {};
  TracePlace place;
};

class Trace {
 public:
  static constexpr uint32_t kEntries = 65536;  // a power of two; 4 MiB

  // `clock`: the engine's, read for each event.
  explicit Trace(std::function<Time()> clock) : clock_(std::move(clock)) {}

  TraceLevels& levels() { return levels_; }
  const TraceLevels& levels() const { return levels_; }

  // While someone reads, what happens is not kept, but counted: the ring would
  // be overwritten faster than it can be read. Token holder.
  void Hold(bool hold) { held_ = hold; }
  uint64_t missed() const { return missed_; }

  // Keeps the event if its component has the level.
  void Add(TracePoint point, TraceSubject subject,
           std::array<uint64_t, 4> words = {},
           TracePlace place = TracePlace::Here()) {
    if (levels_.Wants(point)) Keep(point, subject, words, place);
  }

  // As Newest: entries are TraceEvents.
  uint64_t added() const { return entries_.added(); }
  uint64_t oldest() const { return entries_.oldest(); }
  template <typename F>
  std::optional<uint64_t> Visit(uint64_t number, size_t most, F&& visit) const {
    return entries_.Visit(number, most,
                          [&](const Entry& entry) { visit(Of(entry)); });
  }

 private:
  // Without initializers: memory that was never used is not resident.
  struct alignas(64) Entry {
    int64_t at_ns;
    const char* file;
    const char* function;
    uint64_t words[4];
    uint32_t qpn : 24;
    uint32_t point : 7;
    uint32_t iwarp : 1;
    uint16_t line;
    uint16_t cpu;
  };
  static_assert(sizeof(Entry) == 64 && std::size(kTracePoints) <= 128);

  void Keep(TracePoint point, TraceSubject subject,
            const std::array<uint64_t, 4>& words, const TracePlace& place);
  static TraceEvent Of(const Entry& entry);

  TraceLevels levels_;
  bool held_ = false;
  uint64_t missed_ = 0;
  const std::function<Time()> clock_;
  Newest<Entry, kEntries> entries_;
};

}  // namespace urnic
