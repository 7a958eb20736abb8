#include "tests/sim/machine.h"

#include <utility>

#include "tests/sim/rc_end.h"
#include "tests/support/host_wire.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame.h"

namespace urnic::sim {

namespace {

constexpr Duration kResolvePatience = Duration::Seconds(1);
constexpr uint16_t kRxRing = 8192;
constexpr uint64_t kOneMarkIn = 32;
constexpr uint64_t kBusyOneIn = 20;

// Sets "congestion experienced", as a switch does.
void Mark(Frame& frame) {
  uint8_t* const ip = &frame[sizeof(wire::Ethernet)];
  if (ip[0] >> 4 == 6) {
    ip[1] |= wire::kEcnCongestionExperienced << 4;
    return;
  }
  ip[1] |= wire::kEcnCongestionExperienced;
  auto* header = reinterpret_cast<wire::Ipv4*>(ip);
  header->checksum = wire::Be<uint16_t>(0);
  header->checksum =
      wire::Be<uint16_t>(wire::ChecksumReference({ip, sizeof(*header)}));
}

}  // namespace

// Tells each end what its queue pair does.
class Machine::Judge final : public Observer {
 public:
  explicit Judge(const Machine& machine) : machine_(machine) {}

  void OnBurst(const EngineQp& qp, std::span<const RxPacket> packets) override {
    end_ = machine_.Find(qp.qpn());
    if (end_ != nullptr) end_->OnBurst(packets);
  }
  void OnVerdict(RxVerdict verdict) override {
    if (end_ != nullptr) end_->OnVerdict(verdict);
  }
  void OnPlaced(const Placement& placement) override {
    if (end_ != nullptr) end_->OnPlaced(placement);
  }
  void OnBurstDone() override {
    if (end_ != nullptr) std::exchange(end_, nullptr)->OnBurstDone();
  }
  void OnTransmit(const EngineQp& qp, std::span<const TxSlot> slots) override {
    RcEnd* end = machine_.Find(qp.qpn());
    if (end != nullptr) end->OnTransmit(slots);
  }

 private:
  const Machine& machine_;
  RcEnd* end_ = nullptr;  // whose burst is being judged
};

Machine::Machine(World& world, const Buffers& buffers,
                 const MachineConfig& config, uint64_t seed,
                 std::function<void(Frame)> send)
    : random_(seed), judge_(std::make_unique<Judge>(*this)) {
  const uint64_t seed_of_both = random_.Next();
  for (int i = 0; i < 2; ++i) {
    EngineHostConfig host;
    host.number = config.number;
    host.ipv6 = config.ipv6;
    host.program_polls = config.program_polls;
    host.busy_one_in = kBusyOneIn;
    host.clock_ahead = config.ahead[i];
    host.observer = judge_.get();
    host.after_turn = [this, i] { AfterTurn(i); };
    host.port.frames.mac = testing::MacOf(config.number);
    host.port.frames.mtu = kMtu;
    host.port.frames.rx_ring = kRxRing;
    host.port.frames.pool = buffers.pool();
    host.port.frames.lcore = buffers.lcore();
    host.port.tx_ring = config.tx_ring;
    host.port.frame_time = config.frame_time;
    rnics_[i] = std::make_unique<EngineHost>(
        world, host, seed_of_both, send, [](EngineHost&, const cm::Event&) {});
  }
}

Machine::~Machine() = default;

void Machine::Resolve(const wire::Gid& peer) {
  for (int i = 0; i < 2; ++i) {
    rnics_[i]->WithToken([&] {
      rnics_[i]->Ask(peer, kResolvePatience,
                     [this, i](net::PathStatus status, const net::Path& path) {
                       if (status == net::PathStatus::kFound) paths_[i] = path;
                     });
    });
  }
}

const net::Path& Machine::path(int which) const {
  Require(paths_[which].has_value(), "the peer was not found");
  return *paths_[which];
}

std::optional<uint32_t> Machine::QpnOf(const Frame& frame) {
  wire::FrameView view;
  if (wire::ParseFrame(frame.data(), frame.size(), view) !=
          RxVerdict::kAccept ||
      view.payload_bytes < sizeof(wire::Bth)) {
    return std::nullopt;
  }
  return reinterpret_cast<const wire::Bth*>(view.payload)->dest_qp().value;
}

void Machine::OnFrame(Frame frame) {
  const std::optional<uint32_t> qpn = QpnOf(frame);
  if (!qpn.has_value()) {
    for (const auto& rnic : rnics_) rnic->port().OnFrame(frame);
    return;
  }
  if (random_.OneIn(kOneMarkIn)) Mark(frame);
  const RcEnd* end = Find(*qpn);
  rnics_[end != nullptr ? end->at() : 0]->port().OnFrame(std::move(frame));
}

void Machine::PassOn(uint32_t qpn, int from) {
  for (Frame& frame : rnics_[from]->port().TakeBack(
           [&](const Frame& frame) { return QpnOf(frame) == qpn; })) {
    rnics_[1 - from]->port().OnFrame(std::move(frame));
  }
}

void Machine::AfterTurn(int which) {
  for (const auto& [qpn, end] : ends_) {
    if (end->at() == which) end->AfterTurn();
  }
}

}  // namespace urnic::sim
