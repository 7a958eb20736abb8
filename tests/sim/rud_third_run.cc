#include "tests/sim/rud_third_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/mem/mr_table.h"

namespace urnic::sim {

RudThirdRun::RudThirdRun(uint64_t seed) : random_(seed) {
  loses_memory_ = random_.OneIn(4);
  small_fifo_ = random_.OneIn(4);
  left_ = 20 + static_cast<uint32_t>(random_.Below(100));
  for (uint32_t i = 0; i < kEnds; ++i) Boot(ends_[i], i + 1);
  for (End& end : ends_) {
    end.inbox.emplace(&world_, &random_,
                      [this, &end](const std::vector<RudInbox::Packet>& burst) {
                        ReceiveBurst(end, burst);
                      });
    end.link.emplace(world_, random_.Next(), MakeRudLink(random_),
                     [&end](std::vector<uint8_t> packet) {
                       end.inbox->OnArrival(std::move(packet));
                     });
  }
}

void RudThirdRun::Boot(End& end, uint32_t number) {
  testing::RudEndConfig config;
  config.window = {.number = number, .job = kJob, .key = 0x1234};
  config.address = AddressOf(number);
  config.contexts = 2 * kSlots + 4;
  config.receive_entries = small_fifo_ ? 4 : 256;
  config.seed = random_.Next();
  end.number = number;
  end.rnic = std::make_unique<testing::RudEnd>(config);
  // The number of a peer is the number of its window.
  for (uint32_t peer = 1; peer <= kEnds; ++peer) {
    if (peer != number) end.rnic->peers[peer] = {AddressOf(peer), peer};
  }
  end.rnic->on_place = [this, &end](const Placement& placement,
                                    const rud::RxPacket&) {
    OnPlaced(end, placement);
  };
  end.rnic->is_gone = [this](uint64_t) {
    return loses_memory_ && faulty_ && random_.OneIn(500);
  };
  end.sources.assign(size_t{kSlots} * kRegionBytes, kSentinel);
  end.targets.assign(size_t{kSlots} * kRegionBytes, kSentinel);
  end.sources_pvo = Register(end, end.sources);
  end.targets_pvo = Register(end, end.targets);
}

rud::Pvo RudThirdRun::Register(End& end, std::vector<uint8_t>& bytes) {
  const auto found = end.rnic->tces().Register(
      kJob, reinterpret_cast<uint64_t>(bytes.data()), bytes.size(),
      mem::kRemoteWrite | mem::kRemoteRead, rud::PageSize::k4K);
  Require(found.has_value(), "a registration found no room");
  return *found;
}

void RudThirdRun::TakeContexts(Slot& slot) {
  for (End& end : ends_) {
    for (auto* contexts : {&slot.managing, &slot.served}) {
      rud::ContextId& context = (*contexts)[end.number - 1];
      if (context.value() != 0) end.rnic->Release(context);
      context = end.rnic->Acquire();
    }
  }
}

RudThirdStats RudThirdRun::Run() {
  for (uint32_t i = 0; i < kSlots; ++i) {
    TakeContexts(slots_[i]);
    Begin(i);
  }
  for (End& end : ends_) Replay(end);
  world_.At(world_.now() + Duration::Milliseconds(20), [this] {
    faulty_ = false;
    for (End& end : ends_) end.link->StopFaults();
  });
  Require(world_.RunUntil(world_.now() + Duration::Seconds(60)),
          "it does not come to rest");
  for (End& end : ends_) {
    Require(!end.rnic->window().failed(), "a window has failed");
    CheckCounters(end);
  }
  for (const Slot& slot : slots_)
    Require(!slot.is_active, "a transfer did not end");
  return stats_;
}

// --- The manager -------------------------------------------------------------

void RudThirdRun::Begin(uint32_t index) {
  if (left_ == 0) return;
  --left_;
  Slot& slot = slots_[index];
  // While old packets for the old ones are in flight.
  if (random_.OneIn(4)) TakeContexts(slot);
  const auto first = static_cast<uint32_t>(random_.Below(kEnds));
  const uint32_t step = random_.OneIn(2) ? 1 : 2;
  slot.manager = &ends_[first];
  slot.source = &ends_[(first + step) % kEnds];
  slot.target = &ends_[(first + 2 * step) % kEnds];
  slot.is_active = true;
  slot.is_settled = slot.target_told = false;
  slot.attempts = 0;
  slot.notify = static_cast<uint8_t>(URNIC_RUD_NOTIFY_THIRD |
                                     random_.Below(URNIC_RUD_NOTIFY_THIRD));
  slot.stride = static_cast<uint16_t>(16 << random_.Below(4));
  slot.bytes = random_.OneIn(4)
                   ? static_cast<uint32_t>(random_.Below(9))
                   : static_cast<uint32_t>(
                         1 + random_.Below(kUnitPackets * slot.stride));
  slot.tid = ++transfer_ * kTransferStep;
  slot.data.resize(slot.bytes);
  for (uint8_t& byte : slot.data) byte = random_.Byte();
  std::copy(slot.data.begin(), slot.data.end(),
            slot.source->sources.begin() + OffsetOf(index));
  std::fill_n(slot.target->targets.begin() + OffsetOf(index), kRegionBytes,
              kSentinel);
  PostRead(index, AllOf(slot));
  PostSignal(index);
}

void RudThirdRun::PostSignal(uint32_t index) {
  const Slot& slot = slots_[index];
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_PACKET;
  command.flags = URNIC_RUD_INLINE_DATA;
  command.peer = command.window = slot.target->number;
  command.condition = CounterOf(index);
  command.value = slot.manager->completed[index] + 1;
  std::memcpy(command.tag, &slot.tid, sizeof(slot.tid));
  Post(*slot.manager, command);
}

void RudThirdRun::PostRead(uint32_t index, uint64_t packets) {
  const Slot& slot = slots_[index];
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_THIRD_READ;
  command.notify = slot.notify;
  command.peer = command.window = slot.source->number;
  command.context = ContextOf(slot, *slot.source);
  command.target_peer = command.target_window = slot.target->number;
  command.target_context = ContextOf(slot, *slot.target);
  command.local_pvo = slot.target->targets_pvo.value + OffsetOf(index);
  command.remote_pvo = slot.source->sources_pvo.value + OffsetOf(index);
  command.bytes = slot.bytes;
  command.stride = slot.stride;
  command.packets = packets;
  command.counter = CounterOf(index);
  PostAttempt(index, command);
}

// Asks the target what has arrived.
void RudThirdRun::PostQuestion(uint32_t index) {
  const Slot& slot = slots_[index];
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_ASK_STATE;
  command.peer = command.window = slot.target->number;
  command.context = ContextOf(slot, *slot.target);
  PostAttempt(index, command);
}

void RudThirdRun::Post(End& end, const urnic_rud_send& command) {
  if (!end.rnic->CanPost()) Pump(end);
  end.rnic->Post(command);
  world_.After(Duration(), [this, &end] { Pump(end); });
}

void RudThirdRun::PostAttempt(uint32_t index, urnic_rud_send command) {
  Slot& slot = slots_[index];
  ++stats_.attempts;
  ++slot.attempts;
  command.path = static_cast<uint8_t>(random_.Below(4));
  command.local_context = ContextOf(slot, *slot.manager);
  command.tid = slot.tid;
  Post(*slot.manager, command);
  const uint64_t timer = slot.timer = ++timers_;
  const uint64_t backoff = std::min<uint64_t>(slot.attempts, 6);
  world_.After(Duration::Microseconds(150 + random_.Below(300) * backoff),
               [this, index, timer] { OnTimeOut(index, timer); });
}

void RudThirdRun::OnTimeOut(uint32_t index, uint64_t timer) {
  Slot& slot = slots_[index];
  if (!slot.is_active || slot.timer != timer) return;
  if ((slot.tid & 0xff) >= 0xfe) {
    Require(faulty_,
            "a transfer does not complete on a network without faults");
    return GiveUp(index);
  }
  ++slot.tid;
  // A transfer of one packet is retransmitted at once.
  if (AllOf(slot) == 1 || random_.OneIn(4)) return PostRead(index, AllOf(slot));
  PostQuestion(index);
}

void RudThirdRun::Finish(uint32_t index) {
  Slot& slot = slots_[index];
  slot.is_active = false;
  slot.is_settled = true;
  slot.timer = 0;
  // The signal of this transfer may arrive before or after the next begins.
  const uint64_t pause = random_.OneIn(2) ? 50 : 400;
  world_.After(Duration::Microseconds(random_.Below(pause)), [this, index] {
    if (!slots_[index].is_active) Begin(index);
  });
}

void RudThirdRun::GiveUp(uint32_t index) {
  End& manager = *slots_[index].manager;
  TakeContexts(slots_[index]);
  // Drops the signal. Sets the counter back, because it may have counted a
  // completion that was not reported.
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_DROP_HELD;
  command.counter = CounterOf(index);
  Post(manager, command);
  command.opcode = URNIC_RUD_SET_COUNTER;
  command.value = manager.completed[index];
  Post(manager, command);
  Finish(index);
}

void RudThirdRun::CheckCounters(End& end) {
  Require(end.rnic->window().held() == 0, "a signal was not sent");
  for (uint32_t i = 0; i < kSlots; ++i) {
    urnic_rud_send command = {};
    command.opcode = URNIC_RUD_ASK_COUNTER;
    command.counter = CounterOf(i);
    Poll(end);
    end.rnic->Post(command);
    Pump(end);
    const auto got = end.rnic->Poll();
    Require(got.has_value() && got->type == URNIC_RUD_GOT_COUNTER,
            "a counter does not say its value");
    Require(got->value == end.completed[i],
            "a counter is not the number of completions");
  }
}

// --- What happens ------------------------------------------------------------

void RudThirdRun::Pump(End& end) {
  const uint32_t most = 1 + static_cast<uint32_t>(random_.Below(32));
  while (end.rnic->window().HasWork()) {
    for (auto& packet : end.rnic->Transmit({}, most))
      ends_[packet.peer - 1].link->Send(std::move(packet.bytes));
  }
}

void RudThirdRun::ReceiveBurst(End& end,
                               const std::vector<RudInbox::Packet>& burst) {
  // The IP header would say who has sent a packet. Here the packet itself does,
  // unless it is damaged.
  for (uint32_t from = 1; from <= kEnds; ++from) {
    std::vector<RudInbox::Packet> own;
    for (const RudInbox::Packet& packet : burst) {
      const auto* base = reinterpret_cast<const wire::RudBase*>(packet.data());
      if (base->sender_window() == from) own.push_back(packet);
    }
    if (own.empty()) continue;
    for (const RxVerdict verdict :
         end.rnic->ReceiveBurst(own, AddressOf(from))) {
      ++stats_.verdicts[static_cast<size_t>(verdict)];
    }
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

void RudThirdRun::Poll(End& end) {
  while (const auto entry = end.rnic->Poll()) OnEntry(end, *entry);
}

void RudThirdRun::OnSignal(End& end, const urnic_rud_receive& entry) {
  uint64_t tid = 0;
  std::memcpy(&tid, entry.tag, sizeof(tid));
  for (uint32_t i = 0; i < kSlots; ++i) {
    const Slot& slot = slots_[i];
    if (slot.tid >> 8 != tid >> 8) continue;
    Require(slot.target == &end, "a signal comes to somebody else");
    ++stats_.signals;
    return OnTold(i);
  }
}

void RudThirdRun::OnEntry(End& end, const urnic_rud_receive& entry) {
  if (entry.type == URNIC_RUD_GOT_PACKET) return OnSignal(end, entry);
  for (uint32_t i = 0; i < kSlots; ++i) {
    Slot& slot = slots_[i];
    if (!slot.is_active || ContextOf(slot, end) != entry.context ||
        (slot.tid >> 8) != (entry.tid >> 8)) {
      continue;
    }
    if (&end == slot.manager) return OnManagersEntry(i, entry);
    const bool is_target = &end == slot.target;
    switch (entry.type) {
      case URNIC_RUD_GOT_TRANSFER:
        Require(is_target, "somebody else is told as the target");
        Require((slot.notify & URNIC_RUD_NOTIFY_TARGET) != 0,
                "the target is told, and did not want to know");
        Require(!std::exchange(slot.target_told, true),
                "the target is told twice");
        return OnTold(i);
      case URNIC_RUD_GOT_COMPLETION:
        Require(!is_target && (slot.notify & URNIC_RUD_NOTIFY_SOURCE) != 0,
                "told as the source, and did not want to know");
        return OnTold(i);
      case URNIC_RUD_GOT_REFUSAL:
        Require(loses_memory_, "an access is refused");
        if (is_target) slot.is_settled = true;
        return;
      default:
        Violate("an entry of a type that nobody has sent");
    }
  }
}

void RudThirdRun::OnManagersEntry(uint32_t index,
                                  const urnic_rud_receive& entry) {
  Slot& slot = slots_[index];
  switch (entry.type) {
    case URNIC_RUD_GOT_COMPLETION:
      OnTold(index);
      Require(entry.peer == slot.target->number,
              "the manager is told by somebody who does not know");
      Require((slot.notify & URNIC_RUD_NOTIFY_TARGET) == 0 ||
                  slot.target_told || small_fifo_,
              "the manager is told, and the target is not");
      ++stats_.transfers;
      ++slot.manager->completed[index];
      return Finish(index);
    case URNIC_RUD_GOT_STATE: {
      if (entry.tid != slot.tid) return;
      const uint64_t missing = AllOf(slot) & ~entry.arrived;
      Require((entry.arrived & ~AllOf(slot)) == 0,
              "a state has packets that are none");
      Require(missing != 0, "a state says that all is there");
      if ((slot.tid & 0xff) >= 0xfe) return;
      ++slot.tid;
      return PostRead(index, missing);
    }
    case URNIC_RUD_GOT_REFUSAL:
      Require(loses_memory_, "an access is refused");
      if (entry.tid != slot.tid) return;
      ++stats_.refused;
      // Perhaps the target does not know of the refusal, and packets of the
      // source are in flight.
      return GiveUp(index);
    default:
      Violate("an entry of a type that nobody has sent");
  }
}

void RudThirdRun::OnTold(uint32_t index) {
  Slot& slot = slots_[index];
  const auto begin = slot.target->targets.begin() + OffsetOf(index);
  if (!std::exchange(slot.is_settled, true)) {
    Require(std::equal(slot.data.begin(), slot.data.end(), begin),
            "complete, and a byte is wrong");
  }
  Require(std::all_of(begin + slot.bytes, begin + kRegionBytes,
                      [](uint8_t byte) { return byte == kSentinel; }),
          "bytes behind the transfer were written");
}

void RudThirdRun::OnPlaced(End& end, const Placement& placement) {
  // The program may run meanwhile.
  if (random_.OneIn(4)) Poll(end);
  const auto begin = reinterpret_cast<uint64_t>(end.targets.data());
  Require(placement.target >= begin &&
              placement.target + placement.bytes <= begin + end.targets.size(),
          "placed beyond the registration");
  const uint64_t at = placement.target - begin;
  const Slot& slot = slots_[at / kRegionBytes];
  const uint64_t offset = at % kRegionBytes;
  Require(slot.is_active && slot.target == &end,
          "placed for a transfer that has ended");
  Require(!slot.is_settled, "placed after somebody was told");
  Require(offset + placement.bytes <= slot.bytes, "placed beyond the transfer");
  Require(std::equal(placement.source, placement.source + placement.bytes,
                     slot.data.begin() + static_cast<int64_t>(offset)),
          "placed with bytes of another transfer");
}

void RudThirdRun::Replay(End& end) {
  if (!faulty_) return;
  end.inbox->Replay();
  world_.After(Duration::Microseconds(20 + random_.Below(200)),
               [this, &end] { Replay(end); });
}

}  // namespace urnic::sim
