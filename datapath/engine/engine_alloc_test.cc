// The whole packet path allocates nothing: two engines at the two ends of a
// ring, in this thread, while an allocation guard counts.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "tests/support/alloc_guard.h"
#include "tests/support/engine_node.h"

namespace urnic {
namespace {

using testing::AllocGuard;
using testing::EngineNode;
using testing::NodePair;
using testing::SendWr;

struct Operation {
  const char* name;
  uint8_t opcode;
  uint32_t bytes;
};

constexpr Operation kOperations[] = {
    {"send_8", URNIC_WR_SEND, 8},
    {"send_4096", URNIC_WR_SEND, 4096},
    {"write_8", URNIC_WR_RDMA_WRITE, 8},
    {"write_4096", URNIC_WR_RDMA_WRITE, 4096},
    {"write_with_imm_8", URNIC_WR_RDMA_WRITE_WITH_IMM, 8},
    {"read_8", URNIC_WR_RDMA_READ, 8},
    {"read_4096", URNIC_WR_RDMA_READ, 4096},
    {"fetch_add", URNIC_WR_ATOMIC_FETCH_AND_ADD, 8},
    {"compare_swap", URNIC_WR_ATOMIC_CMP_AND_SWP, 8},
};

class EngineAllocTest : public ::testing::TestWithParam<Operation> {
 protected:
  static constexpr uint32_t kList = 8;
  // Iterations of both engines within which a list must be through.
  static constexpr int kPatience = 100000;

  EngineAllocTest() : nodes_("alloc") {
    const Operation& op = GetParam();
    for (uint32_t i = 0; i < EngineNode::kSendEntries; ++i) {
      SendWr wr{.opcode = op.opcode};
      wr.sges = {nodes_.a.Sge(0, op.bytes)};
      wr.remote_addr = nodes_.b.address(65536);
      wr.rkey = nodes_.b.key();
      nodes_.a.rings().WriteSend(i, wr);
    }
    receives_ =
        op.opcode == URNIC_WR_SEND || op.opcode == URNIC_WR_RDMA_WRITE_WITH_IMM;
    for (uint32_t i = 0; receives_ && i < EngineNode::kReceiveEntries; ++i) {
      nodes_.b.rings().PostRecv({.sges = {nodes_.b.Sge(0, 8192)}});
    }
  }

  // Posts a list, runs both engines until all has completed on both sides, and
  // gives back the receives. Whether it went well.
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

TEST_P(EngineAllocTest, NothingIsAllocatedOnceItRuns) {
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(ExchangeList());
  bool went_well = true;
  AllocGuard guard;
  for (int i = 0; i < 500; ++i) went_well &= ExchangeList();
  const uint64_t allocations = guard.count();
  EXPECT_TRUE(went_well);
  EXPECT_EQ(allocations, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, EngineAllocTest, ::testing::ValuesIn(kOperations),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// A guard that sees nothing proves nothing.
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
