// The calls of an iWARP connection whose inputs are logged (iwarp_input_tap.h).

#include "datapath/engine/iwarp_connection.h"
#include "datapath/engine/traced_sink.h"

namespace urnic {

template <typename Sink>
RxVerdict IwarpConnection::OnLoggedSegment(const wire::TcpSegment& segment,
                                           const ReceivedFrame& frame, Time now,
                                           Sink& sink) {
  BurstSink<Sink> burst{*this, sink};
  return tap().OnSegment(segment, frame, now, burst);
}

template <typename Sink>
void IwarpConnection::WriteLoggedReceives(Sink& sink) {
  sink.Execute(tap());
  IwarpQp::Writer<Sink> writer{qp_, sink};
  tap().Deliver(sink.receives(), writer);
  sink.ForgetReceives();
}

template <typename Sink>
FlowResult IwarpConnection::SettleLogged(
    std::span<const RecvCompletion> receives, Sink& sink) {
  IwarpQp::Writer<Sink> writer{qp_, sink};
  return tap().Settle(receives, writer);
}

#define URNIC_LOGGED_CALLS(Sink)                                   \
  template RxVerdict IwarpConnection::OnLoggedSegment(             \
      const wire::TcpSegment&, const ReceivedFrame&, Time, Sink&); \
  template void IwarpConnection::WriteLoggedReceives(Sink&);       \
  template FlowResult IwarpConnection::SettleLogged(               \
      std::span<const RecvCompletion>, Sink&)
URNIC_LOGGED_CALLS(FlowSink);
URNIC_LOGGED_CALLS(TracedSink);
#undef URNIC_LOGGED_CALLS

}  // namespace urnic
