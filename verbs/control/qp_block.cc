#include "verbs/control/qp_block.h"

#include <algorithm>

#include "datapath/engine/engine.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic::control {
namespace {

constexpr size_t kPage = MarkedBlock::kPage;
constexpr size_t kLine = URNIC_ABI_LINE;
constexpr size_t kMark = sizeof(uint64_t);

constexpr Marks kEngine = MarksOf("EQ");
constexpr Marks kSend = MarksOf("SQ");
constexpr Marks kReceive = MarksOf("RQ");
constexpr Marks kRecords = MarksOf("WR");

// Page 0.
void AddFixedParts(size_t control_bytes, const EngineQpBytes& engine,
                   bool with_records, QpBlock& block) {
  // The mark is on the first line of control::Qp, because posting checks it.
  const size_t mark = RoundUp(block.bytes(), kLine);
  const size_t indices = RoundUp(kMark + control_bytes, kLine) - kMark;
  block.control = block.parts.AddAt(
      mark + kMark, indices + 2 * sizeof(urnic_queue_indices), &kEndpointMarks);
  block.sq_indices = block.control + indices;
  block.rq_indices = block.sq_indices + sizeof(urnic_queue_indices);
  const size_t sges = RoundUp(engine.qp, sizeof(urnic_sge));
  block.qp = block.parts.Add(sges + engine.sges, kLine, &kEngine);
  block.sges = block.qp + sges;
  if (with_records)
    block.records = block.parts.Add(engine.records, kLine, &kRecords);
}

// The free lines of page 0, not counting the mark of the first ring.
size_t SpareLines(size_t control_bytes, const EngineQpBytes& engine,
                  bool with_records) {
  QpBlock block;
  AddFixedParts(control_bytes, engine, with_records, block);
  const size_t used = block.bytes() + kMark;
  return used < kPage ? (kPage - used) / kLine : 0;
}

}  // namespace

QpBlock PlanQpBlock(size_t control_bytes, const EngineQpBytes& engine,
                    const QpLayout& rings, uint32_t number) {
  // Sending uses a record, so it should be in a page that sending uses anyway.
  constexpr size_t kLeastSpare = 8;
  const bool fit = SpareLines(control_bytes, engine, true) >= kLeastSpare;
  const size_t spare = SpareLines(control_bytes, engine, fit);
  QpBlock block{.parts = MarkedBlock(number % (spare + 1) * kLine)};
  AddFixedParts(control_bytes, engine, fit, block);
  const size_t sq = size_t{rings.sq_entries} * rings.sq_stride;
  const size_t rq = size_t{rings.rq_entries} * rings.rq_stride;
  block.sq_ring = block.parts.Add(sq, kPage, &kSend);
  block.rq_ring = block.parts.Add(rq, kLine, &kReceive);
  if (!fit) block.records = block.parts.Add(engine.records, kLine, &kRecords);
  return block;
}

}  // namespace urnic::control
