// What an engine does while its port takes nothing: the peer behind it has
// stopped fetching, perhaps for ever, which is no matter of those who talk to
// themselves.

#include "datapath/engine/engine.h"

namespace urnic {

void Engine::TransmitToOurselves(Time now) {
  // Not all at once: each iteration comes here, and thousands may wait for the
  // port. Those that were looked at go to the end.
  for (uint32_t i = 0; i < kBurstMax && !ready_.empty(); ++i) {
    EngineQp& qp = EngineQp::Of(ready_.Pop());
    const bool can_go =
        qp.path.loopback && tx_.loop_room() != 0 && tx_.HasEmptyFrame();
    if (can_go) {
      Transmit(qp, now, tx_.empty_frames());
    } else {
      ready_.Push(qp);
    }
  }
}

}  // namespace urnic
