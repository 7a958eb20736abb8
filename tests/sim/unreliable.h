#pragma once

// A run of a service without acknowledgements, UC or UD: one sender, a faulty
// link, one receiver, and an oracle that knows all messages. The rules:
//
//   - what the program receives is one message, whole and exact, never parts
//     of two. It lies where its receive says, and the guards are intact;
//   - a message is received at most as often as all of its packets have arrived
//     unharmed; on a link without faults, with room for it: once, in order;
//   - a message that is too long for its receive, or has a wrong Q_Key, is not
//     received, and its receive serves another;
//   - in every second run the queue pairs move from core to core as images, in
//     the middle of messages, and all of this holds;
//   - sends complete once each, in order, without an error; receives complete
//     in the order in which they were posted, and the rest is flushed.

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "tests/sim/link.h"
#include "tests/sim/world.h"
#include "tests/support/endpoint.h"
#include "tests/support/unreliable_end.h"
#include "transport/uc/qp.h"
#include "transport/ud/qp.h"

namespace urnic::sim {

using testing::Packet;

struct UnreliableStats {
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t moves = 0;  // of queue pairs, as images
};

template <typename Qp>
class UnreliableRun {
 public:
  explicit UnreliableRun(uint64_t seed)
      : random_(seed), mover_(seed * 64), moving_(mover_.OneIn(2)) {
    kind_ = static_cast<Kind>(random_.Below(3));
    config_.mtu = 256u << random_.Below(3);
    config_.dest_qpn = kReceiver;
    config_.qkey = kQkey;
    config_.access = mem::kRemoteWrite;
    config_.sq_psn = config_.rq_psn =
        Psn(static_cast<uint32_t>(-random_.Below(200)));
    next_psn_ = config_.sq_psn;
    // The effects of a burst are seen when all of it is placed. A write can be
    // distinguished from the next one to the same place only if it is alone.
    burst_max_ = random_.OneIn(2) ? 1 : 1 + random_.Below(kRunMax);
    from_.emplace(kSender, config_);
    to_.emplace(kReceiver, config_);
    for (uint8_t& byte : to_->host().bytes(0, to_->host().size())) {
      byte = kGuard;
    }
    link_.emplace(world_, random_.Next(), MakeLink(),
                  [this](Packet packet) { OnArrival(std::move(packet)); });
  }

  UnreliableStats Run() {
    world_.After(Duration::Microseconds(1), [this] { Step(); });
    Require(world_.RunUntil(world_.now() + Duration::Seconds(10)),
            "it does not come to rest");
    End();
    return {.sent = messages_.size(), .received = received_, .moves = moves_};
  }

 private:
  static constexpr bool kDatagrams = std::is_same_v<Qp, ud::Qp>;
  static constexpr uint32_t kSender = 0x11;
  static constexpr uint32_t kReceiver = 0x22;
  static constexpr uint32_t kQkey = 0x1234;
  static constexpr uint8_t kGuard = 0xee;
  static constexpr uint32_t kMessages = 80;
  static constexpr uint32_t kHead = kDatagrams ? ud::kGrhBytes : 0;
  // Slots of either side, with a guard after each.
  static constexpr uint32_t kSlots = 4;
  static constexpr uint32_t kSlotBytes = 1900;
  static constexpr uint32_t kSlotStride = 2048;
  static constexpr size_t kWrites = kSlots * kSlotStride;  // where writes go

  enum class Kind : uint8_t { kPerfect, kOdd, kBad };

  struct Message {
    uint32_t bytes = 0;
    uint8_t opcode = 0;
    bool welcome = true;  // its Q_Key is the receiver's
    size_t target = 0;    // of a write
    uint32_t packets = 0;
    uint64_t received = 0;
  };
  struct PacketOf {
    uint32_t message = 0;
    uint64_t copies = 0;  // that arrived unharmed
  };
  struct Receive {
    uint64_t id = 0;
    size_t slot = 0;
    uint32_t bytes = 0;
    bool large = true;
  };

  LinkConfig MakeLink() {
    LinkConfig link;
    link.delay = Duration::Microseconds(5);
    if (kind_ == Kind::kPerfect) return link;
    const auto up_to = [&](uint64_t limit) {
      return static_cast<uint32_t>(random_.Below(limit));
    };
    const uint64_t limit = kind_ == Kind::kOdd ? 20000 : 200000;
    link.loss_ppm = up_to(limit);
    link.duplicate_ppm = up_to(limit);
    link.reorder_ppm = up_to(limit);
    link.corrupt_ppm = up_to(limit);
    link.jitter = Duration::Nanoseconds(up_to(20000));
    return link;
  }
  bool perfect() const { return kind_ == Kind::kPerfect; }

  static uint8_t ByteOf(uint32_t message, uint32_t at) {
    if (at < 4) return static_cast<uint8_t>(message >> (8 * at));
    return static_cast<uint8_t>((message * 2654435761u + at * 40503u) >> 13);
  }

  // --- The programs ---------------------------------------------------------

