#include "transport/work/request.h"

#include <gtest/gtest.h>

#include <set>

namespace urnic {
namespace {

TEST(RequestTest, EachRequestHasOneRowAndAllAreFound) {
  std::set<uint8_t> opcodes;
  std::set<std::string_view> names;
  for (const RequestKind& kind : kRequestKinds) {
    EXPECT_TRUE(opcodes.insert(kind.opcode).second) << kind.name;
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_EQ(FindRequest(kind.opcode), &kind);
    EXPECT_NE(kind.services, 0) << kind.name;
  }
  EXPECT_EQ(opcodes.size(), 12u);
}

TEST(RequestTest, AnUnknownRequestIsNotFound) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    const auto number = static_cast<uint8_t>(opcode);
    const bool known = opcode <= 9 || opcode == 14 || opcode == 15;
    EXPECT_EQ(FindRequest(number) != nullptr, known) << opcode;
    if (!known) {
      EXPECT_EQ(CompletionOpcode(number), URNIC_WC_SEND);
    }
  }
}

// The same as in ibv_post_send(3).
//= IBTA 10.7.2.2
TEST(RequestTest, ServicesHaveTheRequestsOfTheSpecification) {
  EXPECT_EQ(RequestsOf(QpService::kUd),
            RequestBit(URNIC_WR_SEND) | RequestBit(URNIC_WR_SEND_WITH_IMM));
  const RequestSet uc = RequestsOf(QpService::kUc);
  EXPECT_TRUE(Contains(uc, URNIC_WR_RDMA_WRITE_WITH_IMM));
  EXPECT_FALSE(Contains(uc, URNIC_WR_RDMA_READ));
  EXPECT_FALSE(Contains(uc, URNIC_WR_SEND_WITH_INV));
  EXPECT_FALSE(Contains(uc, URNIC_WR_ATOMIC_FETCH_AND_ADD));
  EXPECT_EQ(RequestsOf(QpService::kRc), kAllRequests);
  EXPECT_EQ(RequestsOf(QpService::kXrcInitiator), kAllRequests);
  EXPECT_EQ(RequestsOf(QpService::kXrcTarget), 0u);
}

//= RFC 5040 4.2, RFC 7306 4.1
TEST(RequestTest, IwarpHasTheRequestsThatItHasMessagesFor) {
  EXPECT_EQ(RequestsOf(QpService::kIwarp),
            kAllRequests & ~(RequestBit(URNIC_WR_FLUSH) |
                             RequestBit(URNIC_WR_ATOMIC_WRITE)));
}

// The numbers of enum ibv_wc_opcode, which programs see.
TEST(RequestTest, CompletionsHaveTheOpcodesOfTheirRequests) {
  EXPECT_EQ(CompletionOpcode(URNIC_WR_SEND_WITH_INV), 0);
  EXPECT_EQ(CompletionOpcode(URNIC_WR_RDMA_WRITE_WITH_IMM), 1);
  EXPECT_EQ(CompletionOpcode(URNIC_WR_RDMA_READ), 2);
  EXPECT_EQ(CompletionOpcode(URNIC_WR_ATOMIC_CMP_AND_SWP), 3);
  EXPECT_EQ(CompletionOpcode(URNIC_WR_ATOMIC_FETCH_AND_ADD), 4);
  EXPECT_EQ(CompletionOpcode(URNIC_WR_BIND_MW), 5);
  EXPECT_EQ(CompletionOpcode(URNIC_WR_LOCAL_INV), 6);
  EXPECT_EQ(CompletionOpcode(URNIC_WR_FLUSH), 8);
  EXPECT_EQ(CompletionOpcode(URNIC_WR_ATOMIC_WRITE), 9);
}

TEST(RequestTest, NoRequestIsInMutuallyExclusiveSets) {
  EXPECT_EQ(kScatteringRequests & kGatheringRequests, 0u);
  EXPECT_EQ(kLocalRequests & (kAnsweredRequests | kGatheringRequests), 0u);
  EXPECT_EQ(kRequestsThatTakeAReceive & kAnsweredRequests, 0u);
  EXPECT_EQ(kRequestsAnsweredAsReads & ~kAnsweredRequests, 0u);
}

}  // namespace
}  // namespace urnic
