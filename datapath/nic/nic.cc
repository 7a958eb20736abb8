#include "datapath/nic/nic.h"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/guest/give_way.h"
#include "datapath/port/fault_port.h"

namespace urnic {

namespace {

// Each incarnation orders its numbers differently, so that late packets for a
// dead process do not find a live object.
NetworkConfig NetworkConfigOf(const NicConfig& config, const Port& port) {
  return {.mac = port.mac(),
          .vlan = config.vlan,
          .mtu = port.mtu(),
          .ordinal = port.ordinal(),
          .lessor = config.lessor,
          .addresses = config.addresses,
          .pkeys = config.pkeys,
          .limits = config.limits,
          .number_key = config.number_key.value_or(
              NumberKey{{Environment::Draw(), Environment::Draw()}}),
          .seed = Environment::Draw(),
          .iwarp = config.iwarp,
          .iwarp_options = config.iwarp_options,
          .connections = config.connections,
          .on_path_mtu = config.on_path_mtu,
          .on_unfinished_checksum = config.on_unfinished_checksum};
}

// Waits outside of the token for an answer that arrives inside.
class Waiting final : public net::PathWaiter {
 public:
  void OnPath(net::PathStatus status, const net::Path& path) override {
    status_ = status;
    path_ = path;
    done_.store(true, std::memory_order_release);
  }
  bool done() const { return done_.load(std::memory_order_acquire); }
  absl::StatusOr<net::Path> Take() {
    if (status_ != net::PathStatus::kFound) return ToStatus(status_);
    return std::move(path_);
  }

 private:
  std::atomic<bool> done_ = false;
  net::PathStatus status_ = net::PathStatus::kNoAnswer;
  net::Path path_;
};

}  // namespace

Nic::Nic(std::unique_ptr<Port> port, const NicConfig& config)
    : port_(std::move(port)),
      engine_(std::make_unique<Engine>(port_.get())),
      network_(std::make_unique<Network>(NetworkConfigOf(config, *port_),
                                         engine_->frames(), engine_->custody(),
                                         engine_->mutable_counters())) {
  engine_->Serve(network_.get());
}

Nic::~Nic() {
  engine_->RunBy(nullptr);
  engine_->EndConnections();
}

void Nic::AwaitPort() {
  // A device comes up in well under a second, unless there is an error.
  constexpr Duration kDevice = Duration::Seconds(3);
  // Linux reports a carrier up to a second late (linkwatch).
  constexpr Duration kCarrier = Duration::Milliseconds(1200);
  // The handshake with an existing peer takes milliseconds.
  constexpr Duration kPeer = Duration::Milliseconds(200);
  constexpr useconds_t kStepUs = 500;
  const Time begin = Environment::Now();
  for (;; usleep(kStepUs)) {
    const PortInfo info = port_->info();
    const Duration waited = Environment::Now() - begin;
    if (info.state == PortState::kUp || !info.remedy.empty()) return;
    const Duration limit = info.text.empty()                    ? kDevice
                           : info.state == PortState::kLinkDown ? kCarrier
                                                                : kPeer;
    if (waited >= limit) return;
  }
}

absl::StatusOr<net::Path> Nic::ResolvePath(const net::PathQuery& query,
                                           Duration timeout) {
  Waiting waiting;
  {
    Engine::ControlScope scope(*engine_);
    if (timeout <= Duration()) {
      net::Path path;
      const net::PathStatus status =
          network_->FindPath(query, Environment::Now(), path);
      if (status != net::PathStatus::kFound) return ToStatus(status);
      return path;
    }
    if (network_->Ask(query, &waiting, Environment::Now(), timeout) == 0) {
      return ToStatus(net::PathStatus::kNoRoom);
    }
  }
  while (!waiting.done()) {
    // While the port is not up nothing can arrive, so look less often.
    usleep(port_->info().state == PortState::kUp ? 50 : 2000);
    // The host's timer ends the wait at the latest.
    engine_->Progress();
  }
  return waiting.Take();
}

void Nic::AwaitHeldFrames() {
  const Time end = Environment::Now() + FaultPort::kLastFrames;
  while (port_->frames_held() != 0 && Environment::Now() < end) {
    engine_->Progress();
    GiveWay();
  }
}

}  // namespace urnic
