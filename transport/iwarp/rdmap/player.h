#pragma once

// For tests: one of two ends that do random work, and a simple model of the
// correct result at both: every byte, once, in order.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "transport/iwarp/rdmap/rdmap_end.h"

namespace urnic::rdmap::testing {

// Memory of an end: what it sends and lets read (never changed), what its peer
// writes, its receives, the results of its reads and atomics, and the words of
// the peer's atomics.
inline constexpr size_t kZone = 64 * 1024;
inline constexpr size_t kSource = 0;
inline constexpr size_t kWritten = kZone;
inline constexpr size_t kReceived = 2 * kZone;
inline constexpr size_t kResults = 3 * kZone;
inline constexpr size_t kWords = 4 * kZone;
inline constexpr uint32_t kReceiveBytes = 8192;
inline constexpr uint32_t kReceives = 8;
inline constexpr uint32_t kResultBytes = 4096;
inline constexpr uint32_t kResultSlots = 16;

struct Message {
  Bytes bytes = {};  // of a send
  uint32_t byte_len = 0;
  uint8_t opcode = URNIC_WC_RECV;
  bool with_imm = false;
  uint32_t imm = 0;
};

struct Result {
  size_t slot = 0;
  Bytes bytes;
};

class Player {
 public:
  Player(RdmapEnd& self, RdmapEnd& peer, Random& random)
      : self_(self), peer_(peer), random_(random) {
    for (uint8_t& byte : self.host().bytes(kSource, kZone)) {
      byte = random.Byte();
    }
  }

  void PostReceives() {
    while (posted_ - taken_ < kReceives) {
      const size_t at = kReceived + posted_ % kReceives * kReceiveBytes;
      const auto first = static_cast<uint32_t>(random_.Below(4000));
      ASSERT_TRUE(
          self_.Recv(posted_, {self_.Sge(at, first),
                               self_.Sge(at + first, kReceiveBytes - first)}));
      ++posted_;
    }
  }

  // Posts one request if the peer has a receive for it.
  void Post(Player& peer) {
    const auto bytes = static_cast<uint32_t>(
        random_.Below(3) == 0 ? random_.Below(6000) : random_.Below(80));
    const size_t from = random_.Below(kZone - bytes);
    const size_t to =
        overlapping_writes ? random_.Below(kZone - bytes) : Disjoint(bytes);
    SendWr wr = {.wr_id = next_id_,
                 .sges = Sges(kSource + from, bytes),
                 .remote_addr = peer_.at(kWritten + to),
                 .rkey = peer_.key(),
                 .imm_or_key = static_cast<uint32_t>(random_.Next())};
    if (random_.OneIn(4)) wr.flags |= URNIC_SEND_FENCE;
    static constexpr uint8_t kOpcodes[] = {
        URNIC_WR_RDMA_WRITE,
        URNIC_WR_RDMA_WRITE_WITH_IMM,
        URNIC_WR_SEND,
        URNIC_WR_SEND_WITH_IMM,
        URNIC_WR_RDMA_READ,
        URNIC_WR_ATOMIC_FETCH_AND_ADD,
        URNIC_WR_ATOMIC_CMP_AND_SWP,
    };
    wr.opcode = kOpcodes[random_.Below(std::size(kOpcodes))];
    const RequestKind& kind = *FindRequest(wr.opcode);
    if (kind.takes_receive() && peer.expected_.size() == kReceives) return;
    if (kind.answered() && results_.size() == kResultSlots) return;
    if (!self_.Send(Prepare(kind, wr, bytes, from, to, peer))) {
      FAIL() << "the ring is larger than what is under way";
    }
    ++next_id_;
  }
  // Writes in flight at the same time may change the same bytes. If they are
  // placed out of order, the result is undefined.
  bool overlapping_writes = true;

  bool CanPost() const { return next_id_ - done_ < 16; }
  bool Idle() const { return next_id_ == done_; }

  // Compares what completed since the last call.
  void Check() {
    for (const RecvCompletion& done : self_.received) CheckReceive(done);
    self_.received.clear();
    for (const SendCompletion& done : self_.sent) {
      ASSERT_EQ(done.status, URNIC_WC_SUCCESS);
      ASSERT_EQ(done.wr_id, done_++);
      if (done.opcode == URNIC_WC_SEND || done.opcode == URNIC_WC_RDMA_WRITE) {
        continue;
      }
      const Result& result = results_.front();
      ASSERT_EQ(self_.Read(SlotAt(result.slot), result.bytes.size()),
                result.bytes);
      results_.pop_front();
    }
    self_.sent.clear();
    for (const RxVerdict verdict : self_.verdicts) {
      ASSERT_EQ(verdict, RxVerdict::kAccept);
    }
    self_.verdicts.clear();
  }
  void CheckEnd() {
    EXPECT_EQ(self_.copied, copies_) << "each byte is copied once";
    EXPECT_EQ(self_.Read(kWritten, kZone), written_);
    EXPECT_EQ(self_.Read(kWords, sizeof(words_)),
              Bytes(reinterpret_cast<uint8_t*>(words_),
                    reinterpret_cast<uint8_t*>(words_) + sizeof(words_)));
    EXPECT_TRUE(expected_.empty());
  }

