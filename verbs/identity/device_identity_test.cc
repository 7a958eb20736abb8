#include "verbs/identity/device_identity.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace {

using ::testing::HasSubstr;

struct Parsed {
  int rc;
  std::vector<urnic_device_identity> devices;
  std::string error;
};

Parsed Parse(const char* ports, uint64_t host = 1) {
  Parsed p{0, std::vector<urnic_device_identity>(URNIC_MAX_DEVICES), ""};
  char error[256];
  p.rc = urnic_device_identity_parse(ports, host, p.devices.data(), error,
                                     sizeof(error));
  p.error = error;
  return p;
}

std::string Gid(const urnic_device_identity& d, int index) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, d.gids[index].gid, text, sizeof(text));
}

TEST(DeviceIdentityTest, NoTextIsNoDevice) {
  EXPECT_EQ(Parse(nullptr).rc, 0);
  EXPECT_EQ(Parse("").rc, 0);
}

TEST(DeviceIdentityTest, ReadsEveryKindOfPort) {
  Parsed p = Parse(
      "loop|10.0.0.1/24;net_virtio_user0,path=/x,server=1|10.1.0.1/16;"
      "0000:03:00.0|10.2.0.1/24;3:00.1,dv=1;loop;");
  ASSERT_EQ(p.rc, 5) << p.error;
  EXPECT_EQ(p.devices[0].port_kind, URNIC_PORT_LOOP);
  EXPECT_EQ(p.devices[1].port_kind, URNIC_PORT_VDEV);
  EXPECT_STREQ(p.devices[1].dev, "net_virtio_user0,path=/x,server=1");
  EXPECT_STREQ(p.devices[1].name, "urnic1");
  EXPECT_EQ(p.devices[2].port_kind, URNIC_PORT_PCI);
  EXPECT_EQ(p.devices[3].port_kind, URNIC_PORT_PCI);
  EXPECT_EQ(p.devices[1].mtu, unsigned{URNIC_PORT_MTU_VIRTUAL});
  EXPECT_EQ(p.devices[2].mtu, unsigned{URNIC_PORT_MTU_PHYSICAL});
  EXPECT_EQ(p.devices[4].num_addresses, 0u);
}

TEST(DeviceIdentityTest, ANameBeginsWithThePrefixOfItsKind) {
  const Parsed p = Parse("loop|10.0.0.1/24;loop|10.1.0.1/16");
  ASSERT_EQ(p.rc, 2) << p.error;
  for (size_t i = 0; i < 2; ++i) {
    const urnic_device_identity& d = p.devices[i];
    EXPECT_EQ(d.device_kind, &urnic_device_kinds[URNIC_DEVICE_ROCE]);
    EXPECT_EQ(std::string(d.name),
              d.device_kind->name_prefix + std::to_string(i));
  }
}

TEST(DeviceKindTest, EveryRowIsUsable) {
  for (const urnic_device_kind& kind : urnic_device_kinds) {
    const std::string prefix = kind.name_prefix;
    EXPECT_FALSE(prefix.empty());
    EXPECT_LT(prefix.size() + 1, sizeof(urnic_device_identity::name));
    EXPECT_EQ(prefix.find_first_not_of("abcdefghijklmnopqrstuvwxyz"),
              std::string::npos);
    for (const urnic_device_kind& other : urnic_device_kinds) {
      EXPECT_EQ(prefix == other.name_prefix, &kind == &other);
    }
    EXPECT_GT(kind.gid_table_len, 0u);
    EXPECT_LE(kind.gid_table_len, uint32_t{URNIC_GID_TABLE_LEN});
    EXPECT_NE(kind.services, 0u);
  }
}

std::string Names(const Parsed& p) {
  std::string names;
  for (int i = 0; i < p.rc; ++i) {
    const urnic_device_identity& d = p.devices[static_cast<size_t>(i)];
    EXPECT_EQ(d.node, i);
    names += std::string(names.empty() ? "" : " ") + d.name + "/" + d.port_name;
  }
  return names;
}

TEST(TransportTest, APortHasADeviceForEachOfItsTransports) {
  EXPECT_EQ(Names(Parse("loop;loop|transport=roce")),
            "urnic0/urnic0 urnic1/urnic1");
  EXPECT_EQ(Names(Parse("loop|transport=both;net_a;net_b|transport=iwarp")),
            "urnic0/urnic0 iwurnic0/urnic0 urnic1/urnic1 iwurnic2/iwurnic2");
  std::string all = "loop|transport=both";
  for (int i = 1; i < URNIC_MAX_PORTS; ++i) all += ";loop|transport=both";
  EXPECT_EQ(Parse(all.c_str()).rc, URNIC_MAX_DEVICES);
  EXPECT_EQ(Parse((all + ";loop").c_str()).rc, -E2BIG);
}

