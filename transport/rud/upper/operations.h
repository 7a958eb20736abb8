#pragma once

// Operations of the program that have not ended, in a table of fixed size.
// Lists link them by their indices.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "transport/base/check.h"
#include "transport/rud/upper/types.h"
#include "verbs/abi/rud_abi.h"

namespace urnic::rud::upper {

class Peer;

enum class OperationKind : uint8_t { kWrite, kRead, kSend };

struct Operation {
  uint64_t user = 0;
  uint64_t local_pvo = 0;
  uint64_t remote_pvo = 0;
  uint64_t bytes = 0;
  Peer* peer = nullptr;
  uint32_t peer_number = 0;
  uint32_t units = 0;               // all
  uint32_t begun = 0;               // units that have begun
  uint32_t open = 0;                // units that have begun and not ended
  uint64_t open_message_bytes = 0;  // memory that the message takes at the peer
  uint32_t sequence = 0;            // of the message
  uint32_t next = 0;                // in its list
  OperationKind kind = OperationKind::kWrite;
  Status status = Status::kOk;
  bool is_inline = false;
  bool is_alone = false;  // may not share a packet
  uint8_t data[URNIC_RUD_INLINE];

  // Resets the fields that not every new operation sets.
  void Reset(OperationKind of_kind, uint64_t user_of_it, uint64_t its_bytes) {
    kind = of_kind;
    user = user_of_it;
    bytes = its_bytes;
    begun = open = 0;
    open_message_bytes = 0;
    status = Status::kOk;
    is_inline = is_alone = false;
  }
  bool MayShare() const {
    return is_inline && !is_alone && kind == OperationKind::kWrite;
  }
  // REQUIRES: size() <= URNIC_RUD_INLINE
  void SetInline(std::span<const uint8_t> from) {
    is_inline = true;
    if (__builtin_expect(from.size() == sizeof(uint64_t), 1)) {
      std::memcpy(data, from.data(), sizeof(uint64_t));
    } else {
      std::copy(from.begin(), from.end(), data);  // data() may be null
    }
  }
};

class OperationList {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  bool empty() const { return first_ == kNone; }
  uint32_t front() const { return first_; }
  void Append(std::vector<Operation>& table, uint32_t index) {
    table[index].next = kNone;
    if (first_ == kNone) {
      first_ = index;
    } else {
      table[last_].next = index;
    }
    last_ = index;
  }
  // REQUIRES: !empty()
  uint32_t PopFront(const std::vector<Operation>& table) {
    const uint32_t index = first_;
    first_ = table[index].next;
    return index;
  }

 private:
  uint32_t first_ = kNone;
  uint32_t last_ = kNone;
};

class OperationTable {
 public:
  explicit OperationTable(uint32_t count) : table_(count) {
    URNIC_CHECK(count != 0 && count <= (1u << 20));
    for (uint32_t i = count; i-- != 0;) {
      table_[i].next = free_;
      free_ = i;
    }
  }

  Operation& operator[](uint32_t index) { return table_[index]; }
  std::vector<Operation>& all() { return table_; }
  uint32_t IndexOf(const Operation& operation) const {
    return static_cast<uint32_t>(&operation - table_.data());
  }
  bool HasFree() const { return free_ != OperationList::kNone; }
  // REQUIRES: HasFree()
  uint32_t Take() {
    const uint32_t index = free_;
    free_ = table_[index].next;
    return index;
  }

  // The operation has ended. The next Poll() tells the program.
  void End(uint32_t index) {
    done_.Append(table_, index);
    ++done_count_;
  }
  uint32_t done() const { return done_count_; }
  // Returns the event of an operation that has ended, and frees it. REQUIRES:
  // done() != 0
  Event TakeDone() {
    const uint32_t index = done_.PopFront(table_);
    --done_count_;
    Operation& operation = table_[index];
    operation.next = free_;
    free_ = index;
    return {.type = EventType::kDone,
            .status = operation.status,
            .peer = operation.peer_number,
            .user = operation.user,
            .bytes = operation.bytes,
            .data = nullptr};
  }

 private:
  std::vector<Operation> table_;
  uint32_t free_ = OperationList::kNone;
  OperationList done_;
  uint32_t done_count_ = 0;
};

}  // namespace urnic::rud::upper
