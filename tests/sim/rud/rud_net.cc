#include "tests/sim/rud/rud_net.h"

#include <algorithm>
#include <utility>

namespace urnic::sim {
namespace {

constexpr size_t kHistory = 500;
constexpr size_t kKeptMost = 2000;

}  // namespace

wire::Gid RudAddressOf(uint32_t number) {
  return wire::Gid::FromIpv4(0x0a000000 + number);
}

// --- A NIC -------------------------------------------------------------------

RudNic::RudNic(RudNet* net, uint32_t number,
               const testing::RudEndConfig& config, uint32_t packet_bytes)
    : net_(*net), number_(number), packet_bytes_(packet_bytes), end_(config) {
  peers_.resize(1);
  net_.SetNic(number, this);
}

RudNic::~RudNic() { net_.SetNic(number_, nullptr); }

rud::upper::WindowAddress RudNic::Address() const {
  const testing::RudEndConfig& config = end_.config();
  return {config.address, config.window.number, config.window.key};
}

rud::upper::RingMemory RudNic::Rings() {
  return testing::RingMemoryOf(end_.rings());
}

uint32_t RudNic::AddPeer(const rud::upper::WindowAddress& address) {
  if (reaches && !reaches(address.gid)) return 0;
  peers_.emplace_back(address);
  return static_cast<uint32_t>(peers_.size() - 1);
}

void RudNic::RemovePeer(uint32_t peer) {
  Pump();
  peers_[peer].reset();
}

std::optional<rud::ContextId> RudNic::AcquireContext() {
  const auto context = end_.contexts().Acquire(end_.config().window.number);
  if (context.has_value()) ++contexts_;
  return context;
}

void RudNic::ReleaseContext(rud::ContextId context) {
  Require(end_.contexts().Find(context, end_.config().window.number) != nullptr,
          "a context is given back twice");
  --contexts_;
  end_.Release(context);
}

void RudNic::Doorbell() {
  if (pumps_) return;
  pumps_ = true;
  Soon(500, [this] {
    pumps_ = false;
    Pump();
  });
}

// Does this only if the NIC still exists then.
void RudNic::Soon(uint32_t ns, std::function<void()> what) {
  const auto after = static_cast<int64_t>(
      net_.random().Below(uint64_t{net_.lazy_us} * ns + 1));
  net_.world().After(Duration::Nanoseconds(after),
                     [what = std::move(what), life = std::weak_ptr(life_)] {
                       if (!life.expired()) what();
                     });
}

void RudNic::Pump() {
  while (end_.window().HasWork()) {
    for (auto& sent : end_.Transmit(wire::Gid())) {
      // Answers to removed peers are dropped.
      if (sent.peer >= peers_.size() || !peers_[sent.peer].has_value())
        continue;
      const rud::upper::WindowAddress& to = *peers_[sent.peer];
      const size_t body = sent.bytes.size() - wire::kRudCrcBytes;
      wire::Crc32c crc = wire::RudCrcOfAddresses(end_.config().address, to.gid);
      crc.Add(std::span(sent.bytes).first(body)).Store(&sent.bytes[body]);
      net_.Send(number_, to.gid.ipv4() & 0xffffff, std::move(sent.bytes));
    }
  }
  if (on_entries) on_entries();
}

uint32_t RudNic::HandleOf(uint32_t from) const {
  for (uint32_t i = 1; i < peers_.size(); ++i) {
    if (peers_[i].has_value() && peers_[i]->gid == RudAddressOf(from)) return i;
  }
  return 0;
}

void RudNic::OnArrival(uint32_t from, std::vector<uint8_t> packet) {
  if (net_.replays && history_.size() < kHistory)
    history_.push_back({from, packet});
  inbox_.push_back({from, std::move(packet)});
  if (inbox_.size() == rud::kBurstMax) return ReceiveBurst();
  if (inbox_.size() != 1) return;
  Soon(1000, [this] { ReceiveBurst(); });
}

void RudNic::ReceiveBurst() {
  const std::vector<Arrived> arrived = std::exchange(inbox_, {});
  // Consecutive packets of one sender are a burst.
  for (size_t i = 0; i < arrived.size();) {
    const uint32_t from = arrived[i].from;
    std::vector<std::vector<uint8_t>> burst;
    for (; i < arrived.size() && arrived[i].from == from; ++i)
      burst.push_back(arrived[i].packet);
    const uint32_t handle = HandleOf(from);
    if (handle == 0) continue;
    for (const RxVerdict verdict :
         end_.ReceiveBurst(burst, RudAddressOf(from), handle)) {
      ++net_.verdicts[static_cast<size_t>(verdict)];
    }
  }
  Doorbell();
}

void RudNic::Replay() {
  if (history_.empty() || net_.IsNicDead(number_)) return;
  const Arrived& old = history_[net_.random().Below(history_.size())];
  OnArrival(old.from, old.packet);
}

// --- The network -------------------------------------------------------------

void RudNet::SetNic(uint32_t number, RudNic* nic) { nics_[number] = nic; }

RudNic* RudNet::NicOf(uint32_t number) const {
  const auto found = nics_.find(number);
  return found == nics_.end() ? nullptr : found->second;
}

bool RudNet::IsNicDead(uint32_t number) const {
  const auto found = dead_nics_.find(number);
  return found != dead_nics_.end() && found->second;
}

void RudNet::SetNicDead(uint32_t number, bool dead) {
  dead_nics_[number] = dead;
  if (dead) return;
  for (Kept& kept : std::exchange(kept_, {}))
    Send(kept.from, kept.to, std::move(kept.packet));
}

void RudNet::SetPathDead(uint32_t a, uint32_t b, uint8_t path, bool dead) {
  dead_paths_[{a, b, path}] = dead_paths_[{b, a, path}] = dead;
}

void RudNet::Send(uint32_t from, uint32_t to, std::vector<uint8_t> packet) {
  const uint8_t path = packet[offsetof(wire::RudBase, path)];
  const Key key = {from, to, path};
  if (dead_paths_[key]) return;
  if (IsNicDead(from) || IsNicDead(to)) {
    if (keeps_packets && kept_.size() < kKeptMost)
      kept_.push_back({from, to, std::move(packet)});
    return;
  }
  std::unique_ptr<Link>& link = links_[key];
  if (link == nullptr) {
    link = std::make_unique<Link>(
        world_, random_.Next(), make_link_(from, to, path),
        [this, from, to](std::vector<uint8_t> arrived) {
          RudNic* const nic = NicOf(to);
          if (nic != nullptr && !IsNicDead(to))
            nic->OnArrival(from, std::move(arrived));
        });
    if (!faulty_) link->StopFaults();
  }
  link->Send(std::move(packet));
}

void RudNet::StopFaults() {
  faulty_ = false;
  dead_paths_.clear();
  for (auto& [key, link] : links_) link->StopFaults();
}

}  // namespace urnic::sim
