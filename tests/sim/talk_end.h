#pragma once

// One end of a talk (talk.h): its program, with its queue pair, rings and
// memory, and what the oracle knows of it.

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tests/sim/program_cq.h"
#include "tests/sim/talk.h"
#include "tests/support/fake_rings.h"

namespace urnic::sim {

// The contents of memory that was never written.
inline constexpr uint8_t kTalkGuard = 0xee;
inline constexpr size_t kTalkGuardBytes = 32;  // after each slot
// The program's memory address for the RNIC, the same in each run.
inline constexpr uint64_t kTalkIova = 0x40000000;
inline constexpr uint32_t kTalkRights = mem::kLocalWrite | mem::kRemoteWrite |
                                        mem::kRemoteRead | mem::kRemoteAtomic;
// The program's pause between two looks.
inline constexpr Duration kTalkPause = Duration::Microseconds(20);

// A request of one end.
struct Talk::Message {
  uint64_t number = 0;
  uint8_t opcode = 0;
  uint32_t bytes = 0;
  uint32_t slot = 0;
  uint64_t place = 0;  // among those that take a receive; among atomics
  uint64_t heard = 0;  // sends of the peer that were received before
  bool takes_receive() const {
    return opcode == URNIC_WR_SEND || opcode == URNIC_WR_SEND_WITH_IMM ||
           opcode == URNIC_WR_RDMA_WRITE_WITH_IMM;
  }
};

struct Talk::End final : EngineEvents, QpEvents {
  End(Talk& talk, EngineHost& host, uint32_t index)
      : talk(talk),
        host(host),
        index(index),
        memory(static_cast<size_t>(Area::kAreas) * kSlots * talk.stride_ + 64,
               kTalkGuard) {}

  void OnCompletionEvent(CompletionQueue&) override {
    talk.Plan(*this, Duration::Nanoseconds(300));
  }
  void OnCqOverflow(CompletionQueue&) override {
    Violate("a completion queue has overflowed");
  }
  void OnQpEvent(EngineQp&, QpEvent event) override {
    if (event != QpEvent::kCommEstablished) return;
    host.Later(
        [this] { (void)host.cm().EstablishByTraffic(handle, host.sink()); });
  }
  uint64_t address(size_t offset) const { return kTalkIova + offset; }
  size_t counter() const { return memory.size() - 64; }

  Talk& talk;
  EngineHost& host;
  uint32_t index;
  std::vector<uint8_t> memory;
  uint32_t key = 0;

  // Of one life.
  cm::Handle handle;
  std::unique_ptr<testing::FakeRings> rings;
  std::unique_ptr<ProgramCq> cqs[2];
  RoceQp* qp = nullptr;
  bool established = false;
  bool failed = false;
  bool left = false;  // the connection manager is done with it
  bool sleeps = false;
  bool planned = false;
  Psn first_psn;
  std::deque<urnic_cqe> fetched;
  uint64_t fetched_receives = 0;
  std::deque<Message> requests;  // posted and not completed
  std::deque<Message> heard;     // the peer's, not received yet
  uint32_t slots_used = 0;       // a bit each
  uint64_t posted = 0;
  uint64_t completed = 0;
  uint64_t receives_asked = 0;  // sends and writes with immediate, posted
  uint64_t sends_completed = 0;
  uint64_t receives_posted = 0;
  uint64_t receives_done = 0;
  uint64_t atomics = 0;
};

}  // namespace urnic::sim
