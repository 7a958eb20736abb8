#include "ras/history/history.h"

namespace urnic {

const HistoryWords& WordsOf(HistoryEvent event) {
  static constexpr HistoryWords kWords[] = {
#define URNIC_HISTORY_EVENT(enumerator, name, a, b, text) {name, a, b, text},
#include "ras/history/history_events.def"
#undef URNIC_HISTORY_EVENT
  };
  return kWords[static_cast<size_t>(event)];
}

void History::Add(HistoryEvent event, uint32_t qpn, uint32_t a, uint32_t b,
                  bool iwarp, TracePlace place) {
  if (trace_ != nullptr) {
    trace_->Add(TracePoint::kRare, {.qpn = qpn, .iwarp = iwarp},
                {static_cast<uint64_t>(event), a, b}, place);
  }
  entries_.Add({.at_ns = now_.ns(),
                .qpn = qpn,
                .a = a,
                .b = b,
                .event = event,
                .iwarp = iwarp});
}

Happening History::Of(const Entry& entry) {
  return {.at = Time::FromNs(entry.at_ns),
          .qpn = entry.qpn,
          .event = entry.event,
          .iwarp = entry.iwarp,
          .a = entry.a,
          .b = entry.b};
}

}  // namespace urnic
