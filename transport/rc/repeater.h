#pragma once

// Resends packets out of turn: gaps that are due, and probes. The transmit
// position does not change.

#include <algorithm>
#include <span>

#include "transport/base/mutation.h"
#include "transport/rc/packet_writer.h"
#include "transport/rc/send_state.h"

namespace urnic::rc {

// Has no state of its own: one is made for each call.
class Repeater {
 public:
  explicit Repeater(SendState& state) : s_(state) {}

  bool AnyGapDue() const {
    return s_.recovery != nullptr && s_.recovery->gaps.any_due();
  }
  // Whether there is anything to do.
  bool HasWork() const { return AnyGapDue() || s_.probe == Probe::kDue; }
  // Whether it can be done now, if `limit` packets may be in flight. The oldest
  // gap need not wait for room, because nothing else may open the window.
  bool MayGo(uint32_t limit) const {
    return s_.probe == Probe::kDue ||
           (AnyGapDue() &&
            (s_.InFlight() < limit ||
             MUTATION(the_oldest_gap_waits_for_room,
                      s_.recovery->gaps.FirstDue().begin == s_.una_psn,
                      false)));
  }

  // Sends a probe, and the gaps that are due, as long as there is room: resent
  // packets are in flight again, and at most `limit` packets may be. Returns
  // how many were sent.
  [[gnu::cold, gnu::noinline]] uint32_t Repeat(Time now, uint32_t limit,
                                               std::span<TxSlot> slots) {
    const Position position = SavePosition();
    uint32_t count = 0;
    if (s_.probe == Probe::kDue && !slots.empty()) {
      s_.probe = Probe::kSent;
      s_.probe_end = position.tx_psn;
      Seek(s_.una_psn);
      count = RepeatUpTo(s_.una_psn.Next(), slots);
      if (count == 0) return 0;  // the request has failed
    }
    // The transmit position is now that of the resent packet.
    uint32_t in_flight = position.in_flight;
    if (MayGo(limit)) limit = std::max(limit, in_flight + 1);
    MUTATION_ADDS(repeats_without_room, limit = in_flight + 4096;)
    while (AnyGapDue() && count != slots.size() && in_flight < limit) {
      Recovery& recovery = *s_.recovery;
      const Gap& gap = recovery.gaps.FirstDue();
      if (!MayRepeat(gap)) {
        recovery.gaps.PostponeFirstDue(now);
        continue;
      }
      Seek(gap.begin);
      const Psn end = std::min(
          gap.end(), gap.begin + static_cast<int32_t>(limit - in_flight),
          [](Psn a, Psn b) { return b - a > 0; });
      const uint32_t repeated = RepeatUpTo(end, slots.subspan(count));
      if (repeated == 0) return count;
      count += repeated;
      in_flight += static_cast<uint32_t>(s_.tx_psn - gap.begin);
      recovery.gaps.OnResent(s_.tx_psn, position.tx_psn, now);
      s_.not_under_way = recovery.gaps.NotUnderWay(s_.una_psn);
      GiveTimeToRepair(now);
    }
    s_.timer.count = 0;  // Karn's rule
    RestorePosition(position);
    return count;
  }

 private:
  // Resends the packets from the transmit position up to `end`, and requests an
  // acknowledgement of the last. 0: a request has failed, which changes all
  // positions.
  uint32_t RepeatUpTo(Psn end, std::span<TxSlot> slots) {
    uint32_t count = 0;
    while (count != slots.size() && end - s_.tx_psn > 0) {
      MUTATION_SKIPS(repeats_local_requests)
      if (s_.RecordOf(s_.next).executed()) {
        ++s_.next;
        continue;
      }
      if (!s_.current_index_valid && !writer().Reload()) return 0;
      TxSlot& slot = slots[count];
      const auto wanted = static_cast<uint32_t>(end - s_.tx_psn);
      if (!writer().Compose(slot, MayAskForPart() ? wanted : UINT32_MAX))
        return 0;
      MUTATION_SKIPS(marks_no_repair)
      reinterpret_cast<wire::Bth*>(slot.headers)->SetRepair(1);
      ++count;
    }
    URNIC_CHECK(count != 0);
    s_.counters.requests_sent += count;
    s_.counters.requests_resent += count;
    auto* last = reinterpret_cast<wire::Bth*>(slots[count - 1].headers);
    last->ack_psn = wire::Bth::MakeAckPsn(true, last->psn());
    return count;
  }

  // Some responders (Linux rxe) answer a repeated read request only if it does
  // not begin before the last repeated one. From such a peer, only the oldest
  // missing response and all responses after it in the request are requested.
  bool MayRepeat(const Gap& gap) const {
    return s_.peer_repeats_parts || gap.begin == s_.una_psn ||
           s_.RecordOf(IndexOf(gap.begin)).opcode != URNIC_WR_RDMA_READ;
  }

  // Whether only the missing responses of the read at the transmit position can
  // be requested. Some responders always answer to the end of the read. And the
  // peer must have executed the read: otherwise it would take the repeated
  // request for a new, shorter read.
  bool MayAskForPart() const {
    if (!s_.peer_repeats_parts || s_.recovery == nullptr) return false;
    const bool answered =
        s_.next_offset / s_.config.mtu % s_.RecordOf(s_.next).part() != 0;
    const HeldPackets& held = s_.recovery->responses;
    return MUTATION(asks_for_a_part_of_a_read_that_was_not_executed,
                    answered || (!held.empty() && held.end() - s_.tx_psn > 0),
                    true);
  }

  void GiveTimeToRepair(Time now) {
    s_.recovery->repair_until = s_.RepairUntil(now);
    s_.act_at = std::min(s_.act_at, s_.recovery->repair_until);
  }

  struct Position {
    uint32_t next;
    uint32_t next_offset;
    Psn tx_psn;
    uint32_t in_flight;
  };
  Position SavePosition() const {
    return {s_.next, s_.next_offset, s_.tx_psn, s_.InFlight()};
  }
  void RestorePosition(const Position& position) {
    s_.next = position.next;
    s_.next_offset = position.next_offset;
    MUTATION_SKIPS(repair_moves_the_transmit_position)
    s_.tx_psn = position.tx_psn;
    s_.current_index_valid = false;
  }
  // Moves the transmit position to an unacknowledged packet that was sent.
  void Seek(Psn psn) {
    const uint32_t index = IndexOf(psn);
    s_.next = index;
    s_.next_offset =
        MUTATION(repeats_from_the_wrong_packet,
                 static_cast<uint32_t>(psn - s_.RecordOf(index).first_psn),
                 0u) *
        s_.config.mtu;
    s_.tx_psn = psn;
    s_.current_index_valid = false;
  }
  // The index of the request to which an unacknowledged packet belongs.
  uint32_t IndexOf(Psn psn) const {
    uint32_t index = s_.una;
    while (psn - (s_.RecordOf(index).first_psn +
                  static_cast<int32_t>(s_.RecordOf(index).packets)) >=
           0) {
      ++index;
      URNIC_CHECK(index != s_.assigned);
    }
    return index;
  }

  PacketWriter writer() { return PacketWriter(s_); }

  SendState& s_;
};

}  // namespace urnic::rc
