// The loops over packets, traced. They are in a file of their own because the
// compiler inlines what is called from one place: the loops that are not traced
// (engine.cc) would cost 40 instructions more for each write.

#include "datapath/engine/receiver.h"
#include "datapath/engine/traced_sink.h"
#include "datapath/engine/transmitter.h"

namespace urnic {

void Receiver::ProcessTraced(uint32_t count, Time now) {
  sink_->OnFrames(TracePoint::kBurstReceived, count);
  Process<TracedSink>(count, now);
  sink_->OnFrames(TracePoint::kBurstProcessed, count);
}

void Transmitter::TransmitTraced(Time now, bool may_defer_acks) {
  sink_->OnFrames(TracePoint::kBurstBegins, tx_->burst());
  TransmitBurst<TracedSink>(now, may_defer_acks);
  sink_->OnFrames(TracePoint::kBurstSent, tx_->room());
}

}  // namespace urnic
