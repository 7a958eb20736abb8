#pragma once

// The order in which one queue pair's completions appear, whether they go to
// one queue or to two, judged by the packets that it was given:
//
//   - successes appear in the order of the packets that caused them, so a
//     program never sees an answer before the completion of the request that
//     was acknowledged before it;
//   - after a fatal NAK no request is accepted, after an error of the send
//     queue no receive succeeds.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <vector>

#include "tests/sim/completion.h"
#include "tests/sim/world.h"
#include "transport/wire/roce_packet.h"

namespace urnic::sim {

class OrderRule {
 public:
  struct Posted {
    uint64_t id = 0;
    bool signaled = false;
    bool answered = false;  // by responses of its own, not by an ACK
    Psn end = {};           // after its last packet
  };

  // `first`: the first PSN of the send queue.
  explicit OrderRule(Psn first = {}) : acked_(first) {}

  void OnPosted(const Posted& request) { pending_.push_back(request); }
  // Completes without a packet.
  void OnPostedLocal(uint64_t id) { local_.insert(id); }

  // A burst was given to the queue pair, with these verdicts, and then `done`
  // was written in this order.
  void OnBurst(std::span<const wire::RocePacket> packets,
               std::span<const RxVerdict> verdicts,
               std::span<const Completion> done) {
    due_.clear();
    for (size_t i = 0; i < packets.size(); ++i) {
      if (packets[i].info->request()) {
        OnRequest(packets[i], verdicts[i]);
      } else {
        OnResponse(packets[i], verdicts[i]);
      }
    }
    auto next = due_.begin();
    for (const Completion& one : done) {
      if (one.status != URNIC_WC_SUCCESS) {
        failed_ |= !one.recv;
        continue;
      }
      Require(!one.recv || !failed_,
              "a receive succeeds behind an error of the send queue");
      if (!one.recv && local_.erase(one.wr_id) != 0) continue;
      // One that a fault in memory has turned into an error is skipped.
      next = std::find(next, due_.end(), one.recv ? kReceive : one.wr_id);
      Require(next != due_.end(),
              "completions are not in the order of their packets");
      ++next;
    }
  }

 private:
  static constexpr uint64_t kReceive = 0;  // requests count from 1

  void OnRequest(const wire::RocePacket& packet, RxVerdict verdict) {
    if (verdict != RxVerdict::kAccept) return;
    Require(!ended_, "a request is taken behind a fatal NAK");
    const bool takes_receive =
        packet.info->kind == wire::PacketKind::kSend || packet.info->has_imm;
    if (packet.info->last && takes_receive) due_.push_back(kReceive);
  }

  void OnResponse(const wire::RocePacket& packet, RxVerdict verdict) {
    if (verdict == RxVerdict::kQpNotReady || verdict == RxVerdict::kUnsentAck ||
        verdict == RxVerdict::kBadSyndrome || verdict == RxVerdict::kCnp ||
        verdict == RxVerdict::kCnpIgnored) {
      return;
    }
    const Psn psn = packet.psn();
    const bool data = packet.info->kind != wire::PacketKind::kAck;
    const uint8_t syndrome = data ? uint8_t{0} : packet.aeth().syndrome();
    const uint8_t type = syndrome & wire::kAethTypeMask;
    const Psn limit = !data && type == wire::kAethAck ? psn.Next() : psn;
    if (limit - acked_ > 0) acked_ = limit;
    CompleteAcked();
    if (data && verdict == RxVerdict::kAccept && !pending_.empty() &&
        pending_.front().end == psn.Next()) {
      CompleteOldest();
      CompleteAcked();
    }
    ended_ |= type == wire::kAethNak && verdict == RxVerdict::kNakReceived &&
              syndrome != wire::kNakPsnSequenceError;
  }

  // Behind a request that still waits for its responses, nothing is complete.
  void CompleteAcked() {
    while (!pending_.empty() && !pending_.front().answered &&
           acked_ - pending_.front().end >= 0) {
      CompleteOldest();
    }
  }

  void CompleteOldest() {
    if (pending_.front().signaled) due_.push_back(pending_.front().id);
    pending_.pop_front();
  }

  std::deque<Posted> pending_;
  Psn acked_;  // everything before
  std::set<uint64_t> local_;
  std::vector<uint64_t> due_;  // what this burst completes, in order
  bool ended_ = false;
  bool failed_ = false;
};

}  // namespace urnic::sim
