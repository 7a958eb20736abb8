#pragma once

// The two rings of a window (verbs/abi/rud_abi.h), from the program's side. The
// RNIC's side is in transport/rud/send_fifo.h and receive_fifo.h.
//
// Thread: one at a time.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/base/check.h"
#include "transport/base/mutation.h"
#include "verbs/abi/rud_abi.h"

namespace urnic::rud::upper {

// The memory of a window's rings. It outlives SendRing and ReceiveRing. Both
// counts are powers of two. The slot of an entry has the same index.
struct RingMemory {
  urnic_rud_send* sends = nullptr;
  urnic_queue_indices* send_indices = nullptr;
  uint8_t* send_slots = nullptr;
  urnic_rud_receive* receives = nullptr;
  urnic_queue_indices* receive_indices = nullptr;
  const uint8_t* receive_slots = nullptr;
  uint32_t send_count = 0;
  uint32_t send_slot_bytes = 0;
  uint32_t receive_count = 0;
  uint32_t receive_slot_bytes = 0;
};

// Posts commands. For each, fill Next() and call Post(), as long as there is
// room; then call Publish(). The RNIC may have to be told
// (Adapter::Doorbell()).
class SendRing {
 public:
  explicit SendRing(const RingMemory& memory)
      : entries_(memory.sends),
        mask_(memory.send_count - 1),
        indices_(memory.send_indices),
        slots_(memory.send_slots),
        slot_bytes_(memory.send_slot_bytes),
        producer_(std::atomic_ref(indices_->producer)
                      .load(std::memory_order_relaxed)),
        collected_(producer_) {
    URNIC_CHECK(memory.send_count != 0 && (memory.send_count & mask_) == 0);
  }

  uint32_t slot_bytes() const { return slot_bytes_; }
  bool HasRoom() const { return Room() != 0; }
  // How many entries can be posted. Entries become free in Collect().
  uint32_t Room() const { return mask_ + 1 - (producer_ - collected_); }

  // The entry for the next command. It still contains an earlier command.
  // REQUIRES: HasRoom()
  urnic_rud_send& Next() { return entries_[producer_ & mask_]; }
  // Its slot, for the payload of URNIC_RUD_PACKET and URNIC_RUD_SLOT_DATA.
  uint8_t* NextSlot() { return SlotAt(producer_); }
  // All of the entry except for its status is filled.
  void Post() {
    Next().status = URNIC_RUD_WAITS;
    ++producer_;
  }
  // Position of the entry for the next command.
  uint32_t position() const { return producer_; }
  // An entry that was posted, if the RNIC cannot see it yet; otherwise null.
  urnic_rud_send* Unpublished(uint32_t position) {
    const bool is_visible = static_cast<int32_t>(position - published_) < 0;
    return MUTATION(rud_upper_joins_what_has_left, is_visible, false)
               ? nullptr
               : &entries_[position & mask_];
  }
  uint8_t* SlotAt(uint32_t position) {
    return slots_ + size_t{position & mask_} * slot_bytes_;
  }
  // There are entries that the RNIC cannot see yet.
  bool HasUnpublished() const { return producer_ != published_; }
  void Publish() {
    std::atomic_ref(indices_->producer)
        .store(producer_, std::memory_order_release);
    published_ = producer_;
  }

  // Takes back the entries that the RNIC has finished. Calls `on_refused(const
  // urnic_rud_send&)` for each that it did not execute.
  template <typename OnRefused>
  void Collect(OnRefused&& on_refused) {
    const uint32_t consumer =
        std::atomic_ref(indices_->consumer).load(std::memory_order_acquire);
    // An invalid index is ignored.
    if (consumer - collected_ > producer_ - collected_) return;
    for (; collected_ != consumer; ++collected_) {
      const urnic_rud_send& entry = entries_[collected_ & mask_];
      if (__builtin_expect(entry.status != URNIC_RUD_SENT, 0))
        on_refused(entry);
    }
  }

 private:
  urnic_rud_send* const entries_;
  const uint32_t mask_;
  urnic_queue_indices* const indices_;
  uint8_t* const slots_;
  const uint32_t slot_bytes_;
  uint32_t producer_;
  uint32_t published_ = producer_;
  uint32_t collected_;
};

// Reads entries. For each, read Front() and its slot, and call Pop(). Call
// Return() when the slots are no longer needed.
class ReceiveRing {
 public:
  explicit ReceiveRing(const RingMemory& memory)
      : entries_(memory.receives),
        mask_(memory.receive_count - 1),
        indices_(memory.receive_indices),
        slots_(memory.receive_slots),
        slot_bytes_(memory.receive_slot_bytes),
        consumer_(std::atomic_ref(indices_->consumer)
                      .load(std::memory_order_relaxed)),
        returned_(consumer_) {
    URNIC_CHECK(memory.receive_count != 0 &&
                (memory.receive_count & mask_) == 0);
  }

  uint32_t slot_bytes() const { return slot_bytes_; }
  uint32_t count() const { return mask_ + 1; }
  // Position of the next entry to read, and behind the last one that the RNIC
  // has published.
  uint32_t position() const { return consumer_; }
  uint32_t end() const {
    return std::atomic_ref(indices_->producer).load(std::memory_order_acquire);
  }

  // The next entry; null: there is none.
  const urnic_rud_receive* Front() const {
    // At most a whole ring: the RNIC does not overwrite entries that were not
    // returned.
    if (consumer_ - returned_ > mask_) return nullptr;
    urnic_rud_receive& entry = entries_[consumer_ & mask_];
    return FirstWord(entry).load(std::memory_order_acquire) == 0 ? nullptr
                                                                 : &entry;
  }
  // REQUIRES: Front() != null
  const uint8_t* FrontSlot() const {
    return slots_ + size_t{consumer_ & mask_} * slot_bytes_;
  }
  // REQUIRES: Front() != null
  void Pop() {
    FirstWord(entries_[consumer_ & mask_]).store(0, std::memory_order_relaxed);
    ++consumer_;
  }
  // Gives all entries that were read back to the RNIC.
  void Return() {
    if (returned_ == consumer_) return;
    returned_ = consumer_;
    std::atomic_ref(indices_->consumer)
        .store(consumer_, std::memory_order_release);
  }

 private:
  // The RNIC writes type, flags, path and number last, in one store.
  static std::atomic_ref<uint32_t> FirstWord(urnic_rud_receive& entry) {
    return std::atomic_ref(*reinterpret_cast<uint32_t*>(&entry));
  }

  urnic_rud_receive* const entries_;
  const uint32_t mask_;
  urnic_queue_indices* const indices_;
  const uint8_t* const slots_;
  const uint32_t slot_bytes_;
  uint32_t consumer_;
  uint32_t returned_;
};

}  // namespace urnic::rud::upper
