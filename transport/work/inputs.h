#pragma once

// The common part of the logs of inputs (ras/inputs) of all transports: what a
// core reads from memory that it shares with others (work queues and keys), and
// the results of its calls that a program sees. The items of each transport are
// in transport/rc/inputs.h and transport/iwarp/qp/inputs.h.
//
// The log has the arguments of a call, and what it will read elsewhere, in
// front of the call, and its results behind it. The engine writes the log
// (datapath/engine/input_tap.h), and the simulator replays it
// (tests/sim/replay.h).

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "transport/mem/mr_table.h"
#include "transport/work/image.h"
#include "transport/work/types.h"

namespace urnic {

// The kinds of items, and their bodies. After the name: `small`, `medium`,
// `large`.
enum class WorkInput : uint8_t {
  // --- What a call reads ---
  kImage = 1,   // the beginning of a segment; begins with CallNow
  kKey,         // mem::MemoryRegion
  kKeyGone,     // large: the key
  kRequest,     // large: its index; the entry of the send ring
  kNoReceives,  // the following are all
  kReceive,     // large: its place behind the oldest; the entry of the ring
  // --- What came of it ---
  kVerdict,      // small: RxVerdict
  kFault,        // small: from_responder, medium: packet; the target
  kOriginal,     // the value that an atomic found
  kSendDone,     // SendCompletion
  kReceiveDone,  // RecvCompletion
  kResult,       // ResultNow: the end of the call

  kOfTransport,  // the first of a transport's own
};

// The body of a call begins with this.
struct CallNow {
  int64_t ns = 0;  // calls without a time: the last one
};

struct ResultNow {
  enum Flags : uint8_t {
    kHasWork = 1,
    kAnswered = 2,
    kTimedOut = 4,
    kReturned = 8,   // true, by a call that is not a step of a flow
    kNoRecords = 16  // iWARP: there was no room for a record of a segment
  };
  ResultNow() = default;
  explicit ResultNow(const FlowResult& result)
      : deadline_ns(result.deadline.ns()),
        state(result.state),
        event(result.event),
        flags(static_cast<uint8_t>((result.has_work ? kHasWork : 0) |
                                   (result.answered ? kAnswered : 0) |
                                   (result.timed_out ? kTimedOut : 0))) {}

  int64_t deadline_ns = 0;   // of calls that return a FlowResult
  uint32_t sq_producer = 0;  // what the call saw of the send ring
  QpState state = QpState::kReset;
  QpEvent event = QpEvent::kNone;
  uint8_t flags = 0;
  uint8_t reserved = 0;
};

// What is written with another layout is not replayed. Sizes do not tell of
// everything: raise `number` with each change of what an item means.
constexpr uint32_t InputLayout(uint32_t number,
                               std::initializer_list<size_t> sizes) {
  uint32_t layout = number;
  for (const size_t bytes : sizes)
    layout = layout * 31 + static_cast<uint32_t>(bytes);
  for (const size_t bytes :
       {sizeof(mem::MemoryRegion), sizeof(SendCompletion),
        sizeof(RecvCompletion), sizeof(urnic_sq_wqe), sizeof(urnic_rq_wqe),
        sizeof(ResultNow), static_cast<size_t>(WorkInput::kOfTransport),
        size_t{kRxVerdictCount}, size_t{kImageVersion}}) {
    layout = layout * 31 + static_cast<uint32_t>(bytes);
  }
  return layout;
}

}  // namespace urnic