TEST(TransportTest, TheDevicesOfAPortDifferInNameGuidAndGids) {
  const Parsed p = Parse("net_a|10.0.0.1/24|transport=both|vlan=7");
  ASSERT_EQ(p.rc, 2) << p.error;
  const urnic_device_identity& roce = p.devices[0];
  const urnic_device_identity& iwarp = p.devices[1];
  EXPECT_EQ(std::memcmp(roce.mac, iwarp.mac, 6), 0);
  EXPECT_EQ(roce.ordinal, iwarp.ordinal);
  EXPECT_EQ(iwarp.vlan, 7u);
  EXPECT_EQ(iwarp.num_addresses, 1u);
  EXPECT_EQ(std::memcmp(roce.sys_image_guid, iwarp.sys_image_guid, 8), 0);
  EXPECT_EQ(std::memcmp(roce.node_guid, roce.sys_image_guid, 8), 0);
  // The MAC, and zeros: as siw_query_gid().
  uint8_t mac[16] = {};
  std::memcpy(mac, iwarp.mac, 6);
  EXPECT_EQ(std::memcmp(iwarp.node_guid, mac, 8), 0);
  EXPECT_EQ(std::memcmp(iwarp.gids[0].gid, mac, 16), 0);
  EXPECT_EQ(iwarp.gids[1].type, int{URNIC_GID_NONE});
  EXPECT_EQ(Gid(roce, 3), "::ffff:10.0.0.1");
}

TEST(TransportTest, ADeviceBecomesTheOtherOneOfItsPort) {
  Parsed p = Parse("loop|10.0.0.1/24|transport=both");
  ASSERT_EQ(p.rc, 2) << p.error;
  urnic_device_identity_become(&p.devices[1], URNIC_DEVICE_ROCE);
  EXPECT_STREQ(p.devices[1].name, "urnic0");
  EXPECT_EQ(std::memcmp(p.devices[1].gids, p.devices[0].gids,
                        sizeof(p.devices[0].gids)),
            0);
}

TEST(TransportTest, AMarkedAddressTurnsIwarpOn) {
  const Parsed p = Parse("loop|10.0.0.1/24|10.0.0.2/24,iwarp|fd00::1/64,iwarp");
  EXPECT_EQ(Names(p), "urnic0/urnic0 iwurnic0/urnic0");
  EXPECT_EQ(p.devices[1].addresses[0].is_iwarp, 0);
  EXPECT_EQ(p.devices[1].addresses[1].is_iwarp, 1);
  EXPECT_EQ(p.devices[1].addresses[2].is_iwarp, 1);
  EXPECT_EQ(Names(Parse("loop|10.0.0.2/24,iwarp|transport=iwarp")),
            "iwurnic0/iwurnic0");
}

TEST(TransportTest, MistakesNameTheValue) {
  const struct {
    const char* ports;
    int rc;
    const char* error;
  } kMistakes[] = {
      {"loop|transport=tcp", -EINVAL, "transport=tcp is not roce, iwarp or"},
      {"loop|transport=", -EINVAL, "transport= is not roce"},
      {"loop|transport=both|transport=roce", -EEXIST, "given twice"},
      {"loop|transport=roce|10.0.0.1/24,iwarp", -EINVAL, "use transport both"},
      {"loop|iwarp=crc=off", -EINVAL,
       "iwarp=crc=off: this port has no iWARP device"},
      {"loop|10.0.0.1/24,roce", -EINVAL, "only \",iwarp\" may follow"},
      {"loop|10.0.0.1/24,", -EINVAL, "only \",iwarp\" may follow"},
      {"loop|10.0.0.1/24,iwarp,iwarp", -EINVAL, "only \",iwarp\" may follow"},
  };
  for (const auto& mistake : kMistakes) {
    const Parsed p = Parse(mistake.ports);
    EXPECT_EQ(p.rc, mistake.rc) << mistake.ports;
    EXPECT_THAT(p.error, HasSubstr(mistake.error)) << mistake.ports;
  }
}

