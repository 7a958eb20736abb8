#pragma once

// Selective repair at the requester: keeps the list of gaps, decides when they
// are resent (Repeater resends them), and learns how far the path reorders. The
// rules are in docs/design/0012-roce-on-lossy-networks.md.

#include <algorithm>
#include <bit>

#include "transport/base/mutation.h"
#include "transport/rc/send_state.h"

namespace urnic::rc {

// Has no state of its own: one is made for each call.
class Repairer {
 public:
  explicit Repairer(SendState& state) : s_(state) {}

  // The peer reports which packets it holds. False: it holds none, or selective
  // repair is not possible.
  [[gnu::cold, gnu::noinline]] bool OnMissing(const RxPacket& packet, Psn first,
                                              Time now) {
    const uint32_t missing = packet.bth->repair();
    MUTATION_SKIPS(sends_more_than_the_peer_can_hold)
    if (missing == 0) s_.path->OnNotHeld();
    if (missing == 0 || s_.tx_psn - first <= 0 || s_.Recover() == nullptr) {
      return false;
    }
    GapReport report{
        .first = first,
        .end = first + static_cast<int32_t>(missing),
        .held = {packet.payload, std::min(packet.payload_bytes, kBitmapMax)}};
    uint32_t held = 0;
    for (uint32_t i = 0; i != report.held.size(); ++i) {
      const uint8_t bits = report.held[i];
      if (bits == 0) continue;
      held += static_cast<uint32_t>(std::popcount(bits));
      report.end = first + static_cast<int32_t>(8 * i + 1) +
                   static_cast<int32_t>(std::bit_width(bits));
    }
    s_.path->OnHeld(held);
    OnReport(report, now);
    return true;
  }

  // Responses before `end` are missing, except those that are held. `packet` is
  // also held from now on, if it is a response. False: selective repair is not
  // possible.
  [[gnu::cold, gnu::noinline]] bool OnLostResponse(const RxPacket& packet,
                                                   Psn end, Time now,
                                                   RxVerdict& verdict) {
    if (static_cast<uint32_t>(end - s_.una_psn) >= kHoldSpan ||
        s_.Recover() == nullptr) {
      return false;
    }
    HeldPackets& held = s_.recovery->responses;
    if (packet.info->kind != wire::PacketKind::kAck) {
      verdict = VerdictOf(held.Insert(s_.una_psn, packet, 1),
                          RxVerdict::kLostResponse);
    }
    // Only responses are missing, so nothing after the last unanswered read.
    Psn last = s_.una_psn;
    for (uint32_t i = s_.una; i != s_.assigned; ++i) {
      const SendRecord& record = s_.RecordOf(i);
      if (end - record.first_psn <= 0) break;
      if (!Contains(kAnsweredRequests, record.opcode)) continue;
      last = record.first_psn + static_cast<int32_t>(record.packets);
    }
    if (end - last > 0) end = last;
    uint8_t bitmap[kBitmapMax];
    GapReport report{.first = s_.una_psn, .end = end, .responses = true};
    if (!held.empty()) {
      report.held = {bitmap, held.WriteBitmap(s_.una_psn, bitmap)};
    }
    OnReport(report, now);
    return true;
  }

  // The peer, or a response, shows which packets are missing. REQUIRES:
  // s_.Recover() was successful.
  [[gnu::cold, gnu::noinline]] void OnReport(const GapReport& report,
                                             Time now) {
    Recovery& recovery = *s_.recovery;
    s_.silent = false;
    Learn(recovery.gaps.OnReport(report, s_.tx_psn, now, LostAgainAfter(),
                                 s_.path->cc.Shortest()),
          now);
    UpdateGaps(now);
  }
  [[gnu::cold, gnu::noinline]] void OnAcked(Time now) {
    Recovery& recovery = *s_.recovery;
    Learn(recovery.gaps.OnAcked(s_.una_psn, now, s_.path->cc.Shortest()), now);
    recovery.responses.DropBefore(s_.una_psn);
    UpdateGaps(now);
    s_.ReturnRecovery();
  }

  // No missing packet has arrived in time: the last repair or its answer was
  // lost, or the peer has dropped the packets that it held. False: the queue
  // pair goes back.
  bool TryAgain(Time now) {
    Recovery& recovery = *s_.recovery;
    if (recovery.tried_again || recovery.gaps.empty()) return false;
    recovery.tried_again = true;
    recovery.repair_until = s_.RepairUntil(now);
    recovery.gaps.MakeFirstDue();
    UpdateGaps(now);
    return true;
  }

  // Gaps may have become due, or the time of the first one has changed.
  void UpdateGaps(Time now) {
    Recovery& recovery = *s_.recovery;
    const Time next = recovery.gaps.MakeDue(
        now, Duration::Nanoseconds(s_.path->reordering_ns));
    s_.not_under_way = recovery.gaps.NotUnderWay(s_.una_psn);
    const uint32_t lost = recovery.gaps.TakeLost();
    // If there are only a few, the reports of one round trip cover all of them.
    const bool many = s_.tx_psn - s_.una_psn > int32_t{Gaps::kMax};
    MUTATION_SKIPS(keeps_losses_to_itself)
    if (lost != 0 && s_.path->cc.OnLoss(now, lost) && many)
      recovery.gaps.Forgive(s_.tx_psn);
    if (!recovery.gaps.empty()) {
      s_.act_at = std::min(next, recovery.repair_until);
    }
  }

 private:
  // A resent packet that is still missing after this time is lost again.
  Duration LostAgainAfter() const {
    const int64_t quarter = s_.path->round_trip.smoothed().ns() / 4;
    return s_.path->round_trip.longest() + Duration::Nanoseconds(quarter) +
           SendState::kSlack;
  }
  // A gap that closes by itself shows how far the path reorders. A gap that was
  // filled by a resent packet was a loss, and its waiting time was needless.
  void Learn(const ClosedGaps& closed, Time now) {
    const int64_t most =
        std::min<int64_t>(s_.path->round_trip.longest().ns() * 2, UINT32_MAX);
    int64_t wait = s_.path->reordering_ns;
    if (closed.reordered.ns() != 0) {
      wait = std::max(wait, closed.reordered.ns() * 5 / 4 + 1);
    } else if (closed.needless) {
      // The packet was late by the waiting time plus the repair time.
      wait = (wait + closed.repair_time.ns()) * 5 / 4 + 1;
      s_.path->cc.OnUndo();
    } else if (closed.repaired) {
      wait -= (wait + 7) / 8;
    }
    MUTATION_SKIPS(waits_for_no_reordering)
    s_.path->reordering_ns = static_cast<uint32_t>(std::min(wait, most));
    // If nearly every flight has a loss, this is the only measurement.
    if (closed.repair_time.ns() != 0 && !closed.needless) {
      s_.path->cc.OnRoundTrip(
          now, std::max(closed.repair_time, s_.path->cc.Shortest()));
      s_.path->OnRoundTrip(now, closed.repair_time);
    }
    if (closed.repaired || closed.reordered.ns() != 0) {
      s_.recovery->repair_until = s_.RepairUntil(now);
      s_.recovery->tried_again = false;
    }
  }

  SendState& s_;
};

}  // namespace urnic::rc
