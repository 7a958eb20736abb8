// Addresses that `urnic addr` changes while a program runs, and what the
// program sees: events, GID queries, queue pairs, address handles.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "verbs/cli/rnic_process.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

using ::testing::HasSubstr;

constexpr char kAddress[] = "10.9.0.7/24";
constexpr int kGidIndexNew = 7;

class AddressChangeTest : public testing::Test {
 protected:
  ~AddressChangeTest() override {
    // For the next test: GID tables outlive devices.
    (void)Ask(absl::StrCat("addr del ", kAddress));
  }
  // What `urnic addr` does.
  static absl::StatusOr<std::string> Ask(const std::string& request) {
    auto rnic = FindOneRnic("urnic0", std::to_string(getpid()));
    return rnic.ok() ? AskRnic(*rnic, request) : rnic.status();
  }
  void Change(const std::string& verb) {
    const auto answer = Ask(absl::StrCat("addr ", verb, " ", kAddress));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(*answer, absl::StrCat("6 ", kAddress, "\n"));
    ibv_async_event event = {};
    ASSERT_EQ(ibv_get_async_event(device_, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_GID_CHANGE);
    EXPECT_EQ(event.element.port_num, 1);
    ibv_ack_async_event(&event);
  }
  static ibv_ah_attr ToOurselves(int index) {
    ibv_ah_attr attr = {};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.sgid_index = static_cast<uint8_t>(index);
    const uint8_t first[16] = {0, 0, 0,    0,    0,  0, 0, 0,
                               0, 0, 0xff, 0xff, 10, 9, 0, 1};
    std::memcpy(attr.grh.dgid.raw, first, sizeof(first));
    return attr;
  }
  ssize_t TableSize() {
    ibv_gid_entry entries[64];
    return ibv_query_gid_table(device_, entries, 64, 0);
  }

  OpenDevice device_;
};

TEST_F(AddressChangeTest, QueriesShowTheCurrentTable) {
  ibv_gid gid = {};
  ibv_gid_entry entry = {};
  const ibv_gid kNone = {};
  const ssize_t before = TableSize();
  EXPECT_NE(ibv_query_gid_ex(device_, 1, kGidIndexNew, &entry, 0), 0);
  Change("add");
  ASSERT_EQ(ibv_query_gid(device_, 1, kGidIndexNew, &gid), 0);
  EXPECT_EQ(gid.raw[15], 7);
  EXPECT_EQ(gid.raw[10], 0xff);
  ASSERT_EQ(ibv_query_gid_ex(device_, 1, kGidIndexNew, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, uint32_t{IBV_GID_TYPE_ROCE_V2});
  ASSERT_EQ(ibv_query_gid_ex(device_, 1, kGidIndexNew - 1, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, uint32_t{IBV_GID_TYPE_ROCE_V1});
  EXPECT_EQ(TableSize(), before + 2);
  Change("del");
  ASSERT_EQ(ibv_query_gid(device_, 1, kGidIndexNew, &gid), 0);
  EXPECT_EQ(std::memcmp(&gid, &kNone, sizeof(gid)), 0);
  EXPECT_NE(ibv_query_gid_ex(device_, 1, kGidIndexNew, &entry, 0), 0);
  EXPECT_EQ(TableSize(), before);
}

TEST_F(AddressChangeTest, QueuePairsFailWithTheirAddress) {
  Change("add");
  PairOptions options;
  options.gid_index = kGidIndexNew;
  Pair pair(device_, options);
  PairOptions others;
  others.gid_index = kGidIndexIpv4;
  Pair stays(device_, others);
  EXPECT_EQ(pair.b.PostRecv(0, {pair.b.Sge(0, 8)}), 0);
  EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
  EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.PostRecv(1, {pair.a.Sge(0, 8)}), 0);
  ASSERT_TRUE(Ask(absl::StrCat("addr del ", kAddress)).ok());
  for (const int type :
       {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_FATAL, IBV_EVENT_GID_CHANGE}) {
    ibv_async_event event = {};
    ASSERT_EQ(ibv_get_async_event(device_, &event), 0);
    EXPECT_EQ(event.event_type, type);
    ibv_ack_async_event(&event);
  }
  EXPECT_EQ(pair.a.Poll().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.State(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.State(), IBV_QPS_ERR);
  EXPECT_EQ(stays.a.State(), IBV_QPS_RTS);
  const auto errors = Ask("show error");
  ASSERT_TRUE(errors.ok());
  EXPECT_THAT(*errors, HasSubstr("URN1916"));
}

TEST_F(AddressChangeTest, AnIndexIsRefusedWhileItIsEmpty) {
  PairOptions options;
  End end(device_, options);
  options.gid_index = kGidIndexNew;
  End early(device_, options);
  ibv_ah_attr attr = ToOurselves(kGidIndexNew);
  EXPECT_EQ(ibv_create_ah(end.pd(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(early.ToInit(), 0);
  early.set_peer(end);
  EXPECT_EQ(early.ToRtr(end.qp()->qp_num), EINVAL);
  Change("add");
  ibv_ah* ah = ibv_create_ah(end.pd(), &attr);
  ASSERT_NE(ah, nullptr);
  // A handle outlives its address; its packets are lost then.
  Change("del");
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_create_ah(end.pd(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(AddressChangeTest, MistakesAreRefusedWithAReason) {
  const auto refusal = [](const std::string& request) {
    return std::string(Ask(request).status().message());
  };
  EXPECT_THAT(refusal("addr add 10.9.0.1/24"), HasSubstr("has 10.9.0.1/24"));
  EXPECT_THAT(refusal("addr del 10.9.0.7/24"), HasSubstr("no address"));
  EXPECT_THAT(refusal("addr add 10.9.0.7"), HasSubstr("prefix length"));
  EXPECT_THAT(refusal("dance"), HasSubstr("addr and route"));
}

}  // namespace
}  // namespace urnic
