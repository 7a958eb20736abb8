#pragma once

// A host in virtual time: the real engine with its host core and QP1, the real
// connection manager at QP1, and a port (sim_port.h).

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "tests/sim/sim_port.h"
#include "tests/sim/virtual_runner.h"
#include "transport/cm/connection_manager.h"
#include "transport/net/mad_handler.h"

namespace urnic::sim {

struct EngineHostConfig {
  uint8_t number = 1;
  bool ipv6 = false;
  bool iwarp = false;
  ConnectionLimits connections;  // of iWARP
  uint32_t max_qps = 1024;
  bool program_polls = false;  // no other thread runs the engine
  uint64_t busy_one_in = 200;  // one turn in so many is late
  Duration clock_ahead;        // of the world's
  Observer* observer = nullptr;
  std::function<void()> after_turn = nullptr;
  SimPortConfig port;
};

class EngineHost final : private net::MadHandler, private cm::Sink {
 public:
  using OnPath = std::function<void(net::PathStatus, const net::Path&)>;
  using OnCmEvent = std::function<void(EngineHost&, const cm::Event&)>;

  static constexpr uint64_t kServiceId = 0x1061c06;
  static constexpr uint32_t kPd = 7;

  // `send` is called for each frame that leaves. `on_event` is called within
  // calls of the manager, and must not call it (Later()).
  EngineHost(World& world, const EngineHostConfig& config, uint64_t seed,
             std::function<void(Frame)> send, OnCmEvent on_event);
  ~EngineHost();

  const wire::Gid& gid() const { return gid_; }
  // Takes the host's address away, or gives it back. Under the token.
  void SetAddress(bool present);
  Engine& engine() { return engine_; }
  Network& network() { return network_; }
  SimPort& port() { return port_; }
  cm::ConnectionManager& cm() { return cm_; }
  uint64_t count(RxVerdict verdict) const {
    return engine_.counters().verdicts[static_cast<size_t>(verdict)];
  }

  // Runs `what` under the token, a moment from now.
  void Later(std::function<void()> what);
  // The same, immediately. Not from within the engine.
  template <typename F>
  auto WithToken(F&& what) {
    Engine::ControlScope scope(engine_);
    return what();
  }

  // Call it under the token. `then` is called later, also under the token.
  void Ask(const wire::Gid& remote, Duration timeout, OnPath then,
           uint8_t traffic_class = 0);

  // The sink for the manager's calls, under the token.
  cm::Sink& sink() { return *this; }

 private:
  struct Question;

  RxVerdict OnMad(std::span<const uint8_t> mad, const net::PathQuery& from,
                  Time now) override {
    return cm_.OnMad(mad, from, now, *this);
  }
  Time NextDeadline() const override { return cm_.NextDeadline(); }
  void OnTimer(Time now) override { cm_.OnTimer(now, *this); }
  bool IsQpnBusy(Qpn qpn) const override { return cm_.IsQpnBusy(qpn); }
  void SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
               const net::PathQuery& to) override;
  void OnEvent(const cm::Event& event) override { on_event_(*this, event); }

  World& world_;
  Random random_;
  const wire::Gid gid_;
  const net::LocalAddress address_;
  const OnCmEvent on_event_;
  cm::ConnectionManager cm_;
  SimPort port_;
  Environment environment_;
  Engine engine_;
  Network network_;
  VirtualRunner* runner_ = nullptr;  // of the engine
  std::map<const Question*, std::unique_ptr<Question>> questions_;
};

}  // namespace urnic::sim
