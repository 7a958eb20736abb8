// A row of verbs/identity/device_kind.h decides: a kind of device that only
// this test has is limited as its row says.

#include "verbs/control/device_kind.h"

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "transport/base/numbers.h"
#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/mw.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp.h"
#include "verbs/control/srq.h"

namespace urnic::control {
namespace {

TEST(DeviceKindTest, NumbersAndTablesHaveRoomForEveryKind) {
  for (const urnic_device_kind& kind : urnic_device_kinds) {
    EXPECT_LE(kind.limits.max_qps, kMaxQueuePairs) << kind.name_prefix;
    EXPECT_LE(kind.limits.max_srqs, kMaxQueuePairs) << kind.name_prefix;
    EXPECT_TRUE(std::has_single_bit(kind.limits.max_mrs)) << kind.name_prefix;
  }
}

TEST(DeviceKindTest, RoceHasEveryRequest) {
  EXPECT_EQ(AllRequestsOf(urnic_device_kinds[URNIC_DEVICE_ROCE]), kAllRequests);
}

//= RFC 5040 4.2, RFC 7306 4.1
TEST(DeviceKindTest, IwarpHasTheRequestsThatItHasMessagesFor) {
  const RequestSet requests =
      AllRequestsOf(urnic_device_kinds[URNIC_DEVICE_IWARP]);
  EXPECT_EQ(requests, kAllRequests & ~(RequestBit(URNIC_WR_FLUSH) |
                                       RequestBit(URNIC_WR_ATOMIC_WRITE)));
}

// Datagrams and unreliable connections only, and two of each object.
constexpr urnic_device_kind kSmall = {
    .name_prefix = "small",
    .transport = "small",
    .node_type = "4: RNIC",
    .gid_source = URNIC_GIDS_OF_ADDRESSES,
    .gid_table_len = 4,
    .needs_grh = 0,
    .has_pkeys = 1,
    .services = URNIC_SERVICE_UC | URNIC_SERVICE_UD,
    .limits = {.max_qps = 2,
               .max_cqs = 2,
               .max_pds = 2,
               .max_mrs = 2,
               .max_srqs = 2,
               .max_ahs = 2},
};

class SmallKindTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<urnic_device_identity> identities(URNIC_MAX_DEVICES);
    char error[256];
    ASSERT_EQ(
        urnic_device_identity_parse("loop|10.9.0.1/24|10.9.1.1/24", 1,
                                    identities.data(), error, sizeof(error)),
        1)
        << error;
    identities[0].device_kind = &kSmall;
    auto device = Device::Open(identities[0], {});
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = *std::move(device);
    pd_ = *Pd::Create(*device_);
    cq_ = *Cq::Create(*device_, {.entries = 10});
  }

  absl::StatusOr<std::shared_ptr<Qp>> MakeQp(QpService service) {
    QpRequest request;
    request.service = service;
    request.send_cq = request.recv_cq = cq_.get();
    request.pd = pd_.get();
    return Qp::Create(*device_, request);
  }

  // The device has room for two, of which `there` exist already.
  template <typename Make>
  static void ExpectTwo(int there, Make make) {
    std::vector<decltype(make())> all;
    for (; there < 2; ++there) {
      all.push_back(make());
      EXPECT_TRUE(all.back().ok()) << all.back().status().message();
    }
    EXPECT_EQ(make().status().code(), absl::StatusCode::kResourceExhausted);
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Pd> pd_;
  std::unique_ptr<Cq> cq_;
};

TEST_F(SmallKindTest, OffersOnlyItsServices) {
  EXPECT_EQ(MakeQp(QpService::kRc).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(MakeQp(QpService::kXrcInitiator).status().code(),
            absl::StatusCode::kUnimplemented);
  const auto qp = MakeQp(QpService::kUc);
  ASSERT_TRUE(qp.ok()) << qp.status().message();
  EXPECT_EQ((*qp)->posting().opcodes & ~AllRequestsOf(device_->kind()), 0u);
  EXPECT_TRUE(MakeQp(QpService::kUd).ok());
}

TEST_F(SmallKindTest, SupportsOnlyTheRequestsOfItsServices) {
  const RequestSet requests = AllRequestsOf(kSmall);
  EXPECT_TRUE(Contains(requests, URNIC_WR_RDMA_WRITE));
  EXPECT_FALSE(Contains(requests, URNIC_WR_RDMA_READ));
}

TEST_F(SmallKindTest, EnforcesItsLimits) {
  ExpectTwo(1, [&] { return Pd::Create(*device_); });
  ExpectTwo(1, [&] { return Cq::Create(*device_, {.entries = 10}); });
  ExpectTwo(0, [&] { return Srq::Create(*pd_, {.max_wr = 4}); });
  ExpectTwo(0, [&] { return MakeQp(QpService::kUd); });
  ExpectTwo(0, [&] { return Mw::Create(*pd_, Mw::Type::k2); });
}

TEST_F(SmallKindTest, HasOnlyTheGidsOfItsTable) {
  EXPECT_TRUE(device_->gids().At(3).has_value());
  EXPECT_FALSE(device_->gids().At(5).has_value()) << "of 10.9.1.1";
}

}  // namespace
}  // namespace urnic::control
