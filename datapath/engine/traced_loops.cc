// The traced loops over packets. They are in a file of their own because GCC
// inlines a function that has one caller. With both loops in engine.cc, GCC
// inlined steering in neither, and each write took 40 instructions more.

#include "datapath/engine/receiver.h"
#include "datapath/engine/traced_sink.h"
#include "datapath/engine/transmitter.h"

namespace urnic {

void Receiver::ProcessTraced(uint32_t count, Time now) {
  sink_->OnBurstEdge(TracePoint::kBurstReceived, count);
  Process<TracedSink>(count, now);
  sink_->OnBurstEdge(TracePoint::kBurstProcessed, 0);
}

void Transmitter::TransmitTraced(Time now, bool acks_wait) {
  sink_->OnBurstEdge(TracePoint::kBurstBegins, tx_->room());
  TransmitBurst<TracedSink>(now, acks_wait);
  sink_->OnBurstEdge(TracePoint::kBurstSent, tx_->room());
}

}  // namespace urnic
