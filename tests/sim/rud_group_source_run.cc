// The program of the source.

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/sim/rud_group_run.h"

namespace urnic::sim {

void RudGroupRun::Begin(uint32_t index) {
  if (left_ == 0) return;
  --left_;
  Slot& slot = slots_[index];
  if (random_.OneIn(4)) {
    PumpSource();
    source_.rnic->Release(slot.context);
    slot.context = source_.rnic->Acquire();
  }
  slot.is_active = true;
  Start(index);
}

// Begins a transfer while packets of the slot's last one may be in flight.
void RudGroupRun::Start(uint32_t index) {
  // Sends these packets before their bytes are overwritten.
  PumpSource();
  Slot& slot = slots_[index];
  slot.tid = ++transfer_ * kAttempts;
  slot.is_cancelled = slot.was_told = false;
  slot.rounds = 0;
  Transfer& transfer = transfers_[transfer_];
  transfer.slot = index;
  transfer.began_faulty = faulty_;
  transfer.notify =
      static_cast<uint8_t>(URNIC_RUD_NOTIFY_SOURCE |
                           (random_.OneIn(2) ? URNIC_RUD_NOTIFY_TARGET : 0));
  transfer.stride = static_cast<uint16_t>(16 << random_.Below(4));
  transfer.bytes = random_.OneIn(4)
                       ? static_cast<uint32_t>(random_.Below(9))
                       : static_cast<uint32_t>(
                             1 + random_.Below(kUnitPackets * transfer.stride));
  transfer.offset = OffsetOf(index);
  transfer.members = (1u << members_.size()) - 1;
  if (faulty_ && transfer.bytes != 0 && random_.OneIn(16)) {
    // No packet of the transfer is inside the group's memory.
    transfer.is_outside = true;
    const uint64_t first = std::min<uint64_t>(transfer.bytes, transfer.stride);
    transfer.offset = random_.OneIn(2)
                          ? 0 - (transfer.bytes + random_.Below(2) * 1000)
                          : kGroupBytes - random_.Below(first);
  } else if (random_.OneIn(8)) {
    const Member& only = members_[random_.Below(members_.size())];
    transfer.is_single = !IsBeyond(only, transfer);
    if (transfer.is_single) transfer.members = only.bit;
  }
  transfer.data.resize(transfer.bytes);
  for (uint8_t& byte : transfer.data) byte = random_.Byte();
  std::copy(transfer.data.begin(), transfer.data.end(),
            source_.memory.begin() + OffsetOf(index));
  slot.missing = transfer.members;
  if (!transfer.is_single) {
    PostToGroup(index);
  } else {
    for (const Member& member : members_) {
      if ((slot.missing & member.bit) != 0)
        PostTo(member, index, AllOf(transfer));
    }
  }
  Arm(index);
}

void RudGroupRun::Restart(uint32_t slots) {
  for (uint32_t i = 0; i < kSlots; ++i) {
    if ((slots >> i & 1) == 0) continue;
    ++stats_.restarts;
    Start(i);
  }
}

void RudGroupRun::Finish(uint32_t index) {
  Slot& slot = slots_[index];
  slot.is_active = false;
  slot.timer = 0;
  ++stats_.transfers;
  if (random_.OneIn(8)) {
    urnic_rud_send command = {};
    command.opcode = URNIC_RUD_CANCEL;
    command.local_context = slot.context.value();
    command.tid = slot.tid + 1;
    Post(command);
    PumpSource();
    PollSource();
    slot.is_cancelled = true;
  }
  world_.After(Duration::Microseconds(random_.Below(100)), [this, index] {
    if (!slots_[index].is_active) Begin(index);
  });
}

urnic_rud_send RudGroupRun::CommandOf(uint32_t index) {
  const Slot& slot = slots_[index];
  const Transfer& transfer = TransferOf(slot);
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_WRITE;
  command.notify = transfer.notify;
  command.path = static_cast<uint8_t>(random_.Below(4));
  command.local_context = slot.context.value();
  command.tid = slot.tid;
  command.local_pvo = source_pvo_.value + OffsetOf(index);
  command.bytes = transfer.bytes;
  command.stride = transfer.stride;
  command.packets = AllOf(transfer);
  return command;
}

void RudGroupRun::PostToGroup(uint32_t index) {
  ++stats_.attempts;
  urnic_rud_send command = CommandOf(index);
  command.peer = kGroupPeer;
  command.context = index;
  command.remote_pvo = TransferOf(slots_[index]).offset;
  Post(command);
}

void RudGroupRun::PostTo(const Member& member, uint32_t index,
                         uint64_t packets) {
  ++stats_.attempts;
  ++stats_.repairs;
  urnic_rud_send command = CommandOf(index);
  command.peer = command.window = member.rnic->config().window.number;
  command.context = member.contexts[index].value();
  command.remote_pvo = member.own.value + OffsetOf(index);
  command.packets = packets;
  Post(command);
}

void RudGroupRun::Ask(const Member& member, uint32_t index) {
  ++stats_.attempts;
  urnic_rud_send command = CommandOf(index);
  command.opcode = URNIC_RUD_ASK_STATE;
  command.notify = 0;
  command.peer = command.window = member.rnic->config().window.number;
  command.context = member.contexts[index].value();
  // The transfer may already have ended by the answer to an earlier command.
  Post(command, TransferOf(slots_[index]).is_single);
}

// Posts a write that all members drop.
void RudGroupRun::PostForNobody() {
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_WRITE;
  command.notify = URNIC_RUD_NOTIFY_SOURCE;
  command.peer = kGroupPeer;
  command.context = kSlots + random_.Below(2 * kSlots);
  command.local_context = spare_.value();
  command.tid = ++transfer_ * kAttempts;
  command.local_pvo = source_pvo_.value;
  command.remote_pvo = random_.Below(kGroupBytes - 16);
  command.bytes = command.stride = 16;
  command.packets = 1;
  Post(command);
}

void RudGroupRun::PostPacket() {
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_PACKET;
  command.flags = URNIC_RUD_INLINE_DATA;
  command.peer = kGroupPeer;
  std::memcpy(command.tag, &epoch_, sizeof(epoch_));
  Post(command);
}

void RudGroupRun::Post(const urnic_rud_send& command, bool may_be_over) {
  if (!source_.rnic->CanPost()) PumpSource();
  posted_.push_back({source_.rnic->Post(command), may_be_over});
  world_.After(Duration(), [this] { PumpSource(); });
}

void RudGroupRun::CheckStatuses() {
  while (!posted_.empty()) {
    const Posted& posted = posted_.front();
    const uint32_t status = source_.rnic->StatusOf(posted.entry);
    if (status == URNIC_RUD_WAITS) return;
    Require(status == URNIC_RUD_SENT ||
                (posted.may_be_over && status == URNIC_RUD_BAD_CONTEXT),
            "a command is refused");
    posted_.pop_front();
  }
}

void RudGroupRun::Arm(uint32_t index) {
  Slot& slot = slots_[index];
  const uint64_t timer = slot.timer = ++timers_;
  const uint64_t backoff = std::min<uint64_t>(++slot.rounds, 6);
  world_.After(Duration::Microseconds(150 + random_.Below(300) * backoff),
               [this, index, timer] { OnTimeOut(index, timer); });
}

void RudGroupRun::OnTimeOut(uint32_t index, uint64_t timer) {
  Slot& slot = slots_[index];
  if (slot.timer != timer) return;
  const Transfer& transfer = TransferOf(slot);
  if (slot.tid % kAttempts >= most_attempts_) {
    Require(transfer.began_faulty,
            "a transfer does not complete on a network without faults");
    ++stats_.given_up;
    return Restart(1u << index);
  }
  Arm(index);
  if (!transfer.is_single && random_.OneIn(4)) {
    ++slot.tid;
    return PostToGroup(index);
  }
  for (const Member& member : members_) {
    if ((slot.missing & member.bit) == 0) continue;
    ++slot.tid;
    // A transfer of one packet is retransmitted at once.
    if (!IsBeyond(member, transfer) && AllOf(transfer) == 1) {
      PostTo(member, index, 1);
    } else {
      Ask(member, index);
    }
  }
}

void RudGroupRun::OnSourceEntry(const urnic_rud_receive& entry) {
  for (uint32_t i = 0; i < kSlots; ++i) {
    Slot& slot = slots_[i];
    if (slot.context.value() != entry.context ||
        rud::TransferOf(slot.tid) != rud::TransferOf(entry.tid)) {
      continue;
    }
    Require(entry.peer >= kFirstMember &&
                entry.peer < kFirstMember + members_.size(),
            "an answer of nobody");
    Member& member = members_[entry.peer - kFirstMember];
    Require((TransferOf(slot).members & member.bit) != 0,
            "an answer of somebody who was not asked");
    Require(!slot.is_cancelled, "an answer after a cancel");
    switch (entry.type) {
      case URNIC_RUD_GOT_COMPLETION:
        return OnCompletion(member, i);
      case URNIC_RUD_GOT_STATE:
        return OnState(member, i, entry);
      case URNIC_RUD_GOT_REFUSAL:
        OnRefused(member, rud::TransferOf(slot.tid));
        if ((slot.missing & member.bit) == 0) return;
        ++stats_.refused;
        slot.missing &= ~member.bit;
        if (slot.missing == 0) Finish(i);
        return;
      default:
        Violate("an entry of a type that nobody has sent");
    }
  }
}

void RudGroupRun::OnCompletion(Member& member, uint32_t index) {
  Slot& slot = slots_[index];
  OnTold(member, rud::TransferOf(slot.tid));
  const bool again = std::exchange(slot.was_told, true);
  Require(!again || !TransferOf(slot).is_single || slot.tid % kAttempts != 0,
          "the source is told twice");
  // The completion may come twice.
  if ((slot.missing & member.bit) == 0) return;
  ++stats_.completions;
  slot.missing &= ~member.bit;
  if (slot.missing == 0) Finish(index);
}

void RudGroupRun::OnState(Member& member, uint32_t index,
                          const urnic_rud_receive& entry) {
  Slot& slot = slots_[index];
  uint64_t& fence = member.held[index].fence;
  fence = std::max(fence, entry.tid);
  if ((slot.missing & member.bit) == 0) return;
  const Transfer& transfer = TransferOf(slot);
  const uint64_t lacks = AllOf(transfer) & ~entry.arrived;
  Require((entry.arrived & ~AllOf(transfer)) == 0,
          "a state has packets that are none");
  Require(lacks != 0, "a state says that all is there");
  if (slot.tid % kAttempts == kLastAttempt) return;
  ++slot.tid;
  if (IsBeyond(member, transfer)) return PostToGroup(index);
  PostTo(member, index, lacks);
}

}  // namespace urnic::sim
