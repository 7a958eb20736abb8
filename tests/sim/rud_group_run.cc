#include "tests/sim/rud_group_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/mem/mr_table.h"

namespace urnic::sim {

RudGroupRun::RudGroupRun(uint64_t seed) : random_(seed) {
  if (random_.OneIn(4)) most_attempts_ = 4 + random_.Below(20);
  left_ = 20 + static_cast<uint32_t>(random_.Below(60));
  members_ = std::span(all_members_).first(3 + random_.Below(3));
  source_.memory.resize(kGroupBytes);
  Boot(source_, kSource);
  source_pvo_ = Register(source_, 0, kGroupBytes);
  source_.rnic->peers[kGroupPeer] = {GroupAddress(), 0, group_key_};
  source_.inbox.emplace(
      &world_, &random_,
      [this](const std::vector<RudInbox::Packet>& burst) { AtSource(burst); });
  spare_ = source_.rnic->Acquire();
  for (Slot& slot : slots_) slot.context = source_.rnic->Acquire();
  for (uint32_t i = 0; i < members_.size(); ++i) BootMember(i);
  Member& lesser = members_[random_.Below(members_.size())];
  lesser.loses_memory = random_.OneIn(4);
  if (random_.OneIn(4)) lesser.bytes -= random_.Below(kRegionBytes);
  for (Member& member : members_) {
    member.own = Register(member, kGuardBytes, member.bytes);
    member.wide = Register(member, 0, member.memory.size());
    for (rud::ContextId& context : member.contexts)
      context = member.rnic->Acquire();
    Join(member);
  }
}

void RudGroupRun::Boot(End& end, uint32_t number) {
  testing::RudEndConfig config;
  config.window = {.number = number, .job = kJob, .key = 0x1234};
  config.address = AddressOf(number);
  // Few contexts, so that one that was released is soon used again.
  config.contexts = kSlots + 2;
  end.small_fifo = random_.OneIn(4);
  config.receive_entries = end.small_fifo ? 4 : 256;
  config.seed = random_.Next();
  end.rnic = std::make_unique<testing::RudEnd>(config);
}

void RudGroupRun::BootMember(uint32_t index) {
  Member& member = members_[index];
  const uint32_t number = kFirstMember + index;
  member.bit = 1u << index;
  member.bytes = kGroupBytes;
  member.memory.resize(kGuardBytes + kGroupBytes + kGuardBytes);
  Boot(member, number);
  source_.rnic->peers[number] = {AddressOf(number), number, {}};
  member.rnic->peers[kSource] = {AddressOf(kSource), kSource, {}};
  member.rnic->on_place = [this, &member](const Placement& placement,
                                          const rud::RxPacket& packet) {
    OnPlaced(member, placement, packet);
  };
  member.rnic->is_gone = [this, &member](uint64_t) {
    return member.loses_memory && faulty_ && random_.OneIn(500);
  };
  member.inbox.emplace(
      &world_, &random_,
      [this, &member](const std::vector<RudInbox::Packet>& burst) {
        AtMember(member, burst);
      });
  member.down.emplace(world_, random_.Next(), MakeRudLink(random_),
                      [&member](std::vector<uint8_t> packet) {
                        member.inbox->OnArrival(std::move(packet));
                      });
  member.up.emplace(world_, random_.Next(), MakeRudLink(random_),
                    [this](std::vector<uint8_t> packet) {
                      source_.inbox->OnArrival(std::move(packet));
                    });
}

rud::Pvo RudGroupRun::Register(End& end, uint64_t offset, uint64_t bytes) {
  const auto found = end.rnic->tces().Register(
      kJob, reinterpret_cast<uint64_t>(end.memory.data()) + offset, bytes,
      mem::kRemoteWrite | mem::kLocalRead, rud::PageSize::k4K);
  Require(found.has_value(), "a registration found no room");
  return *found;
}

RudGroupStats RudGroupRun::Run() {
  for (uint32_t i = 0; i < kSlots; ++i) Begin(i);
  Replay(source_);
  for (Member& member : members_) Replay(member);
  Disturb();
  world_.At(world_.now() + Duration::Milliseconds(20), [this] {
    faulty_ = false;
    most_attempts_ = kManyAttempts;
    for (Member& member : members_) {
      member.down->StopFaults();
      member.up->StopFaults();
    }
    left_ += kSlots;
    for (uint32_t i = 0; i < kSlots; ++i) {
      if (!slots_[i].is_active) Begin(i);
    }
  });
  Require(world_.RunUntil(world_.now() + Duration::Seconds(60)),
          "it does not come to rest");
  Require(!source_.rnic->window().failed(), "the source's window has failed");
  for (const Member& member : members_)
    Require(!member.rnic->window().failed(), "a member's window has failed");
  for (const Slot& slot : slots_)
    Require(!slot.is_active, "a transfer did not end");
  Require(left_ == 0, "a transfer did not begin");
  return stats_;
}

// --- The members -------------------------------------------------------------

void RudGroupRun::Join(Member& member) {
  PollMember(member);
  member.epoch = epoch_;
  member.rnic->group = {GroupAddress(),
                        {group_key_,
                         {member.contexts.begin(), member.contexts.end()},
                         {member.wide.value + kGuardBytes},
                         member.bytes}};
}

// Takes other contexts, for some slots or for all. Old packets of the group are
// not accepted on them: the group's key is new, or the contexts begin with
// larger tids.
uint32_t RudGroupRun::TakeContexts(Member& member, bool key_is_new) {
  PollMember(member);
  PumpMember(member);
  uint32_t lost = 0;
  for (uint32_t i = 0; i < kSlots; ++i) {
    if (!key_is_new && random_.OneIn(2)) continue;
    rud::ContextId& context = member.contexts[i];
    member.rnic->Release(context);
    context = member.rnic->Acquire();
    Slot& slot = slots_[i];
    Held& held = member.held[i];
    held = {.transfer = rud::TransferOf(slot.tid),
            .fence = (slot.tid | kLastAttempt) + 1,
            .is_settled = true};
    if (!key_is_new) {
      urnic_rud_send command = {};
      command.opcode = URNIC_RUD_CANCEL;
      command.local_context = context.value();
      command.tid = slot.tid | kLastAttempt;
      const uint32_t entry = member.rnic->Post(command);
      PumpMember(member);
      Require(member.rnic->StatusOf(entry) == URNIC_RUD_SENT,
              "a cancel is refused");
    }
    if (slot.is_active && (slot.missing & member.bit) != 0) lost |= 1u << i;
  }
  return lost;
}

void RudGroupRun::Disturb() {
  if (!faulty_) return;
  if (random_.OneIn(16)) {
    ChangeKey();
  } else if (random_.OneIn(3)) {
    DisturbMember(members_[random_.Below(members_.size())]);
  } else if (random_.OneIn(3)) {
    PostForNobody();
  } else {
    PostPacket();
  }
  world_.After(Duration::Microseconds(100 + random_.Below(500)),
               [this] { Disturb(); });
}

// A member leaves, or takes other contexts, or both. Its RNIC is told later.
void RudGroupRun::DisturbMember(Member& member) {
  ++stats_.rejoins;
  const bool leaves = random_.OneIn(2);
  if (leaves) {
    PollMember(member);
    member.rnic->group.reset();
  }
  if (!leaves || random_.OneIn(2)) Restart(TakeContexts(member, false));
  world_.After(Duration::Microseconds(random_.Below(1000)),
               [this, &member] { Join(member); });
}

void RudGroupRun::ChangeKey() {
  ++stats_.keys;
  ++epoch_;
  PumpSource();
  group_key_ = static_cast<uint32_t>(random_.Next());
  source_.rnic->peers[kGroupPeer].key = group_key_;
  uint32_t lost = 0;
  for (Member& member : members_) {
    lost |= TakeContexts(member, true);
    world_.After(Duration::Microseconds(random_.Below(300)),
                 [this, &member] { Join(member); });
  }
  Restart(lost);
}

void RudGroupRun::OnMemberEntry(Member& member,
                                const urnic_rud_receive& entry) {
  if (entry.type == URNIC_RUD_GOT_PACKET) {
    ++stats_.packets;
    uint64_t epoch = 0;
    std::memcpy(&epoch, entry.tag, sizeof(epoch));
    return Require(epoch == member.epoch, "a packet of an older key has come");
  }
  const uint64_t number = rud::TransferOf(entry.tid);
  const auto found = transfers_.find(number);
  Require(found != transfers_.end(), "a member is told of no transfer");
  const Transfer& transfer = found->second;
  Require(entry.context == member.contexts[transfer.slot].value(),
          "a member is told on another context");
  if (entry.type == URNIC_RUD_GOT_REFUSAL) return OnRefused(member, number);
  Require(entry.type == URNIC_RUD_GOT_TRANSFER,
          "an entry of a type that nobody has sent");
  Require((transfer.notify & URNIC_RUD_NOTIFY_TARGET) != 0,
          "a member is told, and did not want to know");
  OnTold(member, number);
  Held& held = HeldOf(member, transfer, number);
  if (held.transfer == number) {
    Require(!std::exchange(held.was_told, true), "a member is told twice");
  }
}

// --- What happens ------------------------------------------------------------

void RudGroupRun::PumpSource() {
  const uint32_t most = 1 + static_cast<uint32_t>(random_.Below(32));
  while (source_.rnic->window().HasWork()) {
    for (auto& packet : source_.rnic->Transmit({}, most)) {
      if (packet.peer == kGroupPeer) {
        for (Member& member : members_) member.down->Send(packet.bytes);
      } else {
        members_[packet.peer - kFirstMember].down->Send(
            std::move(packet.bytes));
      }
    }
  }
  CheckStatuses();
}

void RudGroupRun::PumpMember(Member& member) {
  while (member.rnic->window().HasWork()) {
    for (auto& packet : member.rnic->Transmit())
      member.up->Send(std::move(packet.bytes));
  }
}

void RudGroupRun::AtSource(const std::vector<RudInbox::Packet>& burst) {
  // The IP header would say who has sent a packet. Here the packet itself does,
  // unless it is damaged.
  for (const Member& member : members_) {
    const uint32_t number = member.rnic->config().window.number;
    std::vector<RudInbox::Packet> own;
    for (const RudInbox::Packet& packet : burst) {
      const auto* base = reinterpret_cast<const wire::RudBase*>(packet.data());
      if (packet.size() >= sizeof(*base) && base->sender_window() == number)
        own.push_back(packet);
    }
    if (own.empty()) continue;
    const std::vector<RxVerdict> verdicts =
        source_.rnic->ReceiveBurst(own, AddressOf(number));
    Count(verdicts);
    for (size_t i = 0; i < own.size(); ++i)
      if (verdicts[i] == RxVerdict::kRudStale) CheckStale(own[i]);
  }
  PollSoon(source_, [this] { PollSource(); });
}

void RudGroupRun::AtMember(Member& member,
                           const std::vector<RudInbox::Packet>& burst) {
  Count(member.rnic->ReceiveBurst(burst, AddressOf(kSource)));
  PollSoon(member, [this, &member] { PollMember(member); });
  // An engine that is busy with other flows answers later.
  world_.After(Duration::Microseconds(random_.Below(3)),
               [this, &member] { PumpMember(member); });
}

void RudGroupRun::Count(const std::vector<RxVerdict>& verdicts) {
  for (const RxVerdict verdict : verdicts)
    ++stats_.verdicts[static_cast<size_t>(verdict)];
}

template <typename Poll>
void RudGroupRun::PollSoon(const End& end, Poll poll) {
  if (!end.small_fifo || !faulty_ || random_.OneIn(3)) return poll();
  world_.After(Duration::Microseconds(50), poll);
}

void RudGroupRun::PollSource() {
  while (const auto entry = source_.rnic->Poll()) OnSourceEntry(*entry);
}

void RudGroupRun::PollMember(Member& member) {
  while (const auto entry = member.rnic->Poll()) OnMemberEntry(member, *entry);
}

void RudGroupRun::Replay(End& end) {
  if (!faulty_) return;
  end.inbox->Replay();
  world_.After(Duration::Microseconds(20 + random_.Below(200)),
               [this, &end] { Replay(end); });
}

// --- The rules ---------------------------------------------------------------

// The source has dropped an answer as stale. It must not be one to a transfer
// to the group that still waits for answers.
void RudGroupRun::CheckStale(const RudInbox::Packet& bytes) {
  const auto is_awaited = [this](const wire::RudContext& context,
                                 uint64_t tid) {
    return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
      return slot.context == rud::IdOf(context) && !slot.is_cancelled &&
             rud::TransferOf(slot.tid) == rud::TransferOf(tid) &&
             !TransferOf(slot).is_single;
    });
  };
  rud::RxPacket packet;
  Require(wire::ParseRud(bytes.data(), static_cast<uint32_t>(bytes.size()),
                         packet) == RxVerdict::kAccept,
          "a packet without a form is stale");
  bool is_stale = false;
  if (packet.type == wire::RudType::kCompletion) {
    for (uint32_t i = 0; i < packet.completions(); ++i) {
      const wire::RudCompletion& done = packet.completion(i);
      is_stale |= !is_awaited(done.source, done.tid.value());
    }
  } else {
    is_stale =
        !is_awaited(packet.transfer().context, packet.transfer().tid.value());
  }
  Require(is_stale, "an answer of a member is taken for an old one");
}