 private:
  static size_t SlotAt(size_t slot) {
    return kResults + slot % kResultSlots * kResultBytes;
  }

  std::vector<urnic_sge> Sges(size_t at, uint32_t bytes) {
    const auto first = static_cast<uint32_t>(random_.Below(bytes + 1));
    return {self_.Sge(at, first), self_.Sge(at + first, bytes - first)};
  }

  // The next bytes of the peer's zone.
  size_t Disjoint(uint32_t bytes) {
    if (next_written_ + bytes > kZone) next_written_ = 0;
    const size_t at = next_written_;
    next_written_ += bytes;
    return at;
  }

  // Completes the request, and tells the models of both ends what it does.
  SendWr Prepare(const RequestKind& kind, SendWr wr, uint32_t bytes,
                 size_t from, size_t to, Player& peer) {
    const Bytes data = self_.Read(kSource + from, bytes);
    switch (kind.family) {
      case RequestFamily::kWrite:
        peer.copies_ += bytes;
        std::copy(data.begin(), data.end(),
                  peer.written_.begin() + static_cast<long>(to));
        if (kind.with_imm) {
          peer.expected_.push_back({.byte_len = bytes,
                                    .opcode = URNIC_WC_RECV_RDMA_WITH_IMM,
                                    .with_imm = true,
                                    .imm = wr.imm_or_key});
        }
        return wr;
      case RequestFamily::kSend:
        peer.copies_ += bytes;
        peer.expected_.push_back({.bytes = data,
                                  .byte_len = bytes,
                                  .with_imm = kind.with_imm,
                                  .imm = wr.imm_or_key});
        return wr;
      case RequestFamily::kRead: {
        const uint32_t length = std::min(bytes, kResultBytes);
        copies_ += length;
        wr.sges = Sges(SlotAt(next_result_), length);
        wr.remote_addr = peer_.at(kSource + from);
        results_.push_back(
            {next_result_++, peer_.Read(kSource + from, length)});
        return wr;
      }
      default:
        return PrepareAtomic(wr, peer);
    }
  }

  SendWr PrepareAtomic(SendWr wr, Player& peer) {
    const size_t word = random_.Below(std::size(peer.words_));
    uint64_t& value = peer.words_[word];
    wr.remote_addr = peer_.at(kWords + 8 * word);
    copies_ += 8;  // the answer
    wr.sges = {self_.Sge(SlotAt(next_result_), 8)};
    Bytes before(8);
    std::memcpy(before.data(), &value, 8);
    results_.push_back({next_result_++, before});
    wr.compare_add = random_.OneIn(2) ? value : random_.Next();
    wr.swap = random_.Next();
    if (wr.opcode == URNIC_WR_ATOMIC_FETCH_AND_ADD) {
      value += wr.compare_add;
    } else if (value == wr.compare_add) {
      value = wr.swap;
    }
    return wr;
  }

  void CheckReceive(const RecvCompletion& done) {
    ASSERT_FALSE(expected_.empty());
    const Message& message = expected_.front();
    ASSERT_EQ(done.wr_id, taken_);
    ASSERT_EQ(done.status, URNIC_WC_SUCCESS);
    ASSERT_EQ(done.opcode, message.opcode);
    ASSERT_EQ(done.byte_len, message.byte_len);
    ASSERT_EQ(done.wc_flags, message.with_imm ? URNIC_WC_WITH_IMM : 0);
    ASSERT_EQ(done.imm_or_key, message.with_imm ? message.imm : 0);
    const size_t at = kReceived + taken_ % kReceives * kReceiveBytes;
    ASSERT_EQ(self_.Read(at, message.bytes.size()), message.bytes);
    expected_.pop_front();
    ++taken_;
  }

  RdmapEnd& self_;
  RdmapEnd& peer_;
  Random& random_;
  uint64_t next_id_ = 0;
  uint64_t done_ = 0;
  uint64_t posted_ = 0;
  uint64_t taken_ = 0;
  size_t next_result_ = 0;
  size_t next_written_ = 0;
  uint64_t copies_ = 0;
  std::deque<Message> expected_;
  std::deque<Result> results_;
  Bytes written_ = Bytes(kZone);
  uint64_t words_[4] = {};
};

}  // namespace urnic::rdmap::testing
