#pragma once

// What a window has for the packets of a group: its own contexts and memory for
// those that the packets name, which are the same for all members (document C:
// "RDMA contexts that are reserved for this use"). Thread: the holder of the
// engine's token.

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/base/mutation.h"
#include "transport/rud/context_pool.h"
#include "transport/rud/tce_tables.h"

namespace urnic::rud {

struct Membership {
  uint32_t key = 0;                 // which packets bear, instead of a window's
  std::vector<ContextId> contexts;  // by their number in the group
  Pvo pvo;                          // where offset 0 of the group is,
  uint64_t bytes = 0;               // and how much of it

  // Nullopt: the group has no such context here.
  std::optional<ContextId> ContextOf(uint32_t number) const {
    MUTATION_ADDS(rud_group_takes_a_context_for_any_number,
                  number %= contexts.size();)
    if (number >= contexts.size()) return std::nullopt;
    return contexts[MUTATION(rud_group_takes_another_context, number,
                             number / 2)];
  }
  // Nullopt: the group has not so much memory here.
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
