#pragma once

// A window as a member of a multicast group. Packets to a group contain numbers
// that are the same for all members. This says which of the window's contexts,
// and which of its memory, they refer to (document C: "RDMA contexts that are
// reserved for this use"). Thread: the holder of the engine's token.

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/base/mutation.h"
#include "transport/rud/context_pool.h"
#include "transport/rud/tce_tables.h"

namespace urnic::rud {

struct Membership {
  uint32_t key = 0;                 // of packets to the group
  std::vector<ContextId> contexts;  // by index in the group
  Pvo pvo;                          // offset 0 of the group's memory
  uint64_t bytes = 0;               // length of this memory

  // Nullopt: no context has this index.
  std::optional<ContextId> ContextOf(uint32_t number) const {
    MUTATION_ADDS(rud_group_takes_a_context_for_any_number,
                  number %= contexts.size();)
    if (number >= contexts.size()) return std::nullopt;
    return contexts[MUTATION(rud_group_takes_another_context, number,
                             number / 2)];
  }
  // Nullopt: the range is not within the group's memory.
  std::optional<Pvo> PvoOf(uint64_t offset, uint32_t length) const {
    MUTATION_SKIPS(rud_group_has_no_bounds)
    if (MUTATION(rud_group_adds_offsets_that_overflow,
                 offset > bytes || length > bytes - offset,
                 offset + length > bytes))
      return std::nullopt;
    return Pvo{pvo.value + offset};
  }
};

}  // namespace urnic::rud
