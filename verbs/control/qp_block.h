#pragma once

// The layout of a queue pair's allocation, which begins at a page boundary
// (document E 5.3.2.2):
//
//   page 0    control::Qp, the indices of its rings, the engine's queue pair
//             with the list of its current receive; and its records of
//             requests, if they fit
//   page 1..  the send ring, the receive ring, and the records if they do not
//             fit into page 0
//
// Marks (ras/marks) surround each part: uRNIC-EP (the endpoint: control and
// indices), uRNIC-EQ (the engine's queue pair), uRNIC-SQ, uRNIC-RQ, uRNIC-WR
// (records). The receive ring directly follows the send ring, so that the marks
// between them are in one page. So an idle queue pair has two resident pages,
// or up to four if its queues are long.
//
// All blocks begin at a page boundary, so the cache lines that every packet
// touches would compete for the same few sets of a cache. Therefore the
// contents of page 0 begin one line later in each block than in the previous
// one, as long as there is room.

#include <cstddef>

#include "datapath/engine/engine_qp.h"
#include "ras/marks/marked_block.h"
#include "verbs/control/queue_memory.h"

namespace urnic::control {

// The marks around control::Qp and the indices.
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

// `number`: the number of the block, which determines the shift of page 0.
QpBlock PlanQpBlock(size_t control_bytes, const EngineQpBytes& engine,
                    const QpLayout& rings, uint32_t number);

}  // namespace urnic::control
