#pragma once

// Where the parts of a queue pair lie in its one allocation, which begins a
// page (document E 5.3.2.2):
//
//   page 0    control::Qp, the indices of its rings, the engine's queue pair
//             with the list of its current receive; and its records of
//             requests, if they fit
//   page 1..  the send ring, the receive ring, otherwise the records
//
// Each between marks (ras/marks): uRNIC-EP (the endpoint: control and indices),
// uRNIC-EQ (the engine's), uRNIC-SQ, uRNIC-RQ, uRNIC-WR (records). The receive
// ring follows the send ring at once, so that the marks between them are in one
// page: what is idle has two pages with something in them, and with long queues
// up to four.
//
// All blocks begin at the same place of a page, so the lines that every packet
// touches would compete for the same few sets of a cache. What is in page 0
// begins a line later in each block than in the one before, as far as there is
// room.

#include <cstddef>

#include "datapath/engine/engine_qp.h"
#include "ras/marks/marked_block.h"
#include "verbs/control/queue_memory.h"

namespace urnic::control {

// Around control::Qp and the indices.
inline constexpr Marks kEndpointMarks = MarksOf("EP");

struct QpBlock {
  // Offsets; the rings as in QpLayout.
  size_t control = 0;
  size_t sq_indices = 0;
  size_t rq_indices = 0;
  size_t qp = 0;
  size_t sges = 0;
  size_t sq_ring = 0;
  size_t rq_ring = 0;
  size_t records = 0;
  MarkedBlock parts;

  size_t bytes() const { return parts.bytes(); }
};

// `number`: of the block, for its shift.
QpBlock PlanQpBlock(size_t control_bytes, const EngineQpBytes& engine,
                    const QpLayout& rings, uint32_t number);

}  // namespace urnic::control
