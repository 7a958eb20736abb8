#include "verbs/control/qp_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

namespace urnic::control {
namespace {

using ::testing::HasSubstr;

class QpPathTest : public testing::Test {
 protected:
  QpPathTest() : identities_(new urnic_device_identity[URNIC_MAX_DEVICES]) {
    char error[256];
    EXPECT_EQ(
        urnic_device_identity_parse("loop|10.1.0.1/24|fd00::1/64", 1,
                                    identities_.get(), error, sizeof(error)),
        1);
    vector_.is_global = 1;
    vector_.port_num = 1;
    vector_.sgid_index = 3;
    vector_.dgid = wire::Gid::FromIpv4(0x0a010002u);
  }
  absl::StatusOr<net::PathQuery> Make() {
    return MakePathRequest(GidTable(identities_[0]), vector_, 0x123456,
                           0x654321);
  }
  std::string Error() { return std::string(Make().status().message()); }

  std::unique_ptr<urnic_device_identity[]> identities_;
  AddressVector vector_;
};

//= IBTA A17.9.1
TEST_F(QpPathTest, TakesTheProgramsGlobalRoute) {
  vector_.flow_label = 0xabcde;
  vector_.traffic_class = 0x68;
  vector_.hop_limit = 3;
  const auto request = Make();
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->local, wire::Gid::FromIpv4(0x0a010001u));
  EXPECT_EQ(request->remote, vector_.dgid);
  EXPECT_EQ(request->flow_label, 0xabcdeu);
  EXPECT_EQ(request->traffic_class, 0x68);
  EXPECT_EQ(request->hop_limit, 3);
  // 0xabcde: the low 14 bits 0x3cde, mixed with the upper 6 bits 0x2a.
  EXPECT_EQ(request->udp_src_port, 0xc000 | (0x3cde ^ 0x2a));
}

TEST_F(QpPathTest, AHopLimitOf0MeansTheDefault) {
  EXPECT_EQ(Make()->hop_limit, 64);
}

TEST_F(QpPathTest, AFlowLabelHas20Bits) {
  vector_.flow_label = 0xabcde;
  const uint16_t port = Make()->udp_src_port;
  vector_.flow_label = 0xfffabcde;
  ASSERT_TRUE(Make().ok());
  EXPECT_EQ(Make()->flow_label, 0xabcdeu);
  EXPECT_EQ(Make()->udp_src_port, port);
}

TEST_F(QpPathTest, RefusesWhatRoceCannotUse) {
  vector_.is_global = 0;
  EXPECT_THAT(Error(), HasSubstr("is_global"));
  vector_.is_global = 1;
  vector_.port_num = 2;
  EXPECT_THAT(Error(), HasSubstr("port_num 2"));
  vector_.port_num = 1;
  vector_.dgid = wire::Gid{};
  EXPECT_THAT(Error(), HasSubstr("dgid"));
}

TEST_F(QpPathTest, RefusesIndicesWithoutAGid) {
  for (int index : {6, 7, 33}) {
    vector_.sgid_index = static_cast<uint8_t>(index);
    EXPECT_THAT(Error(), HasSubstr("has no GID")) << index;
  }
  vector_.sgid_index = 34;
  EXPECT_THAT(Error(), HasSubstr("sgid_index 34 of "));
  EXPECT_THAT(Error(), HasSubstr(" is out of range: 0 to 33"));
}

TEST_F(QpPathTest, TheIndexChoosesTheVersionOfRoce) {
  for (int index = 0; index < 6; ++index) {
    vector_.sgid_index = static_cast<uint8_t>(index);
    const auto request = Make();
    ASSERT_TRUE(request.ok()) << index;
    EXPECT_EQ(request->roce_v1, index % 2 == 0) << index;
  }
}

//= IBTA A17.9.1
TEST(UdpSourcePortTest, SpreadsQueuePairsOverTheDynamicPorts) {
  std::set<uint16_t> ports;
  for (uint32_t qpn = 0x100000; qpn < 0x100100; ++qpn) {
    const uint16_t port = UdpSourcePort(0, qpn, 0x2345);
    EXPECT_GE(port, 0xc000);
    EXPECT_EQ(port, UdpSourcePort(0, 0x2345, qpn)) << "the same both ways";
    ports.insert(port);
  }
  EXPECT_GT(ports.size(), 200u);
}

}  // namespace
}  // namespace urnic::control
