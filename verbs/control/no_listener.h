#pragma once

// Answers connection requests on QP1 while this process does not use rdma_cm.
// It rejects each request, so that the peer knows immediately that there is no
// listener, and does not repeat its request for a minute.

#include <cstdint>

#include "transport/cm/connection_manager.h"
#include "transport/net/mad_handler.h"

namespace urnic {
class Network;
}

namespace urnic::control {

// A connection manager without listeners. Belongs to the holder of the engine's
// token; outlives the engine.
class NoListener final : public net::MadHandler, private cm::Sink {
 public:
  // `node_guid`: 8 bytes, as on the wire.
  explicit NoListener(const uint8_t* node_guid);

  // REQUIRES: the engine has not started, or inside its ControlScope.
  void Serve(Network& network);

  RxVerdict OnMad(std::span<const uint8_t> mad, const net::PathQuery& from,
                  Time now) override;
  Time NextDeadline() const override { return cm_.NextDeadline(); }
  void OnTimer(Time now) override;
  bool IsQpnBusy(Qpn) const override { return false; }  // no connections

 private:
  void SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
               const net::PathQuery& to) override;
  void OnEvent(const cm::Event&) override {}

  cm::ConnectionManager cm_;
  Network* network_ = nullptr;
  Time now_;  // of the current call
};

}  // namespace urnic::control
