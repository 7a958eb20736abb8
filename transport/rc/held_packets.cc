#include "transport/rc/held_packets.h"

#include <algorithm>
#include <cstring>

#include "transport/base/check.h"
#include "transport/base/mutation.h"

namespace urnic::rc {
namespace {

// Whether two packets for one PSN are equal, except for the parts that may
// differ in a repeated packet: AckReq and the bits that the ICRC does not
// cover.
bool SameContent(const wire::Bth& a, uint32_t a_bytes, const RxPacket& b) {
  const wire::Bth& other = *b.bth;
  if (a.opcode != other.opcode || a.flags != other.flags ||
      a.pkey.value() != other.pkey.value() || a_bytes != b.payload_bytes) {
    return false;
  }
  const size_t rest = b.info->header_bytes - sizeof(wire::Bth) +
                      b.payload_bytes + a.pad_bytes();
  return std::memcmp(&a + 1, &other + 1, rest) == 0;
}

}  // namespace

HeldPool::HeldPool(uint32_t packets, FrameKeeper* frames)
    : frames_(frames),
      packets_(std::make_unique_for_overwrite<Packet[]>(packets)),
      size_(packets) {}

HeldPool::~HeldPool() { URNIC_CHECK(in_use_ == 0); }

uint32_t HeldPool::Take() {
  uint32_t index = free_;
  if (index != kNone) {
    free_ = packets_[index].next;
  } else if (ever_used_ != size_) {
    index = ever_used_++;
  } else {
    return kNone;
  }
  ++in_use_;
  return index;
}

void HeldPool::Return(uint32_t index) {
  packets_[index].next = free_;
  free_ = index;
  --in_use_;
}

HeldPackets::Result HeldPackets::Insert(Psn missing, const RxPacket& packet,
                                        uint32_t psns) {
  const Psn begin = packet.psn();
  const Psn end = begin + static_cast<int32_t>(psns);
  if (MUTATION(holds_what_is_too_far_ahead,
               begin - (empty() ? missing : this->end()) > kGapMax, false) ||
      end - missing > static_cast<int32_t>(kHoldSpan)) {
    return Result::kRefused;
  }
  uint32_t before = kNone;
  if (!empty() && begin - this->end() >= 0) {
    before = tail_;
  } else {
    // The last one that ends at or before `begin`.
    for (uint32_t i = head_; i != kNone && begin - EndOf(At(i)) >= 0;
         i = At(i).next) {
      before = i;
    }
  }
  const uint32_t after = before == kNone ? head_ : At(before).next;
  if (after != kNone && end - At(after).psn > 0) {
    const Packet& other = At(after);
    if (other.psn == begin && other.psns == psns &&
        SameContent(*other.bth, other.payload_bytes, packet)) {
      return Result::kDuplicate;
    }
    DropAfter(before);
    return MUTATION(holds_one_of_two_that_differ, Result::kConflict,
                    Insert(missing, packet, psns));
  }
  const auto* const bytes = reinterpret_cast<const uint8_t*>(packet.bth);
  const uint32_t length = packet.info->header_bytes + packet.payload_bytes +
                          packet.bth->pad_bytes();
  const uint32_t index = pool_->Take();
  if (index == kNone) return Result::kRefused;
  const uint32_t frame =
      pool_->frames_->Keep({{bytes, length}, packet.buffer}, holder_);
  if (frame == FrameKeeper::kRefused) {
    pool_->Return(index);
    return Result::kRefused;
  }
  At(index) = {.bth = packet.bth,
               .buffer = packet.buffer,
               .payload_bytes = packet.payload_bytes,
               .psn = begin,
               .psns = psns,
               .frame = frame,
               .next = after};
  (before == kNone ? head_ : At(before).next) = index;
  if (after == kNone) tail_ = index;
  return Result::kHeld;
}

uint32_t HeldPackets::Take(Psn next, std::span<RxPacket> out) {
  DropBefore(next);
  uint32_t count = 0;
  while (count < out.size() && head_ != kNone &&
         MUTATION(executes_what_is_held_out_of_order, At(head_).psn == next,
                  true)) {
    const uint32_t index = head_;
    Packet& packet = At(index);
    head_ = packet.next;
    if (head_ == kNone) tail_ = kNone;
    packet.next = taken_;
    taken_ = index;
    next = EndOf(packet);
    RxPacket& view = out[count++];
    view = RxPacket();
    view.bth = packet.bth;
    view.info = &wire::InfoOf(packet.bth->opcode);
    view.payload =
        reinterpret_cast<const uint8_t*>(packet.bth) + view.info->header_bytes;
    view.payload_bytes = packet.payload_bytes;
    view.buffer = packet.buffer;  // it may have to be held again
    MUTATION_SKIPS(takes_what_follows_an_atomic)
    if (EndsRun(view)) break;
  }
  return count;
}

void HeldPackets::ReleaseTaken() {
  while (taken_ != kNone) {
    const uint32_t index = taken_;
    taken_ = At(index).next;
    Release(index);
  }
}

void HeldPackets::DropBefore(Psn next) {
  while (head_ != kNone && next - At(head_).psn > 0) DropAfter(kNone);
}

void HeldPackets::Drop() {
  while (head_ != kNone) DropAfter(kNone);
}

uint32_t HeldPackets::WriteBitmap(Psn missing, std::span<uint8_t> out) const {
  const auto covered = static_cast<uint32_t>(end() - missing - 1);
  const uint32_t bytes = std::min<uint32_t>((covered + 31) / 32 * 4,
                                            static_cast<uint32_t>(out.size()));
  std::fill_n(out.data(), bytes, uint8_t{0});
  for (uint32_t i = head_; i != kNone; i = At(i).next) {
    const auto first = static_cast<uint32_t>(At(i).psn - missing - 1);
    const uint32_t last = std::min(first + At(i).psns, bytes * 8);
    for (uint32_t bit = first; bit < last; ++bit) {
      out[bit / 8] |= static_cast<uint8_t>(1 << bit % 8);
    }
  }
  return bytes;
}

void HeldPackets::DropAfter(uint32_t before) {
  const uint32_t index = before == kNone ? head_ : At(before).next;
  (before == kNone ? head_ : At(before).next) = At(index).next;
  if (tail_ == index) tail_ = before;
  Release(index);
}

void HeldPackets::Release(uint32_t index) {
  pool_->frames_->Release(At(index).frame, holder_);
  pool_->Return(index);
}

}  // namespace urnic::rc
