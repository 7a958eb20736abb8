#pragma once

// Simulates a RUD window that writes to a group of three to five others, on
// networks as in rud_run.h. A slot does one transfer after another. The source
// writes it once to all, asks those that have not answered after a time-out,
// and retransmits to each what it has missed. When the attempts are used up,
// another transfer takes the place of this one. Some transfers are for one
// member, some reach beyond the group's memory, and some packets are for a
// context that nobody has. Members leave, return, and take other contexts; now
// and then the group's key changes. One member may have less memory than the
// others, or lose some. The rules:
//
//   - a byte is placed only in the group's memory, only for a transfer to this
//     member, only at its place, only once, and with the right value;
//   - nothing is placed of a transfer if the member has begun a newer one, if
//     source or member were told that it is complete or that access to memory
//     was refused, or of an attempt older than one whose state was reported;
//   - if a completion is reported, all bytes are in that member's memory; the
//     member is told once, and so is the source of a transfer to one member;
//   - the source accepts every member's answer until it begins another
//     transfer, in any order, and reports the attempt that was answered;
//   - packets from before a change of the key, or for an earlier owner of a
//     context, change nothing and arrive in no FIFO;
//   - no window fails, and no command is refused;
//   - when the network works again, all transfers end at all members.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/sim/link.h"
#include "tests/sim/rud_inbox.h"
#include "tests/sim/world.h"
#include "tests/support/rud_end.h"

namespace urnic::sim {

struct RudGroupStats {
  uint64_t transfers = 0;  // that have ended at all members
  uint64_t completions = 0;
  uint64_t attempts = 0;
  uint64_t repairs = 0;  // attempts for one member
  uint64_t refused = 0;
  uint64_t given_up = 0;  // restarts because attempts were used up
  uint64_t restarts = 0;  // transfers that were begun again
  uint64_t rejoins = 0;
  uint64_t keys = 0;     // changes of the group's key
  uint64_t packets = 0;  // of FIFO mode
  std::array<uint64_t, kRxVerdictCount> verdicts = {};
};

class RudGroupRun {
 public:
  explicit RudGroupRun(uint64_t seed);
  RudGroupStats Run();

 private:
  static constexpr uint32_t kJob = 3;
  static constexpr uint32_t kSource = 1;  // the number of its window
  static constexpr uint32_t kFirstMember = 2;
  static constexpr uint32_t kGroupPeer = 99;
  static constexpr uint32_t kMostMembers = 5;
  static constexpr uint32_t kSlots = 4;
  static constexpr uint32_t kRegionBytes = 2048;
  static constexpr uint32_t kGroupBytes = kSlots * kRegionBytes;
  static constexpr uint32_t kGuardBytes = 4096;  // before and behind
  static constexpr uint32_t kUnitPackets = 16;
  static constexpr uint64_t kAttempts = 1 << 8;  // of a transfer
  static constexpr uint64_t kLastAttempt = kAttempts - 1;
  static constexpr uint64_t kManyAttempts = 200;

  struct End {
    std::unique_ptr<testing::RudEnd> rnic;
    std::vector<uint8_t> memory;
    bool small_fifo = false;
    std::optional<RudInbox> inbox;
  };
  // What a member has received in a slot, according to the oracle.
  struct Held {
    uint64_t transfer = 0;  // the newest one
    uint64_t fence = 0;     // nothing with a smaller tid may be placed
    uint64_t placed = 0;    // packets, a bit for each
    bool is_settled = false;
    bool was_told = false;
  };
  struct Member : End {
    uint32_t bit = 0;    // in sets of members
    uint64_t bytes = 0;  // of the group's memory here
    rud::Pvo own;        // of that memory
    rud::Pvo wide;       // with the guards before and behind it
    bool loses_memory = false;
    uint64_t epoch = 0;  // of its key
    std::array<rud::ContextId, kSlots> contexts;
    std::array<Held, kSlots> held;
    std::optional<Link> down;
    std::optional<Link> up;
  };
  struct Transfer {
    uint32_t slot = 0;
    uint32_t members = 0;  // a bit for each
    bool is_single = false;
    bool is_outside = false;  // of the group's memory
    bool began_faulty = false;
    uint64_t offset = 0;
    uint32_t bytes = 0;
    uint16_t stride = 0;
    uint8_t notify = 0;
    std::vector<uint8_t> data;
  };
  struct Slot {
    bool is_active = false;
    bool is_cancelled = false;
    bool was_told = false;
    rud::ContextId context;  // of the source
    uint64_t tid = 0;
    uint32_t missing = 0;  // members that have not answered
    uint32_t rounds = 0;
    uint64_t timer = 0;  // of the last round
  };
  struct Posted {
    uint32_t entry = 0;
    bool may_be_over = false;
  };

