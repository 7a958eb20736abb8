#include "transport/wire/fragment_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "transport/wire/fragment.h"
#include "transport/wire/frame.h"

namespace urnic::wire {
namespace {

Gid Ipv6Of(uint8_t last) {
  Gid gid;
  gid.bytes = {0xfd, 1};
  gid.bytes[15] = last;
  return gid;
}

struct Case {
  bool ipv6 = false;
  bool tagged = false;
};

class FragmentWriterTest : public ::testing::TestWithParam<Case> {
 protected:
  HeaderTemplate Headers() const {
    PathHeaders path;
    path.src_mac = MacAddress{{2, 0, 0, 0, 0, 1}};
    path.dst_mac = MacAddress{{2, 0, 0, 0, 0, 2}};
    path.src = GetParam().ipv6 ? Ipv6Of(1) : Gid::FromIpv4(0x0a000001);
    path.dst = GetParam().ipv6 ? Ipv6Of(2) : Gid::FromIpv4(0x0a000002);
    if (GetParam().tagged) path.vlan_tci = 7;
    path.udp_src_port = 50000;
    return HeaderTemplate(path);
  }
};

//= RFC 791 2.3, RFC 791 3.2, RFC 8200 4.5
TEST_P(FragmentWriterTest, TheFragmentsAreThoseOfThePacket) {
  const HeaderTemplate headers = Headers();
  for (const uint32_t bytes : {100u, 1400u, 1453u, 9000u, 65463u}) {
    std::vector<uint8_t> whole(HeaderTemplate::kMaxBytes + bytes);
    headers.Write(whole.data(), static_cast<uint16_t>(bytes));
    std::iota(whole.begin() + static_cast<ptrdiff_t>(headers.size()),
              whole.end(), uint8_t{1});
    whole.resize(headers.size() + bytes);
    for (const uint32_t mtu : {68u, 576u, 1500u}) {
      FragmentWriter writer(headers, whole, 0x12345678, mtu);
      std::vector<uint8_t> joined(whole.size() - headers.ip_end());
      size_t arrived = 0;
      bool last = false;
      while (!writer.done()) {
        EXPECT_FALSE(last);
        std::vector<uint8_t> frame(mtu + 100);
        frame.resize(writer.WriteNext(frame.data()));
        EXPECT_GE(frame.size(), kEthernetMinBytes);
        FrameView view;
        const RxVerdict shape = ParseFrame(frame.data(), frame.size(), view);
        // A packet that fits is sent as it is.
        if (shape != RxVerdict::kIpFragment) {
          ASSERT_EQ(arrived, 0u);
          ASSERT_TRUE(writer.done());
          arrived = joined.size();
          break;
        }
        EXPECT_LE(view.l3_bytes, mtu);
        Fragment fragment;
        ASSERT_EQ(ParseFragment(view, fragment), RxVerdict::kAccept);
        EXPECT_EQ(fragment.protocol, kIpProtocolUdp);
        EXPECT_EQ(fragment.identification,
                  GetParam().ipv6 ? 0x12345678u : 0x5678u);
        EXPECT_EQ(fragment.offset, arrived);
        std::copy(fragment.data.begin(), fragment.data.end(),
                  joined.begin() + fragment.offset);
        arrived += fragment.data.size();
        last = fragment.last;
      }
      EXPECT_EQ(arrived, joined.size());
      if (last) {
        EXPECT_TRUE(std::equal(
            joined.begin(), joined.end(),
            whole.begin() + static_cast<ptrdiff_t>(headers.ip_end())));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FragmentWriterTest,
                         ::testing::Values(Case{}, Case{.tagged = true},
                                           Case{.ipv6 = true},
                                           Case{.ipv6 = true, .tagged = true}));

}  // namespace
}  // namespace urnic::wire
