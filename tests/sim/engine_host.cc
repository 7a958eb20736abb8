#include "tests/sim/engine_host.h"

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "tests/support/host_wire.h"
#include "transport/wire/mad.h"

namespace urnic::sim {

namespace {

constexpr uint16_t kUdpSourcePort = 50000;

cm::Config CmConfigOf(const EngineHostConfig& config, Random& random) {
  cm::Config cm;
  cm.ca_guid = 0xca00 + config.number;
  cm.first_communication_id = static_cast<uint32_t>(random.Next());
  cm.number_key = {{random.Next(), random.Next()}};
  cm.transaction_prefix = static_cast<uint32_t>(random.Next());
  return cm;
}

NetworkConfig NetworkConfigOf(const EngineHostConfig& config,
                              const net::LocalAddress& address,
                              Environment& environment) {
  NetworkConfig network;
  network.mac = config.port.frames.mac;
  network.mtu = config.port.frames.mtu;
  network.addresses = {address};
  network.iwarp = config.iwarp;
  network.connections = config.connections;
  network.limits.max_qps = config.max_qps;
  network.limits.max_mrs = 1024;
  network.number_key = {{environment.Draw(), environment.Draw()}};
  network.seed = environment.Draw();
  return network;
}

}  // namespace

struct EngineHost::Question final : net::PathWaiter {
  Question(EngineHost& host, EngineHost::OnPath then)
      : host(host), then(std::move(then)) {}
  void OnPath(net::PathStatus status, const net::Path& path) override {
    host.Later([this, status, path] {
      const std::unique_ptr<Question> self = std::move(host.questions_[this]);
      host.questions_.erase(this);
      then(status, path);
    });
  }
  EngineHost& host;
  const EngineHost::OnPath then;
};

EngineHost::EngineHost(World& world, const EngineHostConfig& config,
                       uint64_t seed, std::function<void(Frame)> send,
                       OnCmEvent on_event)
    : world_(world),
      random_(seed),
      gid_(testing::GidOf(config.number, config.ipv6)),
      address_{gid_, static_cast<uint8_t>(config.ipv6 ? 64 : 96 + 24)},
      on_event_(std::move(on_event)),
      cm_(CmConfigOf(config, random_)),
      port_(world, config.port, random_.Next(), std::move(send),
            [this] { runner_->Wake(); }),
      environment_(world.clock(config.clock_ahead), random_.Next(),
                   Witness(config.observer)),
      engine_(&port_, environment_),
      network_(NetworkConfigOf(config, address_, environment_),
               engine_.frames(), engine_.custody(),
               engine_.mutable_counters()) {
  engine_.Serve(&network_);
  auto runner = std::make_unique<VirtualRunner>(
      world, engine_, port_, random_.Next(), config.program_polls,
      config.busy_one_in, config.clock_ahead, config.after_turn);
  runner_ = runner.get();
  engine_.RunBy(std::move(runner));
  WithToken([&] {
    network_.gsi().Serve(wire::kMadClassCm, this);
    cm::Handle listener;
    Require(cm_.Listen(kServiceId, 0, 0, listener) == 0, "no listener");
  });
}

EngineHost::~EngineHost() {
  engine_.RunBy(nullptr);
  engine_.EndConnections();
}

void EngineHost::SetAddress(bool present) {
  std::vector<net::LocalAddress> addresses;
  if (present) addresses.push_back(address_);
  network_.SetAddresses(std::move(addresses), engine_.Now());
}

void EngineHost::Later(std::function<void()> what) {
  world_.After(
      Duration::Nanoseconds(200 + static_cast<int64_t>(random_.Below(3000))),
      [this, what = std::move(what)] { WithToken(what); });
}

void EngineHost::Ask(const wire::Gid& remote, Duration timeout, OnPath then,
                     uint8_t traffic_class) {
  auto question = std::make_unique<Question>(*this, std::move(then));
  Question* const asked = question.get();
  questions_[asked] = std::move(question);
  const net::PathQuery query{.local = gid_,
                             .remote = remote,
                             .traffic_class = traffic_class,
                             .udp_src_port = kUdpSourcePort};
  Require(network_.Ask(query, asked, engine_.Now(), timeout) != 0,
          "nothing was asked");
}

void EngineHost::SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
                         const net::PathQuery& to) {
  network_.gsi().Send(to, mad, engine_.Now());
}

}  // namespace urnic::sim
