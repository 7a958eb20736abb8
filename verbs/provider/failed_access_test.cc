// What the error log tells of an access that failed: which memory, and why not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "verbs/provider/testing/logged.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

std::string Hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "0x%lx", static_cast<unsigned long>(value));
  return text;
}

std::string Memory(uint64_t address, uint32_t bytes,
                   const std::string& key_name, uint32_t key) {
  return std::to_string(bytes) + " bytes at " + Hex(address) + " with " +
         key_name + " " + Hex(key);
}

constexpr uint32_t kBytes = 4096;

struct Access {
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  std::string operation = "write";
  size_t offset = 0;
  unsigned rights = kAllRights;  // of the peer's region of kBytes
  // The key that is used instead of that of the region.
  std::function<uint32_t(Pair& pair, uint32_t key)> other_key = nullptr;
};

// The access to 8 bytes is refused: both sides tell which, and the peer why.
void ExpectRefused(const Access& access,
                   const std::function<std::string(Pair&)>& reason) {
  std::string memory;
  std::string why;
  const auto lines = LogOf([&](OpenDevice& device) {
    Pair pair(device, {});
    ibv_mr* mr =
        ibv_reg_mr(pair.b.pd(), pair.b.memory(), kBytes, access.rights);
    const uint32_t key = access.other_key == nullptr
                             ? mr->rkey
                             : access.other_key(pair, mr->rkey);
    const uint64_t address = pair.b.address(access.offset);
    memory = Memory(address, 8, "rkey", key);
    why = reason(pair);
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)},
                              [&](ibv_send_wr& wr) {
                                wr.opcode = access.opcode;
                                wr.wr.rdma.remote_addr = address;
                                wr.wr.rdma.rkey = key;
                              }),
              0);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  });
  EXPECT_THAT(lines,
              Contains(AllOf(HasSubstr("URN1003"),
                             HasSubstr("of a request (" + access.operation +
                                       ") for " + memory))));
  EXPECT_THAT(lines,
              Contains(AllOf(HasSubstr("URN1902"),
                             HasSubstr("operation\":\"" + access.operation),
                             HasSubstr("a request (" + access.operation +
                                       ") for " + memory + ": " + why))));
}

TEST(FailedAccessTest, ARangeThatEndsBehindTheRegionIsTold) {
  const auto reason = [](Pair& pair) {
    return "the region has 4096 bytes at " + Hex(pair.b.address());
  };
  ExpectRefused({.offset = kBytes - 4}, reason);
  ExpectRefused(
      {.opcode = IBV_WR_RDMA_READ, .operation = "read", .offset = kBytes - 4},
      reason);
}

TEST(FailedAccessTest, AKeyThatIsNoneIsTold) {
  ExpectRefused({.opcode = IBV_WR_RDMA_READ,
                 .operation = "read",
                 .other_key = [](Pair&, uint32_t key) { return key ^ 1; }},
                [](Pair&) { return "the key is not valid"; });
}

TEST(FailedAccessTest, AKeyOfAnotherDomainIsTold) {
  ExpectRefused(
      {.other_key = [](Pair& pair, uint32_t) { return pair.a.mr()->rkey; }},
      [](Pair&) { return "the key belongs to another protection domain"; });
}

TEST(FailedAccessTest, AMissingRightIsTold) {
  ExpectRefused({.rights = IBV_ACCESS_REMOTE_READ},
                [](Pair&) { return "the key does not give the right"; });
}

// Every service has send queues and receive queues.
TEST(FailedAccessTest, TheElementWithAWrongKeyIsTold) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    std::string why;
    const auto lines = LogOf([&](OpenDevice& device) {
      PairOptions options;
      options.type = type;
      Pair pair(device, options);
      ibv_sge sge = pair.a.Sge(64, 16);
      sge.lkey ^= 0x100;
      why = "element 2 of 2, " + Memory(sge.addr, 16, "lkey", sge.lkey) +
            ": the key is not valid";
      EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8), sge}), 0);
      EXPECT_EQ(pair.a.Poll().status, IBV_WC_LOC_PROT_ERR);
    });
    EXPECT_THAT(lines, Contains(AllOf(HasSubstr("URN1008"), HasSubstr(why),
                                      HasSubstr("operation\":\"send"))))
        << type;
  }
}

