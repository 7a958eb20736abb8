#pragma once

// What a RUD window (docs/design/0014-rud.md) has besides its queue pair: the
// slots of its FIFOs, and its keys. The entries of its FIFOs are in the memory
// where other queue pairs have their send and receive rings.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "verbs/abi/rud_abi.h"
#include "verbs/control/queue_memory.h"
#include "verbs/control/rud_memory.h"

namespace urnic {
struct RudWindowConfig;  // datapath/engine/rud_window.h
}

namespace urnic::control {

class Device;

// What a program asks for a new window.
struct RudRequest {
  uint32_t job = 0;         // not 0
  uint32_t slot_bytes = 0;  // 0: max_payload
};

// What a program needs to use a window. The memory belongs to the window.
struct RudView {
  uint32_t job = 0;
  uint32_t key = 0;          // protection key, which peers need
  uint32_t max_payload = 0;  // bytes of a packet; the largest stride
  uint32_t slot_bytes = 0;
  uint32_t send_entries = 0;
  uint32_t receive_entries = 0;
  urnic_rud_send* sends = nullptr;
  urnic_queue_indices* send_indices = nullptr;
  uint8_t* send_slots = nullptr;
  urnic_rud_receive* receives = nullptr;
  urnic_queue_indices* receive_indices = nullptr;
  uint8_t* receive_slots = nullptr;
};

// Thread: the one that creates the window. Nothing changes afterwards.
class RudRings {
 public:
  // `view` has the rings and their indices, which outlive this. Adds the rest
  // to a copy of it: view(). Errors of QueueMemory::Make() and RudMemory.
  // INVALID_ARGUMENT: slots longer than URNIC_RUD_MAX_SLOT.
  static absl::StatusOr<std::unique_ptr<RudRings>> Make(
      Device& device, const RudRequest& request, const RudView& view,
      QueueAllocator* allocator);

  const RudView& view() const { return view_; }
  // What the engine needs.
  RudWindowConfig Config() const;

 private:
  RudRings(const RudView& view, QueueMemory slots,
           std::unique_ptr<const RudMemory::User> user)
      : view_(view), slots_(std::move(slots)), user_(std::move(user)) {}

  const RudView view_;
  const QueueMemory slots_;
  const std::unique_ptr<const RudMemory::User> user_;
};

// The layout of a window's rings; see MakeQpLayout().
QpLayout MakeRudLayout(uint32_t sends, uint32_t receives);

}  // namespace urnic::control
