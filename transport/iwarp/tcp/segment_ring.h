#pragma once

// The records of unacknowledged segments: one ring for each connection, in
// memory that all connections of an engine share.

#include <array>
#include <cstdint>
#include <vector>

#include "transport/base/fields.h"
#include "transport/base/seq_num.h"
#include "transport/base/time.h"

namespace urnic::tcp {

struct SegmentRecord {
  enum State : uint32_t { kInFlight, kLost, kSacked };

  uint64_t source = 0;
  Time sent;  // the last transmission
  SeqNum seq;
  uint16_t offset = 0;  // in its chunk
  uint16_t bytes = 0;
  // Numbers of records, modulo 2^24. What they link depends on the state:
  // Scoreboard says how.
  uint32_t next : 24 = 0;
  uint32_t state : 2 = kInFlight;
  uint32_t resent : 1 = 0;  // ever
  uint32_t fin : 1 = 0;
  uint32_t last : 1 = 0;  // it ends its chunk
  uint32_t prev : 24 = 0;

  uint32_t seq_bytes() const { return bytes + fin; }
  SeqNum end() const { return seq + seq_bytes(); }
};
static_assert(sizeof(SegmentRecord) == 32);

// Memory for records, in blocks of 64 * 2^order. It is a buddy allocator, so
// that any connection can use the blocks that another one has returned. The
// constructor allocates all memory.
class SegmentSlab {
 public:
  static constexpr uint32_t kBlockRecords = 64;
  static constexpr uint8_t kMaxOrder = 10;  // 64 K records
  static constexpr uint32_t kNone = UINT32_MAX;

  // `blocks`: of 64 records.
  explicit SegmentSlab(uint32_t blocks);
  SegmentSlab(const SegmentSlab&) = delete;
  SegmentSlab& operator=(const SegmentSlab&) = delete;

  // kNone: there is no room.
  uint32_t Take(uint8_t order) {
    return order == 0 && at_hand_count_ != 0 ? at_hand_[--at_hand_count_]
                                             : TakeJoined(order);
  }
  void Release(uint32_t block, uint8_t order) {
    if (order == 0 && at_hand_count_ != at_hand_.size()) {
      at_hand_[at_hand_count_++] = block;
    } else {
      Join(block, order);
    }
  }
  SegmentRecord* records(uint32_t block) {
    return &records_[uint64_t{block} * kBlockRecords];
  }
  uint32_t free_blocks() const { return free_blocks_ + at_hand_count_; }
  // How often there was no room in its life.
  uint64_t refused() const { return refused_; }

 private:
  static constexpr uint8_t kNotFree = UINT8_MAX;
  struct Block {
    uint32_t next = kNone;  // in the list of its order
    uint32_t prev = kNone;
    uint8_t free_order = kNotFree;
  };

  uint32_t TakeJoined(uint8_t order);
  void Join(uint32_t block, uint8_t order);
  void Push(uint32_t block, uint8_t order);
  void Unlink(uint32_t block);

  std::vector<SegmentRecord> records_;
  std::vector<Block> blocks_;
  std::array<uint32_t, kMaxOrder + 1> free_;
  uint32_t free_blocks_ = 0;
  uint64_t refused_ = 0;
  // Small blocks that are free but not joined. A connection with one message in
  // flight at a time takes and returns one for each message; joining it took
  // 900 of the 10 700 instructions of half a round trip.
  std::array<uint32_t, 16> at_hand_;
  uint32_t at_hand_count_ = 0;
};

// Records by number, oldest first. Numbers run freely modulo 2^32. An empty
// ring has no memory.
class SegmentRing {
 public:
  SegmentRing() = default;
  SegmentRing(const SegmentRing&) = delete;
  SegmentRing& operator=(const SegmentRing&) = delete;
  ~SegmentRing() { Clear(); }

  // `slab` outlives this ring, which grows to 64 * 2^max_order records.
  void Start(SegmentSlab* slab, uint8_t max_order);

  uint32_t first() const { return first_; }
  uint32_t end() const { return end_; }
  uint32_t size() const { return end_ - first_; }
  bool empty() const { return first_ == end_; }
  SegmentRecord& at(uint32_t number) { return records_[number & mask_]; }
  const SegmentRecord& at(uint32_t number) const {
    return records_[number & mask_];
  }

  // False: the limit is reached, or the slab has no room.
  bool MakeRoom() { return size() < capacity_ || Grow(); }
  // REQUIRES: MakeRoom()
  SegmentRecord& Push() { return at(end_++) = SegmentRecord(); }
  void PopFront() {
    ++first_;
    if (empty()) Clear();
  }
  void Clear();

  // The number of the record that holds `seq`. REQUIRES: one does
  uint32_t Find(SeqNum seq) const;

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  bool Grow();

  SegmentRecord* records_ = nullptr;
  uint32_t mask_ = 0;
  uint32_t capacity_ = 0;
  uint32_t first_ = 0;
  uint32_t end_ = 0;
  SegmentSlab* slab_ = nullptr;
  uint32_t block_ = SegmentSlab::kNone;
  uint8_t order_ = 0;
  uint8_t max_order_ = 0;
};

}  // namespace urnic::tcp
