#pragma once

// What one queue pair may send, judged only by the packets that it was given
// and those that it sends:
//
//   - an acknowledgement covers no read or atomic that is still unanswered;
//   - no more reads and atomics outstanding than max_rd_atomic;
//   - requests are new ones in PSN order, or repeat what was sent before;
//   - no packet beyond the path MTU; end-to-end credits are 31, MigReq is 1;
//   - a congestion notification answers a mark, but not every mark gets one.

#include <deque>
#include <optional>

#include "tests/sim/world.h"
#include "transport/wire/roce_packet.h"
#include "transport/work/types.h"

namespace urnic::sim {

class WireRules {
 public:
  explicit WireRules(const QpConfig& config)
      : config_(config), next_new_(config.sq_psn) {}

  // A packet was handed to the queue pair, with this verdict.
  void OnReceived(const wire::RocePacket& packet, RxVerdict verdict) {
    const Psn psn = packet.psn();
    switch (packet.info->kind) {
      case wire::PacketKind::kReadRequest:
      case wire::PacketKind::kAtomic:
      case wire::PacketKind::kAtomicWrite:
      case wire::PacketKind::kFlush:
        if (verdict == RxVerdict::kAccept) {
          owed_.push_back({psn, psn + ResponsePackets(packet)});
        }
        return;
      case wire::PacketKind::kReadResponse:
      case wire::PacketKind::kAtomicAck:
        if (verdict == RxVerdict::kAccept && !asked_.empty()) {
          Answer(asked_, psn);
        }
        return;
      default:
        return;
    }
  }

  // A request came with "congestion experienced".
  void OnMarked(Time now) {
    if (!marked_once_) first_mark_ = now;
    marked_ = marked_once_ = true;
  }

  void OnSent(const wire::RocePacket& packet, Time now) {
    if (packet.info->kind == wire::PacketKind::kCnp) {
      return OnNotification(packet, now);
    }
    Require(packet.payload_bytes <= config_.mtu, "a packet beyond the MTU");
    Require(packet.bth->mig_req(), "MigReq is not 1");
    if (packet.info->request()) {
      OnRequest(packet);
      return;
    }
    const uint8_t syndrome =
        packet.info->has_aeth ? packet.aeth().syndrome() : 0x1f;
    Require((syndrome & wire::kAethTypeMask) != 0 ||
                syndrome == wire::kAethCreditsInvalid,
            "credits are not 31");
    if (packet.info->kind == wire::PacketKind::kAck) {
      const bool nak = (syndrome & wire::kAethTypeMask) != 0;
      const Psn end = nak ? packet.psn() : packet.psn().Next();
      Require(owed_.empty() || end - owed_.front().next <= 0,
              "an acknowledgement overtakes a response");
      return;
    }
    if (!owed_.empty()) Answer(owed_, packet.psn());
  }

 private:
  void OnNotification(const wire::RocePacket& packet, Time now) {
    Require(marked_, "a notification without a mark");
    // Notifications may wait for room, and then follow each other closely.
    ++notified_;
    Require(first_mark_ + kNotificationsApart * (notified_ - 1) <= now,
            "more notifications than one in 50 us");
    Require(packet.bth->becn() && !packet.bth->mig_req() &&
                packet.psn() == Psn() &&
                packet.bth->dest_qp().value == config_.dest_qpn,
            "a malformed notification");
    marked_ = false;
  }

  static constexpr Duration kNotificationsApart = Duration::Microseconds(50);

  // PSNs of responses: the next one that is missing, and the end.
  struct Range {
    Psn next;
    Psn end;
  };

  int32_t ResponsePackets(const wire::RocePacket& packet) const {
    if (packet.info->kind != wire::PacketKind::kReadRequest) return 1;
    const uint64_t bytes = packet.reth().dma_length.value();
    return std::max<int32_t>(
        1, static_cast<int32_t>((bytes + config_.mtu - 1) / config_.mtu));
  }

  void Answer(std::deque<Range>& ranges, Psn psn) {
    if (psn != ranges.front().next) return;  // a repetition
    ranges.front().next = psn.Next();
    if (ranges.front().next == ranges.front().end) ranges.pop_front();
  }

  void OnRequest(const wire::RocePacket& packet) {
    const Psn psn = packet.psn();
    Require(psn - next_new_ <= 0, "a request skips PSNs");
    if (psn != next_new_) return;
    const wire::PacketKind kind = packet.info->kind;
    const bool fetches = kind == wire::PacketKind::kReadRequest ||
                         kind == wire::PacketKind::kAtomic ||
                         kind == wire::PacketKind::kAtomicWrite ||
                         kind == wire::PacketKind::kFlush;
    next_new_ = psn + (fetches ? ResponsePackets(packet) : 1);
    if (!fetches) return;
    asked_.push_back({psn, next_new_});
    Require(asked_.size() <= config_.max_rd_atomic,
            "more reads and atomics than max_rd_atomic");
  }

  QpConfig config_;
  Psn next_new_;
  std::deque<Range> owed_;   // by the responder
  std::deque<Range> asked_;  // by the requester
  bool marked_ = false;      // since the last notification
  bool marked_once_ = false;
  Time first_mark_;
  int64_t notified_ = 0;
};

}  // namespace urnic::sim
