#pragma once

// FPDUs of which a copy is kept until they are acknowledged, because their
// memory may change earlier (read responses), or belongs to the program again
// (small messages that complete when they have been sent). Small messages that
// are posted together share a segment of TCP, and are kept together.

#include <cstdint>
#include <span>

#include "transport/base/check.h"
#include "transport/base/fields.h"
#include "transport/base/seq_num.h"

namespace urnic::iwarp {

// Memory for the kept FPDUs of all connections of an engine. The calls may be
// virtual, because they are not made for FPDUs that are built again from the
// request.
class FpduKeeper {
 public:
  // How many FPDUs can be kept now.
  uint32_t free() const { return free_; }
  // Returns the number of a place for `bytes` bytes, which are `memory` until
  // Release(). REQUIRES: free() != 0; the largest segment is not longer.
  virtual uint32_t Take(uint32_t bytes, std::span<uint8_t>& memory) = 0;
  virtual void Release(uint32_t number) = 0;

 protected:
  ~FpduKeeper() = default;
  uint32_t free_ = 0;
};

// A chunk of TCP: one FPDU, or several small ones.
struct KeptFpdu {
  SeqNum begin;  // its first byte in the stream
  uint32_t number = 0;
  uint64_t source = 0;  // of its first FPDU
  std::span<uint8_t> bytes = {};
  bool written = false;
};

// Those of one connection, in the order of the stream.
class KeptFpdus {
 public:
  // `records`: a power of two, or empty; limits how many are kept. They need
  // not be initialized. Both outlive this object.
  KeptFpdus(FpduKeeper* keeper, std::span<KeptFpdu> records)
      : keeper_(keeper), records_(records) {
    URNIC_CHECK((records.size() & (records.size() - 1)) == 0);
  }
  ~KeptFpdus() { Clear(); }
  KeptFpdus(const KeptFpdus&) = delete;
  KeptFpdus& operator=(const KeptFpdus&) = delete;

  bool empty() const { return first_ == end_; }
  uint32_t size() const { return end_ - first_; }
  uint32_t limit() const { return static_cast<uint32_t>(records_.size()); }
  bool has_room() const {
    return size() < records_.size() && keeper_->free() != 0;
  }

  // The next chunk of the stream is to be kept. REQUIRES: has_room()
  void Add(SeqNum begin, uint64_t source, uint32_t bytes) {
    URNIC_CHECK(has_room());
    KeptFpdu& fpdu = At(end_++);
    fpdu = {.begin = begin, .source = source};
    fpdu.number = keeper_->Take(bytes, fpdu.bytes);
    URNIC_CHECK(fpdu.bytes.size() == bytes);
  }
  // The one that begins here; null: it is not kept.
  KeptFpdu* Find(SeqNum begin) {
    uint32_t low = first_;
    uint32_t high = end_;
    while (low != high) {
      const uint32_t middle = low + (high - low) / 2;
      if (At(middle).begin - begin < 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low != end_ && At(low).begin == begin ? &At(low) : nullptr;
  }
  // A chunk has been acknowledged, kept or not. They come in order.
  void OnAcked(uint64_t source) {
    if (!empty() && At(first_).source == source) PopFront();
  }
  void Clear() {
    while (!empty()) PopFront();
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  KeptFpdu& At(uint32_t index) {
    return records_[index & (records_.size() - 1)];
  }
  void PopFront() { keeper_->Release(At(first_++).number); }

  FpduKeeper* const keeper_;
  const std::span<KeptFpdu> records_;
  uint32_t first_ = 0;
  uint32_t end_ = 0;
};

}  // namespace urnic::iwarp
