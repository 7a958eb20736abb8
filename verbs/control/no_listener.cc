#include "verbs/control/no_listener.h"

#include <sys/random.h>

#include <cstring>

#include "datapath/engine/network.h"
#include "transport/wire/be.h"

namespace urnic::control {

namespace {

cm::Config MakeConfig(const uint8_t* node_guid) {
  wire::Be<uint64_t> guid;
  std::memcpy(&guid, node_guid, sizeof(guid));
  cm::Config config;
  config.ca_guid = guid.value();
  config.max_connections = 64;
  // The defaults stay if no random numbers are available.
  uint32_t draw[2] = {config.first_communication_id, config.transaction_prefix};
  if (getrandom(draw, sizeof(draw), GRND_NONBLOCK) == sizeof(draw)) {
    config.first_communication_id = draw[0];
    config.transaction_prefix = draw[1];
  }
  return config;
}

}  // namespace

NoListener::NoListener(const uint8_t* node_guid) : cm_(MakeConfig(node_guid)) {}

void NoListener::Serve(Network& network) {
  network_ = &network;
  network.gsi().Serve(wire::kMadClassCm, this);
}

RxVerdict NoListener::OnMad(std::span<const uint8_t> mad,
                            const net::PathQuery& from, Time now) {
  now_ = now;
  return cm_.OnMad(mad, from, now, *this);
}

void NoListener::OnTimer(Time now) {
  now_ = now;
  cm_.OnTimer(now, *this);
}

void NoListener::SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
                         const net::PathQuery& to) {
  network_->gsi().Send(to, mad, now_);
}

}  // namespace urnic::control
