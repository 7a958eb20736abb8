#include "datapath/engine/input_tap.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/base/mutation.h"
#include "transport/work/types.h"

namespace urnic {
namespace {

constexpr size_t kKeysMax = 1024;

// The part of a send ring's entry that its request uses.
std::span<const uint8_t> UsedOf(std::span<const uint8_t> entry,
                                const urnic_sq_wqe& wqe) {
  const size_t tail = (wqe.flags & URNIC_SEND_INLINE) != 0
                          ? wqe.inline_bytes
                          : wqe.num_sge * sizeof(urnic_sge);
  return entry.first(std::min(entry.size(), sizeof(wqe) + tail));
}

bool IsAfter(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

}  // namespace

InputTap::InputTap(std::shared_ptr<InputLog> log, const WorkQueueView* sq,
                   const mem::MrTable* keys)
    : log_(std::move(log)), sq_(*sq), table_(*keys) {
  keys_.reserve(kKeysMax);
  originals_.reserve(kRunMax);
  log_->DemandSegment();
}

// --- Segments ----------------------------------------------------------------

void InputTap::StopSegment() {
  started_ = false;
  originals_.clear();  // of a burst that has not been settled
  log_->DemandSegment();
}

void InputTap::StartSegment(uint32_t layout) {
  // Keep the previous segment if the last one has no complete call, and so
  // cannot be replayed.
  log_->BeginSegment(layout, !has_segment_ || whole_calls_ != 0);
  started_ = has_segment_ = true;
  calls_ = whole_calls_ = 0;
  keys_.clear();
}

// --- Calls -------------------------------------------------------------------

void InputTap::EndCall(ResultNow result) {
  result.sq_producer = requests_end_;
  Add(WorkInput::kResult, {.body = BodyOf(result)});
  if (log_->lost() == 0) ++whole_calls_;
}

// --- Keys --------------------------------------------------------------------

void InputTap::AddChangedKeys() {
  if (std::exchange(key_changes_, table_.changes()) == table_.changes()) return;
  std::erase_if(keys_, [&](mem::MemoryRegion& known) {
    const mem::MemoryRegion* const now =
        table_.FindAnyVariant(MrKey{known.key});
    if (now == nullptr) {
      Add(WorkInput::kKeyGone,
          {.large = MUTATION(inputs_forget_changed_keys, known.key, 0)});
      return true;
    }
    if (std::memcmp(&known, now, sizeof(known)) != 0) {
      std::memcpy(static_cast<void*>(&known), now, sizeof(known));
      Add(WorkInput::kKey, {.body = BodyOf(known)});
    }
    return false;
  });
}

void InputTap::NoteKey(MrKey key) {
  const auto is_known = [&](const mem::MemoryRegion& known) {
    return NumberOfKey(known.key) == NumberOfKey(key.value);
  };
  if (std::ranges::any_of(keys_, is_known)) return;
  const mem::MemoryRegion* const found = table_.FindAnyVariant(key);
  if (found == nullptr) return;
  Add(WorkInput::kKey, {.body = BodyOf(*found)});
  if (keys_.size() < kKeysMax) {
    keys_.push_back(*found);
  } else {
    keys_[next_key_++ % kKeysMax] = *found;
  }
}

void InputTap::NoteKeysOf(std::span<const uint8_t> sges, uint32_t count) {
  for (; count != 0 && sges.size() >= sizeof(urnic_sge);
       --count, sges = sges.subspan(sizeof(urnic_sge))) {
    urnic_sge sge;
    std::memcpy(&sge, sges.data(), sizeof(sge));
    NoteKey(MrKey{sge.lkey});
  }
}

// --- Work queues -------------------------------------------------------------

uint32_t InputTap::Producer() const {
  const uint32_t head = send_at().head;
  const uint32_t posted = sq_.entries() == 0 ? 0 : sq_.Posted(head);
  return head + (posted == UINT32_MAX ? 0 : posted);
}

void InputTap::BeginRequests(uint32_t end) {
  ForgetRequests();
  AddRequests(end);
}

void InputTap::AddRequestsFor(uint32_t messages) {
  constexpr uint32_t kLocal = 64;
  const uint32_t next = send_at().next;
  const uint32_t posted = Producer() - next;
  if (static_cast<int32_t>(posted) <= 0) return;
  AddRequests(next + std::min(posted, MUTATION(inputs_forget_late_requests,
                                               messages + kLocal, 1u)));
}

void InputTap::AddRequests(uint32_t end) {
  for (; IsAfter(end, requests_end_); ++requests_end_) {
    const auto wqe = sq_.Read<urnic_sq_wqe>(requests_end_);
    const auto entry = UsedOf(sq_.BytesOf(requests_end_), wqe);
    if ((wqe.flags & URNIC_SEND_INLINE) == 0)
      NoteKeysOf(entry.subspan(sizeof(wqe)), wqe.num_sge);
    // Local requests have keys in these fields. Other values are not found, and
    // not logged.
    for (const uint32_t key : {wqe.imm_or_key, wqe.rkey, wqe.xrc_srqn})
      NoteKey(MrKey{key});
    Add(WorkInput::kRequest, {.large = requests_end_, .body = entry});
  }
}

bool InputTap::AddReceive(const RecvRing& ring, uint32_t ahead,
                          uint32_t place) {
  const auto entry = ring.BytesOf(ahead);
  if (entry.empty()) return false;
  urnic_rq_wqe wqe;
  std::memcpy(&wqe, entry.data(), sizeof(wqe));
  NoteKeysOf(entry.subspan(sizeof(wqe)), wqe.num_sge);
  Add(WorkInput::kReceive, {.large = place, .body = entry});
  return true;
}

// --- Results of calls --------------------------------------------------------

void InputTap::AddFault(const Placement& placement) {
  Add(WorkInput::kFault,
      {.small = placement.from_responder ? uint8_t{1} : uint8_t{0},
       .medium = placement.packet,
       .body = BodyOf(placement.target)});
}

void InputTap::AddOriginals() {
  for (const uint64_t* const original : originals_)
    Add(WorkInput::kOriginal, {.body = BodyOf(*original)});
  originals_.clear();
}

}  // namespace urnic
