#pragma once

// What answers on QP1 while no program of this process uses rdma_cm: nobody
// listens, so who asks is told at once instead of asking again for a minute.

#include <cstdint>

#include "datapath/engine/engine.h"
#include "datapath/engine/gsi.h"
#include "transport/cm/connection_manager.h"

namespace urnic::control {

// A connection manager without listeners. Belongs to the holder of the engine's
// token; outlives the engine.
class NoListener final : public GsiHandler, private cm::Sink {
 public:
  // `node_guid`: 8 bytes, as on the wire.
  explicit NoListener(const uint8_t* node_guid);

  // REQUIRES: the engine has not begun, or inside a ControlScope of it.
  void Serve(Network& network);

  RxVerdict OnMad(std::span<const uint8_t> mad, const MadSource& from,
                  Time now) override;
  Time NextDeadline() const override { return cm_.NextDeadline(); }
  void OnTimer(Time now) override { cm_.OnTimer(now, *this); }
  bool IsQpnBusy(uint32_t) const override { return false; }  // none connects

 private:
  void SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
               const cm::MadPath& to) override;
  void OnEvent(const cm::Event&) override {}

  cm::ConnectionManager cm_;
  Network* network_ = nullptr;
  const net::Path* reply_ = nullptr;  // of the MAD that is being handled
};

}  // namespace urnic::control
