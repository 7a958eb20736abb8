#pragma once

// The rings of a RUD window with memory of their own, and the RNIC's side of
// them. rud_ring_memory.h has the program's side, for its upper layer.

#include <vector>

#include "transport/rud/receive_fifo.h"
#include "transport/rud/send_fifo.h"

namespace urnic::testing {

struct RudRings {
  RudRings(uint32_t send_entries, uint32_t receive_entries, uint32_t bytes)
      : slot_bytes(bytes),
        sends(send_entries),
        send_slots(size_t{send_entries} * bytes),
        receives(receive_entries),
        receive_slots(size_t{receive_entries} * bytes) {}
  RudRings(const RudRings&) = delete;
  RudRings& operator=(const RudRings&) = delete;

  rud::SendFifo SendFifo() {
    return {sends.data(), static_cast<uint32_t>(sends.size()), &send_indices,
            send_slots.data(), slot_bytes};
  }
  rud::ReceiveFifo ReceiveFifo() {
    return {receives.data(), static_cast<uint32_t>(receives.size()),
            &receive_indices, receive_slots.data(), slot_bytes};
  }

  const uint32_t slot_bytes;
  std::vector<urnic_rud_send> sends;
  std::vector<uint8_t> send_slots;
  urnic_queue_indices send_indices = {};
  std::vector<urnic_rud_receive> receives;
  std::vector<uint8_t> receive_slots;
  urnic_queue_indices receive_indices = {};
};

}  // namespace urnic::testing
