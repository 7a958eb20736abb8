#include "verbs/identity/ip_route.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

namespace {

using ::testing::HasSubstr;

struct Parsed {
  int rc = 0;
  urnic_ip_route route = {};
  std::string error;
};

Parsed Parse(std::string_view text) {
  Parsed p;
  char error[256];
  p.rc = urnic_ip_route_parse(text.data(), text.size(), &p.route, error,
                              sizeof(error));
  p.error = error;
  return p;
}

std::string Text(const uint8_t* gid) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, gid, text, sizeof(text));
}

TEST(IpRouteTest, ReadsAllWordsInAnyOrder) {
  for (const char* text :
       {"10.2.0.0/16 via 10.1.0.254 metric 7 src 10.1.0.1",
        "10.2.0.0/16 src 10.1.0.1 metric 7 via 10.1.0.254"}) {
    const Parsed p = Parse(text);
    ASSERT_EQ(p.rc, 0) << p.error;
    EXPECT_EQ(Text(p.route.prefix), "::ffff:10.2.0.0");
    EXPECT_EQ(p.route.prefix_bits, 96 + 16);
    EXPECT_EQ(Text(p.route.gateway), "::ffff:10.1.0.254");
    EXPECT_EQ(Text(p.route.source), "::ffff:10.1.0.1");
    EXPECT_EQ(p.route.metric, 7u);
  }
}

TEST(IpRouteTest, MissingWordsAreZero) {
  const Parsed p = Parse("2001:db8:2::/48");
  ASSERT_EQ(p.rc, 0) << p.error;
  EXPECT_EQ(Text(p.route.prefix), "2001:db8:2::");
  EXPECT_EQ(p.route.prefix_bits, 48);
  EXPECT_EQ(Text(p.route.gateway), "::");
  EXPECT_EQ(Text(p.route.source), "::");
  EXPECT_EQ(p.route.metric, 0u);
}

TEST(IpRouteTest, APrefixWithoutALengthIsOneHost) {
  EXPECT_EQ(Parse("10.2.0.7 via 10.1.0.254").route.prefix_bits, 128);
  EXPECT_EQ(Parse("2001:db8::7").route.prefix_bits, 128);
}

TEST(IpRouteTest, TheDefaultRouteHasTheFamilyOfItsRouter) {
  const Parsed v4 = Parse("default via 10.1.0.254");
  ASSERT_EQ(v4.rc, 0) << v4.error;
  EXPECT_EQ(Text(v4.route.prefix), "::ffff:0.0.0.0");
  EXPECT_EQ(v4.route.prefix_bits, 96);
  const Parsed v6 = Parse("default via fe80::1");
  ASSERT_EQ(v6.rc, 0) << v6.error;
  EXPECT_EQ(Text(v6.route.prefix), "::");
  EXPECT_EQ(v6.route.prefix_bits, 0);
  EXPECT_EQ(Parse("default src 10.1.0.1").route.prefix_bits, 96);
  // IPv4 through an IPv6 router.
  EXPECT_EQ(Parse("0.0.0.0/0 via fe80::1").route.prefix_bits, 96);
}

TEST(IpRouteTest, AMistakeIsNamed) {
  const struct {
    const char* text;
    const char* why;
  } kCases[] = {
      {"", "\"\" is not IP/LEN"},
      {"10.2.0.0/33", "prefix length of 0 to 32"},
      {"10.2.0.0/", "prefix length of 0 to 32"},
      {"2001:db8::/129", "prefix length of 0 to 128"},
      {"10.2.0.1/16", "bits set beyond its prefix"},
      {"::ffff:10.2.0.0/112", "not IP/LEN"},
      {"default", "has no address family"},
      {"default metric 5", "has no address family"},
      {"10.2.0.0/16 via", "via needs an IP address after it"},
      {"10.2.0.0/16 via host", "\"host\" is not an IP address"},
      {"10.2.0.0/16 via 224.0.0.1", "224.0.0.1 is not the address of a host"},
      {"10.2.0.0/16 via 0.0.0.0", "not the address of a host"},
      {"10.2.0.0/16 via ::", "not the address of a host"},
      {"10.2.0.0/16 via 10.1.0.1 via 10.1.0.2", "via is given twice"},
      {"10.2.0.0/16 src ff02::1", "not the address of a host"},
      {"10.2.0.0/16 src fd00::1", "src is an address of the other family"},
      {"10.2.0.0/16 metric x", "metric x is out of range: 0 to 999999999"},
      {"10.2.0.0/16 metric", "metric needs a number after it"},
      {"10.2.0.0/16 metric 1 metric 1", "metric is given twice"},
      {"10.2.0.0/16 dev eth0", "\"dev\" is not via, metric or src"},
      {"10.2.0.0/16  via 10.1.0.1", "\"\" is not via"},
  };
  for (const auto& c : kCases) {
    const Parsed p = Parse(c.text);
    EXPECT_EQ(p.rc, -EINVAL) << c.text;
    EXPECT_THAT(p.error, HasSubstr(c.why)) << c.text;
  }
}

TEST(IpRouteTest, AShortErrorIsCutOff) {
  char error[12];
  urnic_ip_route route;
  EXPECT_EQ(urnic_ip_route_parse("x", 1, &route, error, sizeof(error)),
            -EINVAL);
  EXPECT_EQ(std::strlen(error), sizeof(error) - 1);
}

}  // namespace
