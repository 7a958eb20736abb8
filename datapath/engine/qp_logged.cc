// The calls of an RC core whose inputs are logged (rc_input_tap.h).

#include "datapath/engine/qp_of.h"

namespace urnic {

template <>
template <typename Sink>
FlowResult RcQp::LoggedBurst(std::span<const RxPacket> packets, Time now,
                             Sink& sink) {
  Writer<Sink> writer{*this, sink, packets};
  const bool due = packets.data() == sink.due().data();
  return tap().OnBurst(packets, due, now, sink, writer);
}

template <>
template <typename Sink>
FlowResult RcQp::LoggedSettle(Sink& sink) {
  Writer<Sink> writer{*this, sink, {}};
  return tap().Settle(writer);
}

template <>
FlowResult RcQp::LoggedTimer(Time now, FlowSink& sink) {
  Writer<FlowSink> writer{*this, sink, {}};
  return tap().OnTimer(now, writer);
}

template FlowResult RcQp::LoggedBurst(std::span<const RxPacket>, Time,
                                      FlowSink&);
template FlowResult RcQp::LoggedBurst(std::span<const RxPacket>, Time,
                                      TracedSink&);
template FlowResult RcQp::LoggedSettle(FlowSink&);
template FlowResult RcQp::LoggedSettle(TracedSink&);

}  // namespace urnic
