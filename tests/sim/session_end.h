#pragma once

// One end of a session (session.h): its program, with its queue pair, rings and
// memory, and what the oracle knows of it.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "ras/inputs/input_log.h"
#include "tests/sim/program_cq.h"
#include "tests/sim/session.h"
#include "tests/support/fake_rings.h"

namespace urnic::sim {

// The contents of memory that was never written.
inline constexpr uint8_t kSessionGuard = 0xee;
inline constexpr size_t kSessionGuardBytes = 32;  // after each slot
// The program's memory address for the RNIC, the same in each run.
inline constexpr uint64_t kSessionIova = 0x40000000;
inline constexpr uint32_t kSessionRights =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead |
    mem::kRemoteAtomic;
inline constexpr uint32_t kSessionReads = 4;  // at a time

// A request of one end.
struct Session::Message {
  uint64_t number = 0;
  uint8_t opcode = 0;
  uint32_t bytes = 0;
  uint32_t slot = 0;     // of kLocal; of a read also the peer's kRead
  uint32_t written = 0;  // of a write: the peer's kWritten
  uint64_t place = 0;    // among the atomics
  bool writes() const {
    return opcode == URNIC_WR_RDMA_WRITE ||
           opcode == URNIC_WR_RDMA_WRITE_WITH_IMM;
  }
  bool takes_receive() const {
    return opcode == URNIC_WR_SEND || opcode == URNIC_WR_SEND_WITH_IMM ||
           opcode == URNIC_WR_RDMA_WRITE_WITH_IMM;
  }
};

// What may be in a slot: the bytes of a message, or nothing.
struct Session::Slot {
  uint64_t pattern = 0;
  uint32_t bytes = 0;
};

struct Session::End final : EngineEvents, QpEvents, ConnectionEvents {
  End(Session& session, EngineHost& host, uint32_t index)
      : session(session),
        host(host),
        index(index),
        memory(static_cast<size_t>(Area::kAreas) * kSlots * session.stride_ + 8,
               kSessionGuard) {}

  void OnCompletionEvent(CompletionQueue&) override {
    session.Plan(*this, Duration::Nanoseconds(300));
  }
  void OnCqOverflow(CompletionQueue&) override {
    Violate("a completion queue has overflowed");
  }
  void OnQpEvent(EngineQp&, QpEvent) override {}
  void OnConnectionEvent(IwarpConnection& told, iwarp::Event event) override {
    session.OnEvent(*this, told, event);
  }
  uint64_t address(size_t offset) const { return kSessionIova + offset; }
  size_t counter() const { return memory.size() - 8; }

  Session& session;
  EngineHost& host;
  uint32_t index;
  std::vector<uint8_t> memory;
  uint32_t key = 0;  // 0: the memory is not registered

  // What is new in each life.
  struct Life {
    IwarpConnection* connection = nullptr;
    std::unique_ptr<testing::FakeRings> rings;
    std::unique_ptr<ProgramCq> cqs[2];
    IwarpQp* qp = nullptr;
    std::shared_ptr<InputLog> inputs;
    bool requested = false;  // the passive end: a request has come
    bool answered = false;   // and was accepted
    bool connected = false;
    bool ended = false;        // told of the end
    bool send_failed = false;  // a completion with an error
    bool receive_failed = false;
    bool left = false;  // has nothing any more
    bool sleeps = false;
    std::vector<uint8_t> last_memory;  // when the queue pair went
    std::deque<Message> requests;      // posted and not completed
    std::deque<Message> heard;         // the peer's, not received yet
    std::deque<Message> unconfirmed;   // writes: completed, perhaps not there
    Slot slots[static_cast<size_t>(Area::kAreas)][kSlots] = {};
    uint32_t local_used = 0;    // slots, a bit each
    uint32_t written_used = 0;  // the peer's
    uint32_t posted = 0;
    uint64_t receives_asked = 0;
    uint64_t receives_posted = 0;
    uint64_t receives_done = 0;
    uint64_t atomics = 0;
    uint64_t atomics_done = 0;
  };
  Life life;
  bool planned = false;
};

}  // namespace urnic::sim