  void Step() {
    PostReceives();
    if (messages_.size() < kMessages) {
      // On a perfect link no message may be lost because a receive is missing.
      if (!perfect() || receives_.size() == kSlots) PostSome();
      world_.After(
          Duration::Microseconds(static_cast<int64_t>(40 + random_.Below(60))),
          [this] { Step(); });
    }
    TransmitAll();
  }

  void PostReceives() {
    const bool all = perfect() || messages_.size() == kMessages;
    while (receives_.size() < kSlots && (all || random_.OneIn(2))) {
      Receive receive{.id = next_receive_++};
      receive.slot = receive.id % kSlots * kSlotStride;
      receive.large = perfect() || !random_.OneIn(4);
      receive.bytes = receive.large
                          ? kSlotBytes
                          : static_cast<uint32_t>(random_.Below(kSlotBytes));
      std::ranges::fill(to_->host().bytes(receive.slot, kSlotBytes), kGuard);
      testing::RecvWr wr{.wr_id = receive.id};
      const auto cut =
          static_cast<uint32_t>(random_.Below(receive.bytes + uint64_t{1}));
      wr.sges = {to_->Sge(receive.slot, cut),
                 to_->Sge(receive.slot + cut, receive.bytes - cut)};
      Require(to_->rings().PostRecv(wr), "a receive queue that is full");
      receives_.push_back(receive);
    }
  }

  void PostSome() {
    for (uint64_t n = 1 + random_.Below(kSlots - 1); n != 0; --n) {
      if (messages_.size() == kMessages) return;
      PostOne();
    }
  }

  uint32_t PickBytes() {
    const uint32_t most = kDatagrams ? config_.mtu : kSlotBytes;
    switch (random_.Below(4)) {
      case 0:
        return static_cast<uint32_t>(random_.Below(16));
      case 1:
        return std::min(
            most, static_cast<uint32_t>(config_.mtu * (1 + random_.Below(3))));
      default:
        return static_cast<uint32_t>(
            random_.Below(std::min(most, kSlotBytes - kHead) + 1));
    }
  }

  void PostOne() {
    const auto number = static_cast<uint32_t>(messages_.size());
    Message message{.bytes = PickBytes()};
    const bool write = !kDatagrams && burst_max_ == 1 && random_.OneIn(3);
    if (write) {
      message.opcode = URNIC_WR_RDMA_WRITE_WITH_IMM;
      message.target = kWrites + number % kSlots * kSlotStride;
    } else {
      // A short one is identified by its immediate data.
      message.opcode = message.bytes < 4 || random_.OneIn(2)
                           ? URNIC_WR_SEND_WITH_IMM
                           : URNIC_WR_SEND;
    }
    message.welcome = !kDatagrams || perfect() || !random_.OneIn(10);
    message.packets =
        std::max(1u, (message.bytes + config_.mtu - 1) / config_.mtu);
    for (uint32_t i = 0; i < message.packets; ++i) {
      packets_[next_psn_.value()] = {.message = number};
      next_psn_ = next_psn_ + 1;
    }
    const size_t slot = number % kSlots * kSlotStride;
    for (uint32_t i = 0; i < message.bytes; ++i) {
      from_->host().bytes(slot + i, 1)[0] = ByteOf(number, i);
    }
    testing::SendWr wr{.opcode = message.opcode, .wr_id = number};
    wr.imm_or_key = number;
    wr.sges = {from_->Sge(slot, message.bytes / 3),
               from_->Sge(slot + message.bytes / 3,
                          message.bytes - message.bytes / 3)};
    if (kDatagrams) {
      // In the ring's form: number and address handle; Q_Key.
      wr.remote_addr = uint64_t{kReceiver} << 32 | 1;
      wr.rkey = message.welcome ? kQkey : kQkey + 1;
    } else {
      wr.remote_addr = to_->host().address(message.target);
      wr.rkey = to_->key();
    }
    Require(from_->rings().PostSend(wr), "a send queue that is full");
    messages_.push_back(message);
  }

  void TransmitAll() {
    for (;;) {
      MaybeMove(*from_);
      std::vector<Packet> packets = from_->Transmit(1 + random_.Below(kRunMax));
      if (packets.empty()) break;
      for (Packet& packet : packets) {
        testing::SealPacket(packet);
        link_->Send(std::move(packet));
      }
    }
    for (const SendCompletion& done : from_->completed) {
      Require(done.status == URNIC_WC_SUCCESS, "a send fails");
      Require(done.wr_id == completed_++, "sends complete out of order");
    }
    from_->completed.clear();
    Require(completed_ == messages_.size(), "a send does not complete");
  }

  // In every second run both queue pairs move from core to core, as images. The
  // random numbers are separate: a seed's run is the same without moves.
  void MaybeMove(testing::UnreliableEnd<Qp>& end) {
    if (!moving_ || !mover_.OneIn(4)) return;
    const ImageRefusal refusal = end.Become(end.Image());
    if (!refusal.ok()) throw Violation{"an image: " + refusal.Text()};
    ++moves_;
  }

