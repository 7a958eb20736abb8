#pragma once

// Identifies a unit of a message, in 64 bits that the adapter passes on to the
// receive entry (`pvo`).

#include <cstdint>

namespace urnic::rud::upper {

struct MessageTag {
  static constexpr int kSequenceBits = 23;
  static constexpr int kUnitBits = 20;
  static constexpr uint32_t kMaxUnits = 1u << kUnitBits;

  uint32_t sequence = 0;  // number of the message, modulo 2^23
  uint32_t unit = 0;      // index in the message
  uint32_t units = 1;     // of the message: 1 to kMaxUnits

  // Bit 63 is 0. It is 1 for probes.
  uint64_t value() const {
    return uint64_t{sequence} << (2 * kUnitBits) | uint64_t{unit} << kUnitBits |
           (units - 1);
  }
  static MessageTag Of(uint64_t value) {
    constexpr uint32_t kUnits = kMaxUnits - 1;
    constexpr uint32_t kSequences = (1u << kSequenceBits) - 1;
    return {static_cast<uint32_t>(value >> (2 * kUnitBits)) & kSequences,
            static_cast<uint32_t>(value >> kUnitBits) & kUnits,
            (static_cast<uint32_t>(value) & kUnits) + 1};
  }
  // A probe. The peer's program ignores it; only the adapter answers it.
  static constexpr uint64_t kProbe = uint64_t{1} << 63;
};

// How far `a` is ahead of `b`.
constexpr int32_t SequenceDistance(uint32_t a, uint32_t b) {
  constexpr int kUnused = 32 - MessageTag::kSequenceBits;
  return static_cast<int32_t>((a - b) << kUnused) >> kUnused;
}

// How many messages a sender may begin from the oldest incomplete one on.
inline constexpr uint32_t kMessageWindow = 4096;

// Which of the last kMessageWindow messages are done. Sender and receiver each
// have one.
class MessageWindow {
 public:
  // Sender: the oldest message that is not done.
  uint32_t oldest() const { return oldest_; }
  bool Has(uint32_t sequence) const {
    return (bits_[Word(sequence)] >> (sequence % 64) & 1) != 0;
  }
  // Sender: marks the message as done, and advances oldest(). `next`: the
  // number of the next message.
  void OnDone(uint32_t sequence, uint32_t next) {
    Set(sequence);
    while (oldest_ != next && Has(oldest_)) {
      Clear(oldest_);
      oldest_ = (oldest_ + 1) & kMask;
    }
  }
  // Receiver: marks the message as done. False: it was done before.
  bool Take(uint32_t sequence) {
    const int32_t ahead = SequenceDistance(sequence, newest_);
    if (IsOld(ahead)) return false;
    if (ahead > 0) Advance(sequence, ahead);
    if (Has(sequence)) return false;
    Set(sequence);
    return true;
  }
  // Receiver: the message is so old that its sender has completed it or given
  // it up.
  bool IsPast(uint32_t sequence) const {
    return IsOld(SequenceDistance(sequence, newest_));
  }
  // Receiver: whether the message was done before.
  bool WasTaken(uint32_t sequence) const {
    const int32_t ahead = SequenceDistance(sequence, newest_);
    return IsOld(ahead) || (ahead <= 0 && Has(sequence));
  }

 private:
  static constexpr uint32_t kMask = (1u << MessageTag::kSequenceBits) - 1;

  // No sender begins a message so far ahead of one that is not done.
  static bool IsOld(int32_t ahead) {
    return ahead <= -static_cast<int32_t>(kMessageWindow);
  }
  static uint32_t Word(uint32_t sequence) {
    return sequence % kMessageWindow / 64;
  }
  void Set(uint32_t sequence) {
    bits_[Word(sequence)] |= uint64_t{1} << (sequence % 64);
  }
  void Clear(uint32_t sequence) {
    bits_[Word(sequence)] &= ~(uint64_t{1} << (sequence % 64));
  }
  void Advance(uint32_t sequence, int32_t ahead) {
    if (ahead >= static_cast<int32_t>(kMessageWindow)) {
      for (uint64_t& word : bits_) word = 0;
    } else {
      for (int32_t i = 1; i <= ahead; ++i)
        Clear(newest_ + static_cast<uint32_t>(i));
    }
    newest_ = sequence;
  }

  uint64_t bits_[kMessageWindow / 64] = {};
  uint32_t oldest_ = 0;
  uint32_t newest_ = 0;
};

}  // namespace urnic::rud::upper
