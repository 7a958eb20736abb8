// The engine with iWARP: two ends of a connection on a ring in this process, in
// one thread. The counterpart of engine_loops.cc.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/loops.h"
#include "datapath/engine/engine.h"
#include "datapath/memory/guarded_memory.h"
#include "tests/support/iwarp_node.h"

namespace urnic::bench {
namespace {

using testing::IwarpNode;
using testing::IwarpPair;
using testing::SendWr;

constexpr uint32_t kBurst = 32;
constexpr size_t kStride = 8192 + 192;  // see memory_loops.cc

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "iwarp loop: %s\n", what);
  std::exit(1);
}

// One end: a node and its queue pair.
struct End {
  IwarpNode* node;
  IwarpNode::Program* program;

  void PostRecv() {
    std::atomic_ref(program->rings.rq().indices().producer)
        .fetch_add(1, std::memory_order_release);
    if (program->qp->wants_recv_doorbell()) {
      node->engine().Doorbell(*program->qp);
    }
  }
  void Post(uint32_t count) {
    std::atomic_ref(program->rings.sq().indices().producer)
        .fetch_add(count, std::memory_order_release);
    node->engine().Doorbell(*program->qp);
  }
  bool Poll() {
    urnic_cqe cqe;
    if (!node->Poll(cqe)) return false;
    if (cqe.status != URNIC_WC_SUCCESS) Fail("a completion in error");
    return true;
  }
  void Await() {
    while (!Poll()) {
      if (!node->engine().Progress()) Fail("token is taken");
    }
  }
};

struct Ends {
  End a;
  End b;
};

// Engines live as long as the process, as in programs.
Ends Connected(const char* name) {
  InstallMemoryGuard(nullptr, nullptr);
  auto* const pair = new IwarpPair(name);
  Ends ends{{&pair->a, &pair->a.Create()}, {&pair->b, &pair->b.Create()}};
  if (!pair->Connect(*ends.a.program, *ends.b.program)) Fail("no connection");
  return ends;
}

Ends& WriteEnds() {
  static Ends ends = Connected("iwarp-bench");
  return ends;
}

// Between two calls, a message is under way to `a`.
Ends& PingPongEnds() {
  static Ends ends = [] {
    Ends made = Connected("iwarp-trip");
    for (End* end : {&made.a, &made.b}) {
      auto& rings = end->program->rings;
      SendWr wr;
      wr.inline_data = {1, 2};
      for (uint32_t i = 0; i < rings.sq().entries(); ++i) {
        rings.WriteSend(i, wr);
      }
      while (rings.PostRecv({.sges = {end->node->Sge(0, 2)}})) {
      }
    }
    made.a.Post(1);
    made.b.Await();
    made.b.PostRecv();
    made.b.Post(1);
    return made;
  }();
  return ends;
}

// `count` writes in one list: the poster's doorbell, the peer's receive and
// acknowledgement, the poster's completion.
void Writes(benchmark::State& state, uint32_t bytes, uint32_t count) {
  Ends& ends = WriteEnds();
  auto& sq = ends.a.program->rings.sq();
  for (uint32_t i = 0; i < sq.entries(); ++i) {
    SendWr wr;
    wr.opcode = URNIC_WR_RDMA_WRITE;
    wr.flags = i % count == count - 1 ? URNIC_SEND_SIGNALED : 0;
    wr.sges = {ends.a.node->Sge(kStride * (i % kBurst), bytes)};
    wr.remote_addr = ends.b.node->address(kStride * (i % kBurst));
    wr.rkey = ends.b.node->key();
    ends.a.program->rings.WriteSend(i, wr);
  }
  Measure(state, count, [&] {
    ends.a.Post(count);
    ends.b.node->engine().Progress();
    while (!ends.a.Poll()) {
      if (!ends.a.node->engine().Progress()) Fail("token is taken");
      ends.b.node->engine().Progress();
    }
  });
}

// As engine/half_trip: half a trip of ib_send_lat, without the verbs.
void HalfTrip(benchmark::State& state) {
  Ends& ends = PingPongEnds();
  Measure(state, 2, [&] {
    for (End* end : {&ends.a, &ends.b}) {
      end->Await();
      end->Await();
      end->PostRecv();
      end->Post(1);
    }
  });
}

}  // namespace

void AddIwarpLoops(std::vector<Loop>& loops) {
  for (const uint32_t bytes : {8, 4096}) {
    for (const uint32_t count : {1, 32}) {
      loops.push_back(
          {"engine/iwarp/write/" + std::to_string(bytes) + "/list_of_" +
               std::to_string(count),
           [=](benchmark::State& state) { Writes(state, bytes, count); }});
    }
  }
  loops.push_back({"engine/iwarp/half_trip", HalfTrip});
}

}  // namespace urnic::bench
