// The packet path allocates nothing: two engines at the two ends of a ring run
// in this thread while an allocation guard counts.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "datapath/engine/engine.h"
#include "tests/support/alloc_guard.h"
#include "tests/support/engine_node.h"
#include "tests/support/iwarp_node.h"
#include "transport/work/request.h"

namespace urnic {
namespace {

using testing::AllocGuard;
using testing::EngineNode;
using testing::NodePair;
using testing::SendWr;

struct Operation {
  const RequestKind* kind;
  uint32_t bytes;

  std::string name() const {
    std::string text = std::string(kind->name) + "_" + std::to_string(bytes);
    std::ranges::replace(text, '-', '_');
    return text;
  }
};

// Every request of a reliable connection, short and long, except bind, local
// and remote invalidate, each of which uses up a memory window.
std::vector<Operation> AllOperations() {
  std::vector<Operation> operations;
  for (const RequestKind& kind : kRequestKinds) {
    if ((kind.services & ServiceBit(QpService::kRc)) == 0 || kind.local() ||
        kind.opcode == URNIC_WR_SEND_WITH_INV) {
      continue;
    }
    if (kind.fixed_length != kAnyLength) {
      operations.push_back({&kind, static_cast<uint32_t>(kind.fixed_length)});
      continue;
    }
    for (const uint32_t bytes : {8u, 4096u})
      operations.push_back({&kind, bytes});
  }
  return operations;
}

class EngineAllocTest : public ::testing::TestWithParam<Operation> {
 protected:
  static constexpr uint32_t kList = 8;
  // A list must complete within this many iterations of both engines.
  static constexpr int kPatience = 100000;

  EngineAllocTest() : nodes_("alloc") {
    const Operation& op = GetParam();
    for (uint32_t i = 0; i < EngineNode::kSendEntries; ++i) {
      SendWr wr{.opcode = op.kind->opcode};
      if (op.bytes != 0) wr.sges = {nodes_.a.Sge(0, op.bytes)};
      wr.remote_addr = nodes_.b.address(65536);
      wr.rkey = nodes_.b.key();
      if (op.kind->family == RequestFamily::kFlush) {
        wr.compare_add = URNIC_FLUSH_GLOBAL;
        wr.swap = 4096;
      }
      nodes_.a.rings().WriteSend(i, wr);
    }
    receives_ = op.kind->takes_receive();
    for (uint32_t i = 0; receives_ && i < EngineNode::kReceiveEntries; ++i) {
      nodes_.b.rings().PostRecv({.sges = {nodes_.b.Sge(0, 8192)}});
    }
  }

  // Posts a list, runs both engines until all of it has completed on both
  // sides, and returns the receives. True on success.
  bool ExchangeList() {
    nodes_.a.RingSend(kList);
    uint32_t sent = 0;
    uint32_t received = receives_ ? 0 : kList;
    for (int i = 0; i < kPatience && (sent < kList || received < kList); ++i) {
      nodes_.b.engine().Progress();
      nodes_.a.engine().Progress();
      urnic_cqe cqe;
      while (nodes_.a.Poll(cqe)) sent += cqe.status == URNIC_WC_SUCCESS;
      while (nodes_.b.Poll(cqe)) received += cqe.status == URNIC_WC_SUCCESS;
    }
    if (receives_) nodes_.b.RingReceive(kList);
    return sent == kList && received == kList;
  }

  NodePair nodes_;
  bool receives_ = false;
};

TEST_P(EngineAllocTest, NothingIsAllocatedAfterTheStart) {
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(ExchangeList());
  bool went_well = true;
  AllocGuard guard;
  for (int i = 0; i < 500; ++i) went_well &= ExchangeList();
  const uint64_t allocations = guard.count();
  EXPECT_TRUE(went_well);
  EXPECT_EQ(allocations, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, EngineAllocTest,
                         ::testing::ValuesIn(AllOperations()),
                         [](const auto& info) { return info.param.name(); });

// Requests of iWARP: messages of one segment and of several, read responses, of
// which copies are kept, and small messages that complete when they are sent.
TEST(IwarpAllocTest, NothingIsAllocatedForEachSegment) {
  testing::IwarpPair pair("iwalloc");
  auto& from = pair.a.Create();
  auto& to = pair.b.Create();
  ASSERT_TRUE(pair.Connect(from, to));
  std::vector<SendWr> requests;
  for (const uint8_t opcode :
       {URNIC_WR_SEND, URNIC_WR_RDMA_WRITE, URNIC_WR_RDMA_READ}) {
    for (const uint32_t bytes : {8u, 4096u}) {
      requests.push_back({.opcode = opcode,
                          .sges = {pair.a.Sge(0, bytes)},
                          .remote_addr = pair.b.address(65536),
                          .rkey = pair.b.key()});
    }
  }
  const testing::RecvWr receive = {.sges = {pair.b.Sge(0, 8192)}};
  const auto exchange = [&] {
    bool well = pair.b.PostReceive(to, receive);
    well &= pair.b.PostReceive(to, receive);
    for (const SendWr& wr : requests) well &= pair.a.PostSend(from, wr);
    size_t left = requests.size() + 2;
    for (int i = 0; i < 100000 && left != 0; ++i) {
      pair.b.engine().Progress();
      pair.a.engine().Progress();
      urnic_cqe cqe;
      while (pair.a.Poll(cqe)) left -= cqe.status == URNIC_WC_SUCCESS;
      while (pair.b.Poll(cqe)) left -= cqe.status == URNIC_WC_SUCCESS;
    }
    return well && left == 0;
  };
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(exchange());
  bool went_well = true;
  AllocGuard guard;
  for (int i = 0; i < 500; ++i) went_well &= exchange();
  const uint64_t allocations = guard.count();
  EXPECT_TRUE(went_well);
  EXPECT_EQ(allocations, 0u);
}

// The guard must see allocations, or the tests above prove nothing.
TEST(AllocGuardTest, SeesNewMallocAndMappings) {
  AllocGuard guard;
  const auto array = std::make_unique<int[]>(100);
  EXPECT_GT(guard.count(), 0u);
  const uint64_t before = guard.count();
  void* volatile block = malloc(10);
  free(block);
  EXPECT_GT(guard.count(), before);
  const uint64_t before_mapping = guard.count();
  void* page =
      mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  munmap(page, 4096);
  EXPECT_EQ(guard.count() > before_mapping, testing::kGuardSeesMappings);
}

}  // namespace
}  // namespace urnic