TEST(FailedAccessTest, TheElementOfAReceiveWithAWrongKeyIsTold) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    std::string why;
    const auto lines = LogOf([&](OpenDevice& device) {
      PairOptions options;
      options.type = type;
      Pair pair(device, options);
      ibv_sge sge = pair.b.Sge(64, 16);
      sge.lkey ^= 0x100;
      why = "element 1 of 1, " + Memory(sge.addr, 16, "lkey", sge.lkey) +
            ": the key is not valid";
      EXPECT_EQ(pair.b.PostRecv(1, {sge}), 0);
      EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
      EXPECT_EQ(pair.b.Poll().status, IBV_WC_LOC_PROT_ERR);
    });
    EXPECT_THAT(lines, Contains(AllOf(HasSubstr("URN1008"), HasSubstr(why),
                                      HasSubstr("operation\":\"receive"))))
        << type;
  }
}

// Nobody is told of it in a completion. Later ones are only counted.
TEST(FailedAccessTest, TheFirstRefusedWriteOfUcIsTold) {
  std::string why;
  const auto lines = LogOf([&](OpenDevice& device) {
    PairOptions options;
    options.type = IBV_QPT_UC;
    Pair pair(device, options);
    const uint32_t key = pair.b.mr()->rkey ^ 1;
    why = "a request (write) for " + Memory(pair.b.address(), 8, "rkey", key) +
          ": the key is not valid";
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)},
                                [&](ibv_send_wr& wr) {
                                  wr.opcode = IBV_WR_RDMA_WRITE;
                                  wr.wr.rdma.remote_addr = pair.b.address();
                                  wr.wr.rdma.rkey = key;
                                }),
                0);
      EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
    }
    EXPECT_TRUE(pair.b.Quiet());
    EXPECT_EQ(pair.b.State(), IBV_QPS_RTS);
  });
  EXPECT_EQ(std::ranges::count_if(lines,
                                  [](const std::string& line) {
                                    return line.find("URN1010") !=
                                           std::string::npos;
                                  }),
            1);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("URN1010"), HasSubstr(why),
                                    HasSubstr("operation\":\"write"))));
}

void ConnectForDatagrams(ibv_qp* qp) {
  ibv_qp_attr a = {};
  a.port_num = 1;
  a.qp_state = IBV_QPS_INIT;
  EXPECT_EQ(
      ibv_modify_qp(
          qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
      0);
  a.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
  a.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

TEST(FailedAccessTest, ADatagramsWrongKeyIsTold) {
  std::string why;
  const auto lines = LogOf([&](OpenDevice& device) {
    PairOptions options;
    options.type = IBV_QPT_UD;
    End end(device, options);
    ConnectForDatagrams(end.qp());
    ibv_ah_attr to = {};
    ibv_query_gid(device, 1, kGidIndexIpv4, &to.grh.dgid);
    to.is_global = 1;
    to.port_num = 1;
    to.grh.sgid_index = kGidIndexIpv4;
    ibv_ah* ah = ibv_create_ah(end.pd(), &to);
    ASSERT_NE(ah, nullptr);
    ibv_sge sge = end.Sge(64, 16);
    sge.lkey ^= 0x100;
    why = "element 1 of 1, " + Memory(sge.addr, 16, "lkey", sge.lkey) +
          ": the key is not valid";
    EXPECT_EQ(end.PostSend({sge},
                           [&](ibv_send_wr& wr) {
                             wr.wr.ud.ah = ah;
                             wr.wr.ud.remote_qpn = end.qp()->qp_num;
                           }),
              0);
    EXPECT_EQ(end.Poll().status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
  });
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("URN1008"), HasSubstr(why))));
}

}  // namespace
}  // namespace urnic