TEST(TransportTest, RdmaCmTakesRoceUnlessTheAddressOrThePortSaysIwarp) {
  constexpr uint32_t kRoce = 1u << URNIC_DEVICE_ROCE;
  constexpr uint32_t kIwarp = 1u << URNIC_DEVICE_IWARP;
  EXPECT_EQ(urnic_rdma_cm_kind(kRoce, 0), int{URNIC_DEVICE_ROCE});
  EXPECT_EQ(urnic_rdma_cm_kind(kRoce | kIwarp, 0), int{URNIC_DEVICE_ROCE});
  EXPECT_EQ(urnic_rdma_cm_kind(kRoce | kIwarp, 1), int{URNIC_DEVICE_IWARP});
  EXPECT_EQ(urnic_rdma_cm_kind(kIwarp, 0), int{URNIC_DEVICE_IWARP});
}

TEST(DeviceIdentityTest, AFaultIsKeptAsWritten) {
  const std::string longest(URNIC_MAX_FAULT - 1, 'x');
  const Parsed p =
      Parse(("net_a|10.0.0.1/24|fault=loss=1%,red=1KB:2KB|mtu=1500;net_b;"
             "net_c|fault=" +
             longest)
                .c_str());
  ASSERT_EQ(p.rc, 3) << p.error;
  EXPECT_STREQ(p.devices[0].fault, "loss=1%,red=1KB:2KB");
  EXPECT_EQ(p.devices[0].mtu, 1500u);
  EXPECT_STREQ(p.devices[1].fault, "");
  EXPECT_EQ(p.devices[2].fault, longest);
  EXPECT_EQ(Parse(("net_c|fault=x" + longest).c_str()).rc, -E2BIG);
}

//= IEEE 802.1Q 9.6
TEST(DeviceIdentityTest, APortIsInOneVlanOrInNone) {
  const Parsed p = Parse("loop;net_a|vlan=7|10.0.0.1/24;net_b|vlan=4094");
  ASSERT_EQ(p.rc, 3) << p.error;
  EXPECT_EQ(p.devices[0].vlan, 0u);
  EXPECT_EQ(p.devices[1].vlan, 7u);
  EXPECT_EQ(p.devices[2].vlan, 4094u);
  for (const char* bad : {"0", "4095", "70000", "-1", "7x", ""}) {
    EXPECT_EQ(Parse((std::string("net_a|vlan=") + bad).c_str()).rc, -ERANGE)
        << bad;
  }
  const Parsed twice = Parse("net_a|vlan=7|vlan=8");
  EXPECT_EQ(twice.rc, -EEXIST);
  EXPECT_THAT(twice.error, HasSubstr("vlan=8: the port has vlan=7 already"));
}

TEST(DeviceIdentityTest, RoutesAreReadUpToTheLimit) {
  std::string text = "net_a|10.1.0.1/24|route=default via 10.1.0.254|mtu=1500";
  Parsed p = Parse(text.c_str());
  ASSERT_EQ(p.rc, 1) << p.error;
  ASSERT_EQ(p.devices[0].num_routes, 1u);
  EXPECT_EQ(p.devices[0].routes[0].prefix_bits, 96);
  for (int i = 1; i < URNIC_MAX_ROUTES; ++i) {
    text += "|route=10." + std::to_string(i) + ".0.0/16 via 10.1.0.254";
  }
  EXPECT_EQ(Parse(text.c_str()).devices[0].num_routes,
            uint32_t{URNIC_MAX_ROUTES});
  EXPECT_EQ(Parse((text + "|route=10.99.0.0/16").c_str()).rc, -E2BIG);
  p = Parse("net_a|route=10.2.0.1/16");
  EXPECT_EQ(p.rc, -EINVAL);
  EXPECT_THAT(p.error, HasSubstr("port 1 (\"net_a\"): route \"10.2.0.1/16\""));
}

TEST(DeviceIdentityTest, TakesTheMtuOfAnInterfaceFromTheKernel) {
  Parsed p = Parse("iface:lo|10.0.0.1/8");
  ASSERT_EQ(p.rc, 1) << p.error;
  EXPECT_EQ(p.devices[0].port_kind, URNIC_PORT_IFACE);
  EXPECT_STREQ(p.devices[0].ifname, "lo");
  EXPECT_EQ(p.devices[0].mtu, unsigned{URNIC_PORT_MTU_MAX});  // lo has 65536
  EXPECT_EQ(p.devices[0].mtu_is_given, 0);
  p = Parse("iface:lo|mtu=1500");
  EXPECT_EQ(p.devices[0].mtu, 1500u);
  EXPECT_EQ(p.devices[0].mtu_is_given, 1);
}