  // --- The receiving side ---------------------------------------------------

  void OnArrival(Packet packet) {
    if (!testing::SealIntact(packet)) return;
    arrived_.push_back(std::move(packet));
    if (arrived_.size() > 1) return;
    world_.After(
        Duration::Nanoseconds(static_cast<int64_t>(random_.Below(5000))),
        [this] { ReceiveSome(); });
  }

  void ReceiveSome() {
    const size_t count = std::min<size_t>(arrived_.size(), burst_max_);
    const std::vector<Packet> burst(arrived_.begin(), arrived_.begin() + count);
    arrived_.erase(arrived_.begin(), arrived_.begin() + count);
    for (const Packet& packet : burst) {
      wire::RocePacket parsed;
      Require(
          wire::ParseRoce(packet.data(), static_cast<uint32_t>(packet.size()),
                          parsed) == RxVerdict::kAccept,
          "a malformed packet is sent");
      ++packets_.at(parsed.psn().value()).copies;
    }
    static constexpr uint8_t kIp[20] = {0x45};
    MaybeMove(*to_);
    to_->Receive(burst, kIp);
    MaybeMove(*to_);
    to_->qp().CheckInvariants();
    for (const RecvCompletion& done : to_->received) OnReceived(done);
    to_->received.clear();
    if (!arrived_.empty()) {
      world_.After(Duration::Nanoseconds(500), [this] { ReceiveSome(); });
    }
  }

  void OnReceived(const RecvCompletion& done) {
    Require(done.status == URNIC_WC_SUCCESS, "a receive fails");
    Require(!receives_.empty(), "a completion without a receive");
    const Receive receive = receives_.front();
    receives_.pop_front();
    Require(done.wr_id == receive.id, "receives complete out of order");
    const bool write = done.opcode == URNIC_WC_RECV_RDMA_WITH_IMM;
    const auto in_slot = to_->host().bytes(receive.slot, kSlotBytes);
    uint32_t number = done.imm_or_key;
    if ((done.wc_flags & URNIC_WC_WITH_IMM) == 0) {
      std::memcpy(&number, in_slot.data() + kHead, 4);
    }
    Require(number < messages_.size(), "a message that nobody has sent");
    Message& message = messages_[number];
    Require(message.welcome, "a message with another Q_Key");
    Require(write == (message.opcode == URNIC_WR_RDMA_WRITE_WITH_IMM) &&
                done.byte_len == message.bytes + kHead,
            "a receive has the wrong opcode or length");
    Require(write || done.byte_len <= receive.bytes,
            "a message that is longer than its receive");
    const auto have = write ? to_->host().bytes(message.target, message.bytes)
                            : in_slot.subspan(kHead, message.bytes);
    for (uint32_t i = 0; i < message.bytes; ++i) {
      Require(have[i] == ByteOf(number, i), "a message is not what was sent");
    }
    Require(!perfect() || number == received_, "a message is not in order");
    ++message.received;
    ++received_;
    CheckGuards();
  }

  void CheckGuards() {
    for (size_t slot = 0; slot < 2 * kSlots; ++slot) {
      const auto guard = to_->host().bytes(slot * kSlotStride + kSlotBytes,
                                           kSlotStride - kSlotBytes);
      Require(std::ranges::all_of(guard, [](uint8_t b) { return b == kGuard; }),
              "bytes around a message have changed");
    }
  }

  void End() {
    std::vector<uint64_t> copies(messages_.size(), UINT64_MAX);
    for (const auto& [psn, packet] : packets_) {
      copies[packet.message] = std::min(copies[packet.message], packet.copies);
    }
    for (size_t i = 0; i < messages_.size(); ++i) {
      Require(messages_[i].received <= copies[i],
              "a message comes more often than its packets");
      Require(!perfect() || messages_[i].received == 1,
              "a message is lost without a reason");
    }
    CheckGuards();
    to_->qp().Modify(QpState::kErr, config_);
    to_->Poll();
    for (const RecvCompletion& done : to_->received) {
      Require(!receives_.empty() && done.wr_id == receives_.front().id &&
                  done.status == URNIC_WC_WR_FLUSH_ERR,
              "a wrong flush");
      receives_.pop_front();
    }
    Require(receives_.empty(), "a receive is not flushed");
  }

  Random random_;
  Random mover_;
  const bool moving_;
  uint64_t moves_ = 0;
  Kind kind_ = Kind::kPerfect;
  World world_;
  QpConfig config_;
  size_t burst_max_ = 1;
  std::optional<testing::UnreliableEnd<Qp>> from_;
  std::optional<testing::UnreliableEnd<Qp>> to_;
  std::optional<Link> link_;
  std::vector<Message> messages_;
  std::map<uint32_t, PacketOf> packets_;  // by PSN
  Psn next_psn_;
  uint64_t completed_ = 0;
  std::deque<Receive> receives_;
  uint64_t next_receive_ = 0;
  uint64_t received_ = 0;
  std::deque<Packet> arrived_;
};

}  // namespace urnic::sim