  static wire::Gid AddressOf(uint32_t number) {
    return wire::Gid::FromIpv4(0x0a000000 + number);
  }
  static wire::Gid GroupAddress() { return wire::Gid::FromIpv4(0xef010203); }
  static uint32_t OffsetOf(uint32_t slot) { return slot * kRegionBytes; }
  static uint64_t AllOf(const Transfer& transfer) {
    return wire::RudAllPackets(
        wire::RudPackets(transfer.bytes, transfer.stride));
  }
  // The member does not have all of the transfer's memory. Such a transfer is
  // only written to the group: a PVO behind a registration may belong to
  // another one, or make the window fail.
  static bool IsBeyond(const Member& member, const Transfer& transfer) {
    return transfer.is_outside ||
           transfer.offset + transfer.bytes > member.bytes;
  }
  void Boot(End& end, uint32_t number);
  void BootMember(uint32_t index);
  rud::Pvo Register(End& end, uint64_t offset, uint64_t bytes);

  // The program of the source.
  void Begin(uint32_t slot);
  void Start(uint32_t slot);
  // Begins other transfers in some slots, a bit for each, instead of the
  // current ones.
  void Restart(uint32_t slots);
  void Finish(uint32_t slot);
  Transfer& TransferOf(const Slot& slot) {
    return transfers_.at(rud::TransferOf(slot.tid));
  }
  urnic_rud_send CommandOf(uint32_t slot);
  void PostToGroup(uint32_t slot);
  void PostTo(const Member& member, uint32_t slot, uint64_t packets);
  void Ask(const Member& member, uint32_t slot);
  void PostForNobody();
  void PostPacket();
  void Post(const urnic_rud_send& command, bool may_be_over = false);
  void CheckStatuses();
  void Arm(uint32_t slot);
  void OnTimeOut(uint32_t slot, uint64_t timer);
  void OnSourceEntry(const urnic_rud_receive& entry);
  void OnCompletion(Member& member, uint32_t slot);
  void OnState(Member& member, uint32_t slot, const urnic_rud_receive& entry);

  // The programs of the members.
  void Join(Member& member);
  // Returns the slots in which the member has lost what it had received, a bit
  // for each.
  uint32_t TakeContexts(Member& member, bool key_is_new);
  void Disturb();
  void DisturbMember(Member& member);
  void ChangeKey();
  void OnMemberEntry(Member& member, const urnic_rud_receive& entry);

  // What happens.
  void PumpSource();
  void PumpMember(Member& member);
  void AtSource(const std::vector<RudInbox::Packet>& burst);
  void AtMember(Member& member, const std::vector<RudInbox::Packet>& burst);
  void Count(const std::vector<RxVerdict>& verdicts);
  void PollSource();
  void PollMember(Member& member);
  // Polls now, or later so that the FIFO gets full.
  template <typename Poll>
  void PollSoon(const End& end, Poll poll);
  void Replay(End& end);

  // The rules.
  Held& HeldOf(Member& member, const Transfer& transfer, uint64_t number);
  void CheckStale(const RudInbox::Packet& bytes);
  void OnPlaced(Member& member, const Placement& placement,
                const rud::RxPacket& packet);
  void OnTold(Member& member, uint64_t number);
  void OnRefused(Member& member, uint64_t number);

  World world_;
  Random random_;
  End source_;
  rud::Pvo source_pvo_;
  rud::ContextId spare_;  // of the source
  std::array<Member, kMostMembers> all_members_;
  std::span<Member> members_;  // those in use
  std::array<Slot, kSlots> slots_;
  std::map<uint64_t, Transfer> transfers_;  // by their numbers
  std::deque<Posted> posted_;
  RudGroupStats stats_;
  uint32_t group_key_ = 0x6e0;
  uint64_t epoch_ = 0;  // of the key
  uint64_t transfer_ = 0;
  uint64_t timers_ = 0;
  uint32_t left_ = 0;  // transfers to begin
  uint64_t most_attempts_ = kManyAttempts;
  bool faulty_ = true;
};

}  // namespace urnic::sim
