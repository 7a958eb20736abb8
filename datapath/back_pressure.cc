// What an engine does while its port takes nothing: the peer behind it has
// stopped fetching, perhaps for ever, which is no matter of those who talk to
// themselves.

#include "datapath/engine.h"

namespace urnic {

void Engine::TransmitToOurselves(Time now) {
  // Not all at once: each iteration comes here, and thousands may wait for the
  // port. Those that were looked at go to the end.
  for (uint32_t i = 0; i < kBurstMax && ready_head_ != nullptr; ++i) {
    EngineQp& qp = *ready_head_;
    ready_head_ = qp.ready_next;
    qp.ready = false;
    const bool can_go = qp.path.loopback && loop_count_ < std::size(loop_) &&
                        (spare_count_ != 0 || RefillFrames());
    if (!can_go || TransmitQp(qp, now, spare_count_) != 0) {
      if (qp.HasWork()) MakeReady(qp);
    }
  }
}

}  // namespace urnic
