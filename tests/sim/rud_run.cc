#include "tests/sim/rud_run.h"

#include <algorithm>
#include <utility>

#include "transport/mem/mr_table.h"

namespace urnic::sim {
namespace {

constexpr uint32_t kJob = 3;
constexpr uint32_t kRights =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;
constexpr uint8_t kSentinel = 0xd5;
constexpr uint64_t kTransferStep = 1 << 8;  // of tids

wire::Gid AddressOf(uint32_t number) {
  return wire::Gid::FromIpv4(0x0a000000 + number);
}

}  // namespace

RudRun::RudRun(uint64_t seed) : random_(seed) {
  loses_memory_ = random_.OneIn(4);
  small_fifo_ = random_.OneIn(4);
  left_ = 20 + static_cast<uint32_t>(random_.Below(100));
  for (uint32_t i = 0; i < 2; ++i) Boot(ends_[i], i + 1);
  for (End& end : ends_) {
    end.inbox.emplace(&world_, &random_,
                      [this, &end](const std::vector<RudInbox::Packet>& burst) {
                        ReceiveBurst(end, burst);
                      });
    end.link.emplace(world_, random_.Next(), MakeLink(),
                     [&end](std::vector<uint8_t> packet) {
                       end.inbox->OnArrival(std::move(packet));
                     });
    for (Slot& slot : end.slots) TakeContexts(end, slot);
  }
}

LinkConfig RudRun::MakeLink() {
  LinkConfig link;
  link.delay = Duration::Microseconds(5 + random_.Below(100));
  if (random_.OneIn(8)) return link;  // perfect
  link.loss_ppm = static_cast<uint32_t>(random_.Below(200000));
  link.duplicate_ppm = static_cast<uint32_t>(random_.Below(100000));
  link.reorder_ppm = static_cast<uint32_t>(random_.Below(300000));
  link.corrupt_ppm = static_cast<uint32_t>(random_.Below(50000));
  return link;
}

// Starts an end with the same numbers as before, but another seed.
void RudRun::Boot(End& end, uint32_t number) {
  testing::RudEndConfig config;
  config.window = {.number = number, .job = kJob, .key = 0x1234};
  config.address = AddressOf(number);
  config.contexts = 2 * kSlots + 4;
  config.receive_entries = small_fifo_ ? 4 : 256;
  config.seed = random_.Next();
  end.rnic = std::make_unique<testing::RudEnd>(config);
  end.rnic->on_place = [this, &end](const Placement& placement,
                                    const rud::RxPacket&) {
    OnPlaced(end, placement);
  };
  end.rnic->is_gone = [this](uint64_t) {
    return loses_memory_ && faulty_ && random_.OneIn(500);
  };
  if (end.local.empty()) {
    end.local.assign(size_t{kSlots} * kRegionBytes, kSentinel);
    end.shared.assign(size_t{kSlots} * kRegionBytes, kSentinel);
  }
  Register(end, end.local_pvo, end.local);
  Register(end, end.shared_pvo, end.shared);
}

void RudRun::Register(End& end, rud::Pvo& pvo, std::vector<uint8_t>& bytes) {
  const auto found =
      end.rnic->tces().Register(kJob, reinterpret_cast<uint64_t>(bytes.data()),
                                bytes.size(), kRights, rud::PageSize::k4K);
  Require(found.has_value(), "a registration found no room");
  pvo = *found;
}

void RudRun::TakeContexts(End& end, Slot& slot) {
  slot.own = end.rnic->Acquire();
  slot.peers = Other(end).rnic->Acquire();
}

RudStats RudRun::Run() {
  const bool restarts = random_.OneIn(3);
  if (random_.OneIn(3)) {
    world_.After(Duration::Microseconds(random_.Below(10000)), [this] {
      dead_path_ = static_cast<uint8_t>(random_.Below(kPaths));
    });
  }
  for (End& end : ends_) {
    for (uint32_t i = 0; i < kSlots; ++i) Begin(end, i);
    Replay(end);
  }
  if (restarts) {
    world_.After(Duration::Microseconds(200 + random_.Below(5000)),
                 [this] { Restart(); });
  }
  const Time faults_end = world_.now() + Duration::Milliseconds(20);
  world_.At(faults_end, [this] {
    faulty_ = false;
    for (End& end : ends_) end.link->StopFaults();
  });
  Require(world_.RunUntil(world_.now() + Duration::Seconds(60)),
          "it does not come to rest");
  for (End& end : ends_) {
    Require(!end.rnic->window().failed(), "a window has failed");
    for (const Slot& slot : end.slots)
      Require(!slot.is_active, "a transfer did not end");
  }
  return stats_;
}

bool RudRun::MayBegin() const { return left_ != 0; }

// --- The upper layer ---------------------------------------------------------

void RudRun::Begin(End& end, uint32_t index) {
  if (!MayBegin()) return;
  --left_;
  Slot& slot = end.slots[index];
  End& other = Other(end);
  // From time to time contexts change their owner while old packets for them
  // are in flight.
  if (slot.needs_contexts || random_.OneIn(4)) {
    end.rnic->Release(slot.own);
    other.rnic->Release(slot.peers);
    TakeContexts(end, slot);
  }
  slot.needs_contexts = false;
  slot.is_active = true;
  slot.is_read = random_.OneIn(3);
  slot.is_settled = slot.target_told = slot.asks = false;
  slot.target_wanted = random_.OneIn(2);
  slot.attempts = 0;
  slot.stride = static_cast<uint16_t>(16 << random_.Below(5));
  slot.bytes = random_.OneIn(4)
                   ? static_cast<uint32_t>(random_.Below(9))
                   : static_cast<uint32_t>(
                         1 + random_.Below(kUnitPackets * slot.stride));
  slot.tid = ++transfer_ * kTransferStep;
  slot.data.resize(slot.bytes);
  for (uint8_t& byte : slot.data) byte = random_.Byte();
  std::vector<uint8_t>& source = slot.is_read ? other.shared : end.local;
  std::copy(slot.data.begin(), slot.data.end(),
            source.begin() + OffsetOf(index));
  std::vector<uint8_t>& target = TargetOf(end, slot);
  std::fill_n(target.begin() + OffsetOf(index), kRegionBytes, kSentinel);
  Post(end, index, slot.is_read ? URNIC_RUD_READ : URNIC_RUD_WRITE,
       wire::RudAllPackets(wire::RudPackets(slot.bytes, slot.stride)));
}

void RudRun::Post(End& end, uint32_t index, uint8_t opcode, uint64_t packets) {
  Slot& slot = end.slots[index];
  if (!end.rnic->CanPost()) Pump(end);
  ++stats_.attempts;
  ++slot.attempts;
  urnic_rud_send command = {};
  command.opcode = opcode;
  command.peer = 1;
  command.path = static_cast<uint8_t>(random_.Below(kPaths));
  command.window = Other(end).rnic->config().window.number;
  command.context = slot.peers.value();
  command.local_context = slot.own.value();
  command.tid = slot.tid;
  slot.asks = opcode == URNIC_RUD_ASK_STATE;
  if (!slot.asks) {
    // This end must be notified: it is the target of a read, or the source of a
    // write.
    command.notify =
        slot.is_read ? URNIC_RUD_NOTIFY_TARGET : URNIC_RUD_NOTIFY_SOURCE;
    if (slot.target_wanted) {
      command.notify |=
          slot.is_read ? URNIC_RUD_NOTIFY_SOURCE : URNIC_RUD_NOTIFY_TARGET;
    }
    command.local_pvo = end.local_pvo.value + OffsetOf(index);
    command.remote_pvo = Other(end).shared_pvo.value + OffsetOf(index);
    command.bytes = slot.bytes;
    command.stride = slot.stride;
    command.packets = packets;
  }
  end.rnic->Post(command);
  const uint64_t timer = slot.timer = ++timers_;
  const uint64_t backoff = std::min<uint64_t>(slot.attempts, 6);
  world_.After(Duration::Microseconds(100 + random_.Below(300) * backoff),
               [this, &end, index, timer] { OnTimeOut(end, index, timer); });
  world_.After(Duration(), [this, &end] { Pump(end); });
}

void RudRun::OnTimeOut(End& end, uint32_t index, uint64_t timer) {
  Slot& slot = end.slots[index];
  if (!slot.is_active || slot.timer != timer) return;
  const bool is_one = wire::RudPackets(slot.bytes, slot.stride) == 1;
  if ((slot.tid & 0xff) == 0xff) {
    Require(faulty_,
            "a transfer does not complete on a network without faults");
    // All attempts are used up. Packets in flight must not meet the next
    // transfer, so it gets other contexts.
    slot.needs_contexts = true;
    return Finish(end, index);
  }
  ++slot.tid;
  if (!slot.is_read && !is_one) return Post(end, index, URNIC_RUD_ASK_STATE, 0);
  Post(end, index, slot.is_read ? URNIC_RUD_READ : URNIC_RUD_WRITE,
       wire::RudAllPackets(wire::RudPackets(slot.bytes, slot.stride)));
}

// The peer has told what has arrived: sends the rest.
void RudRun::Again(End& end, uint32_t index, uint64_t arrived) {
  Slot& slot = end.slots[index];
  const uint64_t all =
      wire::RudAllPackets(wire::RudPackets(slot.bytes, slot.stride));
  Require((arrived & ~all) == 0, "a state has packets that are none");
  Require(arrived != all, "a state says that all is there, and no completion");
  if ((slot.tid & 0xff) == 0xff) return;
  ++slot.tid;
  Post(end, index, URNIC_RUD_WRITE, all & ~arrived);
}

void RudRun::Finish(End& end, uint32_t index) {
  Slot& slot = end.slots[index];
  slot.is_active = false;
  slot.is_settled = true;
  slot.timer = 0;
  world_.After(Duration::Microseconds(random_.Below(50)), [this, &end, index] {
    if (!end.slots[index].is_active) Begin(end, index);
  });
}

// --- What happens ------------------------------------------------------------

void RudRun::Pump(End& end) {
  const uint32_t most = 1 + static_cast<uint32_t>(random_.Below(32));
  while (end.rnic->window().HasWork()) {
    auto sent = end.rnic->Transmit(Other(end).rnic->config().address, most);
    for (auto& packet : sent) {
      constexpr size_t kPathByte = offsetof(wire::RudBase, path);
      if (packet.bytes[kPathByte] != dead_path_)
        Other(end).link->Send(std::move(packet.bytes));
    }
  }
}

void RudRun::ReceiveBurst(End& end,
                          const std::vector<RudInbox::Packet>& burst) {
  for (const RxVerdict verdict :
       end.rnic->ReceiveBurst(burst, Other(end).rnic->config().address)) {
    ++stats_.verdicts[static_cast<size_t>(verdict)];
  }
  // The FIFO of a slow program gets full.
  if (!small_fifo_ || !faulty_ || random_.OneIn(3)) {
    Poll(end);
  } else {
    world_.After(Duration::Microseconds(50), [this, &end] { Poll(end); });
  }
  // An engine that is busy with other flows answers later.
  world_.After(Duration::Microseconds(random_.Below(3)),
               [this, &end] { Pump(end); });
}

void RudRun::Poll(End& end) {
  while (const auto entry = end.rnic->Poll()) OnEntry(end, *entry);
}

void RudRun::OnEntry(End& end, const urnic_rud_receive& entry) {
  for (uint32_t i = 0; i < kSlots; ++i) {
    // This end is the target of the other's write, or the source of its read.
    Slot& served = Other(end).slots[i];
    if (served.peers.value() == entry.context && served.is_active &&
        (served.tid >> 8) == (entry.tid >> 8)) {
      if (entry.type == URNIC_RUD_GOT_TRANSFER) {
        Require(!served.is_read, "the source of a read is told as its target");
        Require(!served.target_told, "the target is told twice");
        served.target_told = true;
        OnTold(served, Other(end));
      } else if (entry.type == URNIC_RUD_GOT_COMPLETION) {
        Require(served.is_read, "the target of a write is told as its source");
        OnTold(served, Other(end));
      } else if (entry.type == URNIC_RUD_GOT_REFUSAL && !served.is_read) {
        served.is_settled = true;
      }
      return;
    }
    Slot& slot = end.slots[i];
    if (slot.own.value() != entry.context || !slot.is_active) continue;
    // A transfer is complete whichever attempt has completed it.
    if ((entry.tid >> 8) != (slot.tid >> 8)) return;
    switch (entry.type) {
      case URNIC_RUD_GOT_COMPLETION:
      case URNIC_RUD_GOT_TRANSFER:
        Require((entry.type == URNIC_RUD_GOT_TRANSFER) == slot.is_read,
                "the wrong kind of completion");
        OnTold(slot, end);
        Require(slot.is_read || !slot.target_wanted || slot.target_told ||
                    small_fifo_,
                "the source is told, and the target is not");
        ++stats_.transfers;
        return Finish(end, i);
      case URNIC_RUD_GOT_STATE:
        if (entry.tid != slot.tid) return;
        return Again(end, i, entry.arrived);
      case URNIC_RUD_GOT_REFUSAL:
        Require(loses_memory_, "an access is refused");
        // Another attempt is in flight, and will get its own answer.
        if (entry.tid != slot.tid) return;
        ++stats_.refused;
        return Finish(end, i);
      default:
        Violate("an entry of a type that nobody has sent");
    }
  }
}

// An end is told that the transfer is complete.
void RudRun::OnTold(Slot& slot, const End& owner) {
  End& end = &owner == &ends_[0] ? ends_[0] : ends_[1];
  const auto index = static_cast<uint32_t>(&slot - end.slots.data());
  std::vector<uint8_t>& target = TargetOf(end, slot);
  if (!slot.is_settled) {
    Require(std::equal(slot.data.begin(), slot.data.end(),
                       target.begin() + OffsetOf(index)),
            "complete, and a byte is wrong");
  }
  slot.is_settled = true;
  Require(std::all_of(target.begin() + OffsetOf(index) + slot.bytes,
                      target.begin() + OffsetOf(index) + kRegionBytes,
                      [](uint8_t byte) { return byte == kSentinel; }),
          "bytes behind the transfer were written");
}

void RudRun::OnPlaced(End& end, const Placement& placement) {
  // The program may run meanwhile.
  if (random_.OneIn(4)) Poll(end);
  const auto inside = [&](const std::vector<uint8_t>& bytes) {
    const auto begin = reinterpret_cast<uint64_t>(bytes.data());
    return placement.target >= begin &&
           placement.target + placement.bytes <= begin + bytes.size();
  };
  const bool is_local = inside(end.local);
  Require(is_local || inside(end.shared), "placed beyond the registrations");
  const auto begin = reinterpret_cast<uint64_t>(is_local ? end.local.data()
                                                         : end.shared.data());
  const uint64_t at = placement.target - begin;
  End& owner = is_local ? end : Other(end);
  Slot& slot = owner.slots[at / kRegionBytes];
  const uint64_t offset = at % kRegionBytes;
  Require(slot.is_active && slot.is_read == is_local,
          "placed for a transfer that has ended");
  Require(!slot.is_settled, "placed after an end was told");
  Require(offset + placement.bytes <= slot.bytes, "placed beyond the transfer");
  Require(std::equal(placement.source, placement.source + placement.bytes,
                     slot.data.begin() + static_cast<int64_t>(offset)),
          "placed with bytes of another transfer");
}

// --- Restarts and old packets ------------------------------------------------

// The second end restarts or recovers. Its windows, contexts and registrations
// have the same numbers as before, and old packets are still in flight.
void RudRun::Restart() {
  ++stats_.restarts;
  End& end = ends_[1];
  if (random_.OneIn(2)) {
    end.rnic->Recover();
  } else {
    end.rnic.reset();
    Boot(end, 2);
  }
  for (End& each : ends_) {
    for (uint32_t i = 0; i < kSlots; ++i) {
      Slot& slot = each.slots[i];
      ends_[0].rnic->Release(&each == &ends_[0] ? slot.own : slot.peers);
    }
  }
  for (End& each : ends_) {
    for (uint32_t i = 0; i < kSlots; ++i) {
      TakeContexts(each, each.slots[i]);
      if (each.slots[i].is_active) Finish(each, i);
    }
  }
}

void RudRun::Replay(End& end) {
  if (!faulty_) return;
  if (end.inbox->Replay()) ++stats_.replayed;
  world_.After(Duration::Microseconds(20 + random_.Below(200)),
               [this, &end] { Replay(end); });
}

}  // namespace urnic::sim
