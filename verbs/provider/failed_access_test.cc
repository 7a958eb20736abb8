// What the error log tells of an access that failed: which memory, and why not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("URN1902"),
                                    HasSubstr(memory + ": " + why))));
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

TEST(FailedAccessTest, TheElementWithAWrongKeyIsTold) {
  std::string why;
  const auto lines = LogOf([&](OpenDevice& device) {
    Pair pair(device, {});
    ibv_sge sge = pair.a.Sge(64, 16);
    sge.lkey ^= 0x100;
    why = "element 2 of 2, " + Memory(sge.addr, 16, "lkey", sge.lkey) +
          ": the key is not valid";
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8), sge}), 0);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_LOC_PROT_ERR);
  });
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("URN1008"), HasSubstr(why))));
}

}  // namespace
}  // namespace urnic