TEST(DeviceIdentityTest, MacPortTakesTheMacOfTheInterface) {
  Parsed p = Parse("iface:lo|mac=port|10.0.0.1/24");
  ASSERT_EQ(p.rc, 1) << p.error;
  const uint8_t zero[6] = {};
  EXPECT_EQ(std::memcmp(p.devices[0].mac, zero, 6), 0);  // lo has none
}

//= IBTA A17.4.1, RFC 4291 A
TEST(DeviceIdentityTest, GidTableHasLinuxsOrder) {
  Parsed p = Parse("loop|10.1.2.3/24|2001:db8::7/64");
  ASSERT_EQ(p.rc, 1) << p.error;
  const urnic_device_identity& d = p.devices[0];
  const int types[] = {1, 2, 1, 2, 1, 2, 0, 0};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(d.gids[i].type, types[i]) << i;
  for (int i : {2, 3}) EXPECT_EQ(Gid(d, i), "::ffff:10.1.2.3");
  for (int i : {4, 5}) EXPECT_EQ(Gid(d, i), "2001:db8::7");
  const uint8_t* m = d.mac;
  const uint8_t local[16] = {0xfe, 0x80, 0,
                             0,    0,    0,
                             0,    0,    static_cast<uint8_t>(m[0] ^ 2),
                             m[1], m[2], 0xff,
                             0xfe, m[3], m[4],
                             m[5]};
  EXPECT_EQ(std::memcmp(d.gids[0].gid, local, 16), 0);
  EXPECT_EQ(std::memcmp(d.gids[1].gid, local, 16), 0);
  EXPECT_EQ(std::memcmp(d.node_guid, local + 8, 8), 0);
}

TEST(DeviceIdentityTest, PkeysFollowTheDefaultOne) {
  Parsed p = Parse("loop|pkey=0x8001|10.1.2.3/24|pkey=2|pkey=7FFF");
  ASSERT_EQ(p.rc, 1) << p.error;
  const urnic_device_identity& d = p.devices[0];
  ASSERT_EQ(d.num_pkeys, 4u);
  const uint16_t expected[] = {0xffff, 0x8001, 0x0002, 0x7fff};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(d.pkeys[i], expected[i]) << i;
  EXPECT_EQ(Parse("loop").devices[0].num_pkeys, 1u);
  std::string many = "loop";
  for (int i = 1; i < URNIC_MAX_PKEYS; ++i)
    many += "|pkey=0x800" + std::string(1, "0123456789abcdef"[i]);
  EXPECT_EQ(Parse(many.c_str()).rc, 1);
  EXPECT_EQ(Parse((many + "|pkey=77").c_str()).rc, -E2BIG);
}

TEST(DeviceIdentityTest, MacIsLocalStableAndDistinct) {
  const char* ports = "net_memif0|10.0.0.1/24";
  Parsed a = Parse(ports), again = Parse(ports);
  EXPECT_EQ(a.devices[0].mac[0] & 3, 2);
  EXPECT_EQ(std::memcmp(a.devices[0].mac, again.devices[0].mac, 6), 0);
  const Parsed others[] = {Parse("net_memif0|10.0.0.2/24"),
                           Parse("net_memif1|10.0.0.1/24"), Parse("net_memif0"),
                           Parse(ports, 2)};
  for (const Parsed& other : others)
    EXPECT_NE(std::memcmp(a.devices[0].mac, other.devices[0].mac, 6), 0);
  Parsed two = Parse("loop|10.0.0.1/24;loop|10.0.0.1/24");
  EXPECT_NE(std::memcmp(two.devices[0].mac, two.devices[1].mac, 6), 0);
}

TEST(DeviceIdentityTest, HostIdentityIsStable) {
  EXPECT_EQ(urnic_host_identity(), urnic_host_identity());
}

struct Mistake {
  const char* ports;
  int err;
  const char* message;
};

class DeviceIdentityMistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(DeviceIdentityMistakeTest, NamesEntryValueAndLimit) {
  Parsed p = Parse(GetParam().ports);
  EXPECT_EQ(p.rc, -GetParam().err);
  EXPECT_THAT(p.error, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, DeviceIdentityMistakeTest,
    testing::Values(
        Mistake{"veth0", EINVAL,
                "port 1 (\"veth0\"): not a port; if it is a network "
                "interface, write iface:veth0, else"},
        Mistake{"loop;;loop", EINVAL, "port 2 (\"\"): no device"},
        Mistake{"loop|", EINVAL, "has nothing after it"},
        Mistake{"loop||mtu=1500", EINVAL, "\"\" is not IP/LEN, mtu"},
        Mistake{"loop|10.0.0.1", EINVAL, "prefix length of 1 to 32"},
        Mistake{"loop|10.0.0.1/33", EINVAL, "\"10.0.0.1/33\" needs"},
        Mistake{"loop|10.0.0.1/+8", EINVAL, "prefix length"},
        Mistake{"loop|::1:2/129", EINVAL, "1 to 128"},
        Mistake{"loop|10.0.0/8", EINVAL, "is not IP/LEN"},
        Mistake{"loop|224.0.0.1/8", EINVAL, "224.0.0.1 is not the address"},
        Mistake{"loop|127.0.0.1/8", EINVAL, "127.0.0.1 is not the address"},
        Mistake{"loop|::1/128", EINVAL, "::1 is not the address"},
        //= RFC 1122 3.2.1.3
        Mistake{"loop|10.9.0.0/24", EINVAL,
                "\"10.9.0.0/24\" is the address of its network"},
        Mistake{"loop|10.9.0.255/24", EINVAL,
                "is the broadcast address of its network"},
        Mistake{"loop|10.9.0.3/30", EINVAL, "broadcast"},
        Mistake{"loop|ff02::1/8", EINVAL, "ff02::1 is not the address"},
        Mistake{"loop|::ffff:1.2.3.4/96", EINVAL, "is not the address"},
        Mistake{"loop|10.0.0.1/8|10.0.0.1/9", EEXIST, "given twice"},
        Mistake{"net_ring0;net_ring0", EEXIST, "the same device as port 1"},
        Mistake{"ring:", EINVAL, "not a port"},
        Mistake{"loop|mtu=351", ERANGE, "mtu=351 is out of range: 352 to 9000"},
        Mistake{"loop|mtu=9001", ERANGE, "9001"},
        Mistake{"loop|mtu=x", ERANGE, "mtu=x"},
        Mistake{"loop|pkey=", EINVAL,
                "pkey= is not a 16-bit hexadecimal number"},
        Mistake{"loop|pkey=0x18001", EINVAL, "pkey=0x18001 is not"},
        Mistake{"loop|pkey=8x", EINVAL, "pkey=8x is not"},
        //= IBTA 10.9.1.1
        Mistake{"loop|pkey=0x8000", EINVAL, "is invalid: its low"},
        Mistake{"loop|pkey=0xffff", EEXIST, "pkey=0xffff is in the table"},
        Mistake{"loop|pkey=1|pkey=0x1", EEXIST, "pkey=0x1 is in the table"},
        Mistake{"loop|fault=loss=1%", EINVAL,
                "fault=loss=1%: this port has no wire"},
        Mistake{"net_x|fault=", EINVAL, "1 to 255 characters, not 0"},
        Mistake{"net_x|iwarp=", EINVAL, "1 to 127 characters, not 0"},
        Mistake{"net_x|iwarp=mpa=1|iwarp=mpa=2", EEXIST,
                "iwarp=mpa=2: the port has iwarp=mpa=1 already"},
        Mistake{"net_x|fault=die=1s|fault=die=2s", EEXIST,
                "fault=die=2s: the port has fault=die=1s already"},
        Mistake{"loop|mac=port", EINVAL, "mac=port needs iface:"},
        Mistake{"iface:", EINVAL, "1 to 15 characters"},
        Mistake{"iface:0123456789abcdef", EINVAL, "1 to 15 characters"},
        Mistake{"iface:no-such-if", ENODEV, "no interface \"no-such-if\""},
        Mistake{"loop;loop;loop;loop;loop;loop;loop;loop;loop", E2BIG,
                "port 9 (\"loop\"): one port too many; the limit is 8"}));

TEST(DeviceIdentityTest, LimitsTheNumberOfAddressesAndTheLengthOfDev) {
  std::string ports = "loop";
  for (int i = 1; i <= URNIC_MAX_ADDRS; ++i)
    ports += "|10.0.0." + std::to_string(i) + "/24";
  EXPECT_EQ(Parse(ports.c_str()).rc, 1);
  Parsed p = Parse((ports + "|10.0.0.99/24").c_str());
  EXPECT_EQ(p.rc, -E2BIG);
  EXPECT_THAT(p.error, HasSubstr("10.0.0.99 is one too many; the limit is 16"));
  EXPECT_EQ(Parse(("net_" + std::string(508, 'x')).c_str()).rc, -E2BIG);
}

TEST(DeviceIdentityTest, ErrorBufferMayBeSmallOrAbsent) {
  std::vector<urnic_device_identity> d(URNIC_MAX_DEVICES);
  char error[8];
  EXPECT_EQ(urnic_device_identity_parse("x", 1, d.data(), error, 8), -EINVAL);
  EXPECT_EQ(std::strlen(error), 7u);
  EXPECT_EQ(urnic_device_identity_parse("x", 1, d.data(), nullptr, 0), -EINVAL);
}

//= RFC 3021 2.1
TEST(DeviceIdentityTest, TheSmallestNetworksHaveOnlyHosts) {
  for (const char* port : {"loop|10.9.0.0/31", "loop|10.9.0.1/31",
                           "loop|10.9.0.0/32", "loop|10.9.0.255/32"}) {
    const Parsed p = Parse(port);
    EXPECT_EQ(p.rc, 1) << p.error;
  }
}

// Any text gives either devices or an error message.
TEST(DeviceIdentityTest, AnyTextIsParsedOrRefused) {
  const char* const words[] = {
      "loop", "net_x", "iface:",  "1:2.3",      "|",    "|",    ";",
      ",",    "/24",   "fd00::1", "10.0.0.1",   "mtu=", "1500", "mac=port",
      "\xff", "xdp:",  ",iwarp",  "transport=", "both"};
  std::mt19937 random(1);
  for (int i = 0; i < 50000; ++i) {
    std::string text;
    for (unsigned n = random() % 12; n > 0; --n)
      text += words[random() % std::size(words)];
    const Parsed p = Parse(text.c_str());
    if (p.rc < 0)
      EXPECT_NE(p.error, "") << text;
    else
      EXPECT_LE(p.rc, URNIC_MAX_DEVICES);
  }
}

TEST(IpAddressTest, ReadsASingleAddress) {
  urnic_ip_address address = {};
  char error[128];
  uint8_t gid[16];
  ASSERT_EQ(
      urnic_ip_address_parse("10.1.2.3/20", &address, error, sizeof(error)), 0);
  EXPECT_EQ(address.is_ipv6, 0);
  EXPECT_EQ(address.prefix_len, 20);
  urnic_ip_address_gid(&address, gid);
  const uint8_t kMapped[16] = {0, 0, 0,    0,    0,  0, 0, 0,
                               0, 0, 0xff, 0xff, 10, 1, 2, 3};
  EXPECT_EQ(memcmp(gid, kMapped, sizeof(gid)), 0);
  ASSERT_EQ(
      urnic_ip_address_parse("fd01::9/64", &address, error, sizeof(error)), 0);
  urnic_ip_address_gid(&address, gid);
  EXPECT_EQ(gid[0], 0xfd);
  EXPECT_EQ(gid[15], 9);
}

TEST(IpAddressTest, NamesTheMistakeButNoPort) {
  urnic_ip_address address = {};
  char error[128];
  for (const char* text : {"", "/", "x", "10.1.2.3", "10.1.2.3/", "10.1.2.3/33",
                           "10.1.2.3/0", "10.1.2.3/24 ", "::/64", "224.0.0.1/8",
                           "::ffff:10.1.2.3/96", "mtu=1500", "10.1.2.3/24|x"}) {
    EXPECT_EQ(urnic_ip_address_parse(text, &address, error, sizeof(error)),
              -EINVAL)
        << text;
    EXPECT_EQ(std::string(error).find("port"), std::string::npos) << error;
    EXPECT_NE(error[0], '\0') << text;
  }
  EXPECT_EQ(address.prefix_len, 0);
}

TEST(IbMtuTest, FollowsTheRuleOfLinux) {
  EXPECT_EQ(urnic_ib_mtu(1500), 1024u);
  EXPECT_EQ(urnic_ib_mtu(9000), 4096u);
  EXPECT_EQ(urnic_ib_mtu(URNIC_PORT_MTU_VIRTUAL), 4096u);
  EXPECT_EQ(urnic_ib_mtu(4191), 2048u);
  EXPECT_EQ(urnic_ib_mtu(URNIC_PORT_MTU_MIN), 256u);
  EXPECT_EQ(urnic_ib_mtu(URNIC_PORT_MTU_MIN - 1), 0u);
}

}  // namespace
