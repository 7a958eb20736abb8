#include "tests/sim/rud/upper_run.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "tests/support/counts.h"
#include "transport/mem/mr_table.h"

namespace urnic::sim {
namespace {

using rud::upper::Event;
using rud::upper::EventType;
using rud::upper::Status;

constexpr uint32_t kJob = 3;
constexpr uint32_t kRights =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;
constexpr uint8_t kSentinel = 0xd5;

}  // namespace

RudUpperRun::RudUpperRun(uint64_t seed) : random_(seed) {
  node_count_ = 2 + static_cast<uint32_t>(random_.Below(2));
  nic_count_ = 1 + static_cast<uint32_t>(random_.Below(kNics));
  config_.paths = 1 + static_cast<uint32_t>(random_.Below(4));
  config_.lanes = 4 << random_.Below(4);
  config_.operations = random_.OneIn(4) ? 4 : 256;
  config_.open_messages = random_.OneIn(4) ? 2 : 16;
  config_.reassembly_bytes = random_.OneIn(4) ? 32768 : 1 << 20;
  packet_bytes_ = 64 << random_.Below(5);
  fifo_entries_ = random_.OneIn(4) ? 16 : 256;
  slow_programs_ = random_.OneIn(4);
  small_writes_ = random_.OneIn(4);
  left_ = 20 + static_cast<uint32_t>(random_.Below(100));
  net_ = std::make_unique<RudNet>(
      &world_, random_.Next(),
      [this](uint32_t, uint32_t, uint8_t) { return MakeLink(); });
  net_->lazy_us = 1 + static_cast<uint32_t>(random_.Below(10));
  net_->replays = true;
  net_->keeps_packets = !random_.OneIn(4);
  for (uint32_t i = 0; i < node_count_; ++i) {
    nodes_[i].index = i;
    nodes_[i].local.assign(size_t{kAllSlots} * kRegionBytes, kSentinel);
    nodes_[i].shared.assign(size_t{kMaxNodes} * kAllSlots * kRegionBytes,
                            kSentinel);
    Boot(nodes_[i]);
  }
  for (uint32_t i = 0; i < node_count_; ++i) {
    for (uint32_t j = 0; j < node_count_; ++j) {
      if (i == j) continue;
      // Some learn of the others later.
      world_.After(Duration::Microseconds(random_.Below(3000)),
                   [this, i, j] { Meet(nodes_[i], nodes_[j]); });
    }
  }
}

LinkConfig RudUpperRun::MakeLink() {
  LinkConfig link;
  link.delay = Duration::Microseconds(5 + random_.Below(200));
  if (random_.OneIn(8)) return link;  // perfect
  link.loss_ppm = static_cast<uint32_t>(random_.Below(100000));
  link.duplicate_ppm = static_cast<uint32_t>(random_.Below(100000));
  link.reorder_ppm = static_cast<uint32_t>(random_.Below(200000));
  link.corrupt_ppm = static_cast<uint32_t>(random_.Below(20000));
  return link;
}

// --- Endpoints ---------------------------------------------------------------

// All NICs of a process have the same registrations: their tables have the same
// seed.
void RudUpperRun::Boot(Node& node) {
  ++node.life;
  testing::RudEndConfig config;
  config.contexts = 600;
  config.tces = 512;
  config.receive_entries = fifo_entries_;
  config.seed = random_.Next();
  std::vector<rud::upper::Adapter*> adapters;
  for (uint32_t i = 0; i < nic_count_; ++i) {
    const uint32_t number = node.index * kNics + i + 1;
    config.window = {.number = number, .job = kJob, .key = 0x1234};
    config.address = RudAddressOf(number);
    auto nic =
        std::make_unique<RudNic>(net_.get(), number, config, packet_bytes_);
    nic->on_entries = [this, &node] {
      Wake(node,
           Duration::Microseconds(random_.Below(slow_programs_ ? 200 : 3)));
    };
    nic->end().on_place = [this, &node](const Placement& placement,
                                        const rud::RxPacket&) {
      OnPlaced(node, placement);
    };
    const auto add = [&](std::vector<uint8_t>& bytes, rud::Pvo& pvo) {
      const auto found = nic->end().tces().Register(
          kJob, reinterpret_cast<uint64_t>(bytes.data()), bytes.size(), kRights,
          rud::PageSize::k4K);
      Require(found.has_value(), "a registration found no room");
      Require(i == 0 || *found == pvo, "NICs with different PVOs");
      pvo = *found;
    };
    add(node.local, node.local_pvo);
    add(node.shared, node.shared_pvo);
    adapters.push_back(nic.get());
    node.nics.push_back(std::move(nic));
  }
  node.endpoint = std::make_unique<rud::upper::Endpoint>(config_, adapters,
                                                         random_.Next() | 1);
}

void RudUpperRun::Meet(Node& node, Node& other) {
  uint32_t& number = node.peers[other.index];
  if (number != 0) {
    if (node.endpoint->peer(number) != nullptr &&
        node.endpoint->peer(number)->address.incarnation ==
            rud::upper::EndpointAddress::Decode(other.endpoint->Address())
                ->incarnation) {
      return;
    }
    node.endpoint->RemovePeer(world_.now(), number);
  }
  number = node.endpoint->AddPeer(world_.now(), other.endpoint->Address());
  Require(number != 0, "a peer was not added");
  const uint32_t first = node.life == 1 ? 0 : kSlots;
  if (node.peers[(node.index + 1) % node_count_] == 0) {
    // The others are not there yet.
  }
  for (uint32_t i = first; i < first + kSlots; ++i) {
    if (!node.slots[i].is_active && !node.slots[i].is_abandoned) Begin(node, i);
  }
  Wake(node, Duration());
}

std::vector<uint8_t>& RudUpperRun::MemoryOf(uint32_t node, const Slot& slot) {
  return slot.kind == Kind::kWrite ? nodes_[slot.target].shared
                                   : nodes_[node].local;
}

size_t RudUpperRun::PlaceOf(uint32_t node, uint32_t slot,
                            const Slot& of) const {
  const size_t first = of.kind == Kind::kWrite ? node * kAllSlots : 0;
  return (first + slot) * kRegionBytes;
}

// --- Programs ----------------------------------------------------------------

void RudUpperRun::Begin(Node& node, uint32_t index) {
  if (left_ == 0) return;
  const auto target = static_cast<uint32_t>(
      (node.index + 1 + random_.Below(node_count_ - 1)) % node_count_);
  Slot& slot = node.slots[index];
  if (node.peers[target] == 0) return;  // begins when they meet
  --left_;
  slot.is_active = true;
  slot.kind = small_writes_ && !random_.OneIn(8)
                  ? Kind::kWrite
                  : static_cast<Kind>(random_.Below(3));
  slot.target = target;
  slot.life = nodes_[target].life;
  const uint32_t most =
      std::min(kRegionBytes, packet_bytes_ * rud::upper::kUnitPackets * 4);
  const bool is_small = small_writes_ ? !random_.OneIn(8) : random_.OneIn(3);
  const auto bytes = static_cast<uint32_t>(is_small ? random_.Below(33)
                                                    : random_.Below(most + 1));
  slot.data.resize(bytes);
  for (uint8_t& byte : slot.data) byte = random_.Byte();
  if (slot.kind == Kind::kSend) {
    slot.message = next_message_++;
    slot.data.resize(std::max<size_t>(bytes, sizeof(slot.message)));
    std::memcpy(slot.data.data(), &slot.message, sizeof(slot.message));
    messages_[slot.message] = slot.data;
  }
  // Fills the memory that is sent, then the memory that will be overwritten.
  Slot mirror = slot;
  std::vector<uint8_t>& source =
      slot.kind == Kind::kRead ? nodes_[target].shared : node.local;
  const size_t from = slot.kind == Kind::kRead
                          ? (node.index * kAllSlots + index) * kRegionBytes
                          : index * kRegionBytes;
  std::copy(slot.data.begin(), slot.data.end(),
            source.begin() + static_cast<int64_t>(from));
  if (slot.kind != Kind::kSend) {
    std::fill_n(MemoryOf(node.index, slot).begin() +
                    static_cast<int64_t>(PlaceOf(node.index, index, slot)),
                kRegionBytes, kSentinel);
  }
  if (!Give(node, index)) {
    slot.is_active = false;
    messages_.erase(slot.kind == Kind::kSend ? slot.message : 0);
    ++left_;
    world_.After(Duration::Microseconds(50), [this, &node, index] {
      if (!node.slots[index].is_active && !node.slots[index].is_abandoned)
        Begin(node, index);
    });
  }
}

bool RudUpperRun::Give(Node& node, uint32_t index) {
  const Slot& slot = node.slots[index];
  const Node& target = nodes_[slot.target];
  const uint32_t peer = node.peers[slot.target];
  const uint64_t local = node.local_pvo.value + index * kRegionBytes;
  const uint64_t remote =
      target.shared_pvo.value +
      (node.index * kAllSlots + index) * uint64_t{kRegionBytes};
  const uint64_t bytes = slot.data.size();
  const bool is_inline =
      bytes <= URNIC_RUD_INLINE && (small_writes_ || random_.OneIn(2));
  rud::upper::Endpoint& endpoint = *node.endpoint;
  Status status = Status::kOk;
  switch (slot.kind) {
    case Kind::kWrite:
      status = is_inline ? endpoint.WriteInline(world_.now(), peer, slot.data,
                                                remote, index)
                         : endpoint.Write(world_.now(), peer, local, remote,
                                          bytes, index);
      break;
    case Kind::kRead:
      status = endpoint.Read(world_.now(), peer, local, remote, bytes, index);
      break;
    case Kind::kSend:
      status = is_inline
                   ? endpoint.SendInline(world_.now(), peer, slot.data, index)
                   : endpoint.Send(world_.now(), peer, local, bytes, index);
      break;
  }
  Require(status == Status::kOk || status == Status::kTryAgain,
          "an operation is not taken");
  // Otherwise the next operations leave with it.
  if (!small_writes_ && random_.OneIn(2)) endpoint.Flush();
  Wake(node, Duration());
  return status == Status::kOk;
}

void RudUpperRun::Wake(Node& node, Duration after) {
  const Time when = world_.now() + after;
  if (when >= node.wake) return;
  node.wake = when;
  world_.At(when, [this, &node, when] {
    if (node.wake == when) Poll(node);
  });
}

void RudUpperRun::Poll(Node& node) {
  node.wake = Time::Infinite();
  std::vector<Event> events(1 + random_.Below(16));
  const uint32_t life = node.life;
  uint32_t count = 0;
  do {
    count = node.endpoint->Poll(world_.now(), events);
    for (uint32_t i = 0; i < count; ++i) OnEvent(node, events[i]);
  } while (count == events.size());
  node.endpoint->Flush();
  if (node.life != life) return;
  const Time next = node.endpoint->next_deadline();
  if (!next.IsInfinite())
    Wake(node, std::max(next - world_.now(), Duration::Nanoseconds(1)));
}

void RudUpperRun::OnEvent(Node& node, const Event& event) {
  if (event.type == EventType::kMessage) return OnMessage(event);
  OnDone(node, event);
}

void RudUpperRun::OnMessage(const Event& event) {
  uint64_t number = 0;
  Require(event.bytes >= sizeof(number), "a message that nobody has sent");
  std::memcpy(&number, event.data, sizeof(number));
  const auto found = messages_.find(number);
  Require(found != messages_.end(), "a message comes again");
  Require(
      found->second.size() == event.bytes &&
          std::equal(found->second.begin(), found->second.end(), event.data),
      "a message is not what was sent");
  messages_.erase(found);
  must_come_.erase(number);
  ++stats_.messages;
}

void RudUpperRun::OnDone(Node& node, const Event& event) {
  const auto index = static_cast<uint32_t>(event.user);
  Slot& slot = node.slots[index];
  Require(slot.is_active, "an operation ends twice");
  slot.is_active = false;
  if (event.status != Status::kOk) {
    Require(event.status == Status::kCanceled && has_restarted_,
            "an operation fails");
    slot.is_abandoned = true;
    ++stats_.failed;
    return;
  }
  ++stats_.done;
  if (slot.kind == Kind::kSend) {
    // A restart of the target has lost what it had received.
    if (messages_.count(slot.message) != 0 &&
        nodes_[slot.target].life == slot.life) {
      must_come_[slot.message] = slot.target;
    }
  } else {
    const std::vector<uint8_t>& memory = MemoryOf(node.index, slot);
    const auto at =
        memory.begin() + static_cast<int64_t>(PlaceOf(node.index, index, slot));
    Require(std::equal(slot.data.begin(), slot.data.end(), at),
            "complete, and a byte is wrong");
    Require(std::all_of(at + static_cast<int64_t>(slot.data.size()),
                        at + kRegionBytes,
                        [](uint8_t byte) { return byte == kSentinel; }),
            "bytes behind the transfer were written");
  }
  // Makes small writes begin together.
  constexpr int64_t kTogether = 500;
  auto pause = static_cast<int64_t>(random_.Below(1500));
  if (small_writes_) pause = kTogether - world_.now().ns() / 1000 % kTogether;
  world_.After(Duration::Microseconds(pause), [this, &node, index] {
    const Slot& each = node.slots[index];
    if (!each.is_active && !each.is_abandoned) Begin(node, index);
  });
}

void RudUpperRun::OnPlaced(Node& node, const Placement& placement) {
  const auto inside = [&](const std::vector<uint8_t>& bytes) {
    const auto begin = reinterpret_cast<uint64_t>(bytes.data());
    return placement.target >= begin &&
           placement.target + placement.bytes <= begin + bytes.size();
  };
  const bool is_read = inside(node.local);
  Require(is_read || inside(node.shared), "placed beyond the registrations");
  const uint64_t at = placement.target -
                      reinterpret_cast<uint64_t>(is_read ? node.local.data()
                                                         : node.shared.data());
  const uint64_t region = at / kRegionBytes;
  const Slot& slot = is_read
                         ? node.slots[region]
                         : nodes_[region / kAllSlots].slots[region % kAllSlots];
  const uint64_t offset = at % kRegionBytes;
  Require(slot.is_active || slot.is_abandoned,
          "placed for an operation that has ended");
  Require(slot.kind == (is_read ? Kind::kRead : Kind::kWrite) &&
              (is_read || slot.target == node.index),
          "placed for an operation that wants nothing there");
  Require(offset + placement.bytes <= slot.data.size(),
          "placed beyond the operation's bytes");
  Require(std::equal(placement.source, placement.source + placement.bytes,
                     slot.data.begin() + static_cast<int64_t>(offset)),
          "placed with bytes of another operation");
}

// --- The end -----------------------------------------------------------------

bool RudUpperRun::IsDone() const {
  if (left_ != 0 || faulty_ || !must_come_.empty() ||
      world_.now() < settled_at_) {
    return false;
  }
  for (const Node& node : nodes_) {
    for (const Slot& slot : node.slots) {
      if (slot.is_active) return false;
    }
  }
  return true;
}

void RudUpperRun::CheckEnd() {
  for (uint32_t i = 0; i < node_count_; ++i) {
    Node& node = nodes_[i];
    testing::AddCounts(stats_.upper, node.endpoint->stats());
    node.endpoint.reset();
    for (const std::unique_ptr<RudNic>& nic : node.nics) {
      Require(!nic->end().window().failed(), "a window has failed");
      Require(nic->contexts() == 0, "a context was not given back");
    }
  }
  for (size_t i = 0; i < stats_.verdicts.size(); ++i)
    stats_.verdicts[i] += net_->verdicts[i];
}

// Prints what is left, to find the reason.
void RudUpperRun::Explain() const {
  std::printf("%u operations to begin, %zu messages to come\n", left_,
              must_come_.size());
  for (const Node& node : nodes_) {
    for (uint32_t i = 0; i < kAllSlots; ++i) {
      const Slot& slot = node.slots[i];
      if (!slot.is_active) continue;
      std::printf("node %u slot %u kind %u to %u, %zu bytes\n", node.index, i,
                  static_cast<uint32_t>(slot.kind), slot.target,
                  slot.data.size());
    }
    for (uint32_t i = 1; i < kMaxNodes && node.endpoint != nullptr; ++i) {
      const rud::upper::Peer* const peer = node.endpoint->peer(i);
      if (peer == nullptr) continue;
      std::printf(
          "node %u peer %u: living %u parked %d fencing %d again %zu "
          "open %u %llu oldest %u next %u\n",
          node.index, i, peer->living, !peer->parked.empty(),
          !peer->fencing.empty(), peer->again.size(), peer->open_messages,
          static_cast<unsigned long long>(peer->open_bytes),
          peer->sent.oldest(), peer->next_sequence);
      for (const rud::upper::Pair& pair : peer->pairs) {
        std::printf("  pair %u-%u free %d probe %d\n", pair.nic->number,
                    pair.peer_nic, !pair.free.empty(), pair.probe != nullptr);
        for (const rud::upper::Path& path : pair.paths) {
          std::printf("    path %u state %u under way %u window %u\n",
                      path.number, static_cast<uint32_t>(path.state),
                      path.shared.under_way, path.shared.cc.window());
          for (const auto* lane = path.under_way.front(); lane != nullptr;
               lane = lane->next) {
            std::printf("      lane kind %u tid %llx tries %u asks %d\n",
                        static_cast<uint32_t>(lane->kind),
                        static_cast<unsigned long long>(lane->tid), lane->tries,
                        lane->asks);
          }
        }
      }
    }
  }
}

RudUpperStats RudUpperRun::Run() {
  PlanFaults();
  const Time limit = world_.now() + Duration::Seconds(20);
  while (!IsDone()) {
    if (world_.now() >= limit) Explain();
    Require(world_.now() < limit, "it does not come to rest");
    // There are always events, because dead paths are probed.
    world_.At(world_.now() + Duration::Milliseconds(10), [] {});
    world_.RunUntil(world_.now() + Duration::Milliseconds(10));
  }
  CheckEnd();
  return stats_;
}

// --- Faults ------------------------------------------------------------------

void RudUpperRun::PlanFaults() {
  const auto lasts =
      Duration::Milliseconds(static_cast<int64_t>(5 + random_.Below(100)));
  const auto sometime = [&] {
    return Duration::Nanoseconds(
        static_cast<int64_t>(random_.Below(static_cast<uint64_t>(lasts.ns()))));
  };
  for (uint64_t i = random_.Below(3); i != 0; --i)
    world_.After(sometime(), [this] { KillPath(); });
  if (random_.OneIn(nic_count_ > 1 ? 1 : 3)) {
    const bool forever = nic_count_ > 1 && random_.OneIn(4);
    world_.After(sometime(), [this, forever] { KillNic(forever); });
  }
  if (random_.OneIn(3)) world_.After(sometime(), [this] { Restart(); });
  Replay();
  world_.After(lasts, [this] {
    faulty_ = false;
    net_->StopFaults();
  });
}

void RudUpperRun::KillPath() {
  const auto a = static_cast<uint32_t>(random_.Below(node_count_));
  const uint32_t b = (a + 1) % node_count_;
  const auto from =
      static_cast<uint32_t>(a * kNics + random_.Below(nic_count_) + 1);
  const auto to =
      static_cast<uint32_t>(b * kNics + random_.Below(nic_count_) + 1);
  const auto path = static_cast<uint8_t>(random_.Below(config_.paths));
  net_->SetPathDead(from, to, path, true);
  world_.After(
      Duration::Microseconds(1000 + random_.Below(100000)),
      [this, from, to, path] { net_->SetPathDead(from, to, path, false); });
}

void RudUpperRun::KillNic(bool forever) {
  ++stats_.dead_nics;
  const auto number = static_cast<uint32_t>(random_.Below(node_count_) * kNics +
                                            random_.Below(nic_count_) + 1);
  net_->SetNicDead(number, true);
  if (forever) return;
  const auto lasts = Duration::Microseconds(1000 + random_.Below(200000));
  settled_at_ = world_.now() + lasts + Duration::Milliseconds(5);
  world_.After(lasts, [this, number] { net_->SetNicDead(number, false); });
}

// A process dies, loses everything, and starts again with the same numbers.
void RudUpperRun::Restart() {
  ++stats_.restarts;
  has_restarted_ = true;
  Node& node = nodes_[random_.Below(node_count_)];
  for (Slot& slot : node.slots) {
    if (slot.is_active) slot.is_abandoned = true;
    slot.is_active = false;
  }
  for (uint32_t i = 0; i < kSlots; ++i) node.slots[i].is_abandoned = true;
  std::erase_if(must_come_,
                [&](const auto& each) { return each.second == node.index; });
  node.endpoint.reset();
  node.nics.clear();
  node.peers = {};
  node.wake = Time::Infinite();
  Boot(node);
  for (uint32_t i = 0; i < node_count_; ++i) {
    if (i == node.index) continue;
    const auto later = [&] {
      return Duration::Microseconds(random_.Below(5000));
    };
    world_.After(later(), [this, i, &node] { Meet(node, nodes_[i]); });
    world_.After(later(), [this, i, &node] { Meet(nodes_[i], node); });
  }
}

void RudUpperRun::Replay() {
  if (!faulty_) return;
  const auto number = static_cast<uint32_t>(random_.Below(node_count_) * kNics +
                                            random_.Below(nic_count_) + 1);
  RudNic* const nic = net_->NicOf(number);
  if (nic != nullptr) nic->Replay();
  world_.After(Duration::Microseconds(20 + random_.Below(500)),
               [this] { Replay(); });
}

}  // namespace urnic::sim