// What the member has received of the transfer, or of a newer one.
RudGroupRun::Held& RudGroupRun::HeldOf(Member& member, const Transfer& transfer,
                                       uint64_t number) {
  Held& held = member.held[transfer.slot];
  if (held.transfer < number) held = {.transfer = number, .fence = held.fence};
  return held;
}

void RudGroupRun::OnPlaced(Member& member, const Placement& placement,
                           const rud::RxPacket& packet) {
  // The program may run meanwhile.
  if (random_.OneIn(4)) PollMember(member);
  const auto begin =
      reinterpret_cast<uint64_t>(member.memory.data()) + kGuardBytes;
  Require(placement.target >= begin &&
              placement.target + placement.bytes <= begin + member.bytes,
          "placed outside the group's memory");
  const uint64_t tid = packet.transfer().tid.value();
  const uint64_t number = rud::TransferOf(tid);
  const auto found = transfers_.find(number);
  Require(found != transfers_.end(), "placed for no transfer");
  const Transfer& transfer = found->second;
  Require((transfer.members & member.bit) != 0, "placed at somebody else");
  const uint64_t offset = packet.data().offset.value();
  Require(offset + placement.bytes <= transfer.bytes,
          "placed beyond the transfer");
  Require(placement.target == begin + transfer.offset + offset,
          "placed where it does not belong");
  Require(std::equal(placement.source, placement.source + placement.bytes,
                     transfer.data.begin() + static_cast<int64_t>(offset)),
          "placed with bytes of another transfer");
  Held& held = HeldOf(member, transfer, number);
  Require(held.transfer == number, "placed after a newer transfer");
  Require(!held.is_settled, "placed after somebody was told");
  Require(tid >= held.fence, "placed after a newer attempt was answered");
  const uint64_t bit = uint64_t{1} << packet.data().number;
  Require((held.placed & bit) == 0, "placed twice");
  held.placed |= bit;
}

// Source or member is told that a transfer is complete at the member.
void RudGroupRun::OnTold(Member& member, uint64_t number) {
  const Transfer& transfer = transfers_.at(number);
  Require(!transfer.is_outside, "complete outside the group's memory");
  Held& held = HeldOf(member, transfer, number);
  // The program was slow: a newer transfer has begun.
  if (held.transfer != number) return;
  held.is_settled = true;
  Require(std::equal(transfer.data.begin(), transfer.data.end(),
                     member.memory.begin() + kGuardBytes +
                         static_cast<int64_t>(transfer.offset)),
          "complete, and a byte is wrong");
}

void RudGroupRun::OnRefused(Member& member, uint64_t number) {
  const Transfer& transfer = transfers_.at(number);
  Require(member.loses_memory || IsBeyond(member, transfer),
          "an access is refused");
  Held& held = HeldOf(member, transfer, number);
  if (held.transfer == number) held.is_settled = true;
}

}  // namespace urnic::sim
