// Binding, ports, resolution, listening, datagrams, groups: what an id may do
// in each state.

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>
#include <vector>

#include "transport/wire/cm_messages.h"
#include "verbs/rdmacm/testing/host.h"

namespace urnic::rdmacm {
namespace {

class AddressTest : public ::testing::Test {
 protected:
  Service& service() { return *host_.service; }
  EventChannel& channel() { return *host_.channel; }
  int Listen(uint32_t id) { return service().Listen(channel(), id, 1); }
  uint16_t PortOf(uint32_t id) {
    rdma_ucm_query_addr_resp address;
    EXPECT_EQ(service().QueryAddress(channel(), id, address), 0);
    sockaddr_in in;
    std::memcpy(&in, &address.src_addr, sizeof(in));
    return ntohs(in.sin_port);
  }
  int SetFlag(uint32_t id, uint32_t option, int value) {
    uint8_t bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    return service().SetOption(channel(), id, RDMA_OPTION_ID, option, bytes);
  }

  FakeNetwork network_;
  Host host_{network_, "a", {"fe80::1", "10.0.0.1", "fd00::1"}};
  Host peer_{network_, "b", {"fe80::2", "10.0.0.2", "fd00::2"}};
};

TEST_F(AddressTest, OnlyOwnAddressesCanBeBound) {
  EXPECT_EQ(host_.Bind(host_.Create(), Address("10.0.0.1")), 0);
  EXPECT_EQ(host_.Bind(host_.Create(), Address("10.0.0.2")), EADDRNOTAVAIL);
  EXPECT_EQ(host_.Bind(host_.Create(), Address("fd00::1")), 0);
  EXPECT_EQ(host_.Bind(host_.Create(), Address("0.0.0.0")), 0);
  EXPECT_EQ(host_.Bind(host_.Create(), Address("127.0.0.1")), 0);
  // An IPv4-mapped IPv6 address is not an address of a device.
  EXPECT_EQ(host_.Bind(host_.Create(), Address("::ffff:10.0.0.1")),
            EADDRNOTAVAIL);
  // Link-local addresses need a scope.
  EXPECT_EQ(host_.Bind(host_.Create(), Address("fe80::1")), EINVAL);
  EXPECT_EQ(host_.Bind(host_.Create(), Address("fe80::1", 0, 2)), 0);
  host_.rnic.set_interface_index(7);
  EXPECT_EQ(host_.Bind(host_.Create(), Address("fe80::1", 0, 2)),
            EADDRNOTAVAIL);
  EXPECT_EQ(host_.Bind(host_.Create(), Address("fe80::1", 0, 7)), 0);
}

TEST_F(AddressTest, AnIdCanBeBoundOnce) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(host_.Bind(id, Address("192.0.2.1")), EADDRNOTAVAIL);
  EXPECT_EQ(host_.Bind(id, Address("10.0.0.1")), 0);
  EXPECT_EQ(host_.Bind(id, Address("10.0.0.1")), EINVAL);
}

TEST_F(AddressTest, AnIdWithoutAPortGetsAnEphemeralOne) {
  const auto [first, last] = PortSpaces::SystemRange();
  std::set<uint16_t> ports;
  for (int i = 0; i < 1000; ++i) {
    const uint32_t id = host_.Create();
    ASSERT_EQ(host_.Bind(id, Address("10.0.0.1")), 0);
    EXPECT_GE(PortOf(id), first);
    EXPECT_LE(PortOf(id), last);
    EXPECT_TRUE(ports.insert(PortOf(id)).second) << "used again too early";
    host_.Destroy(id);
  }
}

// A lessor from which another process has leased port `taken`.
class SharedLessor final : public Lessor {
 public:
  NumberRange Lease(NumberSpace space) override { return local.Lease(space); }
  bool LeaseOne(NumberSpace space, uint32_t number) override {
    if (number == taken) return false;
    singles.push_back({space, number});
    return true;
  }
  void GiveBack(NumberSpace space, NumberRange range) override {
    if (range.count == 1) {
      std::erase(singles, std::pair{space, range.first});
    } else {
      local.GiveBack(space, range);
    }
  }

  LocalLessor local;
  std::vector<std::pair<NumberSpace, uint32_t>> singles;
  uint32_t taken = 7174;
};

TEST(PortLeaseTest, PortsComeFromTheLeaseUntilItIsUsedUp) {
  SharedLessor lessor;
  lessor.local.Offer(NumberSpace::kTcpPort, {40000, 3});
  lessor.local.Offer(NumberSpace::kTcpPort, {50000, 2});
  std::set<uint16_t> ports;
  std::vector<Id> ids(6);
  {
    PortSpaces spaces(&lessor, NumberKey{{1, 2}});
    const auto bind = [&](Id& id, uint16_t port) {
      id.source = Address("10.0.0.1", port);
      return spaces.Bind(id);
    };
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_EQ(bind(ids[i], 0), 0);
      ports.insert(ids[i].source.port());
      EXPECT_EQ(ids[i].source.port() >= 50000, i >= 3);
    }
    EXPECT_EQ(ports, (std::set<uint16_t>{40000, 40001, 40002, 50000, 50001}));
    EXPECT_EQ(bind(ids[5], 0), EADDRNOTAVAIL);
    ids[5].port_space = PortSpace::kUdp;
    EXPECT_EQ(bind(ids[5], 0), EADDRNOTAVAIL) << "never offered";
    // A released port can be used again.
    spaces.Release(ids[0]);
    ids[5].port_space = PortSpace::kTcp;
    EXPECT_EQ(bind(ids[5], 0), 0);
    for (size_t i = 1; i < 6; ++i) spaces.Release(ids[i]);
    // A port that the program chooses is leased singly, and may already be
    // leased to another process.
    EXPECT_EQ(bind(ids[0], 7174), EADDRINUSE);
    EXPECT_EQ(bind(ids[0], 7175), 0);
    EXPECT_EQ(lessor.singles.size(), 1u);
    spaces.Release(ids[0]);
    EXPECT_TRUE(lessor.singles.empty());
  }
  EXPECT_EQ(lessor.Lease(NumberSpace::kTcpPort).count, 3u);
}

TEST_F(AddressTest, PortsAreHeldAsInLinux) {
  ASSERT_EQ(host_.Bind(host_.Create(), Address("10.0.0.1", 7000)), 0);
  EXPECT_EQ(host_.Bind(host_.Create(), Address("10.0.0.1", 7000)), EADDRINUSE);
  EXPECT_EQ(host_.Bind(host_.Create(), Address("0.0.0.0", 7000)),
            EADDRNOTAVAIL);
  EXPECT_EQ(host_.Bind(host_.Create(), Address("fd00::1", 7000)), 0)
      << "another address";
  EXPECT_EQ(
      host_.Bind(host_.Create(PortSpace::kUdp), Address("10.0.0.1", 7000)), 0)
      << "another port space";
  // An IPv6 wildcard accepts IPv4, unless told otherwise.
  EXPECT_EQ(host_.Bind(host_.Create(), Address("::", 7000)), EADDRNOTAVAIL);
  ASSERT_EQ(host_.Bind(host_.Create(), Address("0.0.0.0", 7001)), 0);
  EXPECT_EQ(host_.Bind(host_.Create(), Address("::", 7001)), EADDRNOTAVAIL);
  const uint32_t only = host_.Create();
  EXPECT_EQ(SetFlag(only, RDMA_OPTION_ID_AFONLY, 1), 0);
  EXPECT_EQ(host_.Bind(only, Address("::", 7001)), 0);
}

TEST_F(AddressTest, ReusedPortsBelongToOneListener) {
  const uint32_t a = host_.Create();
  const uint32_t b = host_.Create();
  ASSERT_EQ(SetFlag(a, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  ASSERT_EQ(SetFlag(b, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  ASSERT_EQ(host_.Bind(a, Address("10.0.0.1", 7000)), 0);
  ASSERT_EQ(host_.Bind(b, Address("10.0.0.1", 7000)), 0);
  EXPECT_EQ(Listen(a), EADDRINUSE);
  host_.Destroy(b);
  EXPECT_EQ(Listen(a), 0);
  const uint32_t late = host_.Create();
  ASSERT_EQ(SetFlag(late, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(host_.Bind(late, Address("10.0.0.1", 7000)), EADDRINUSE);
}

TEST_F(AddressTest, AfIbExistsOnlyForTheProbe) {
  SockaddrIb ib = {};
  ib.family = kAfIb;
  ib.service_id = wire::Be<uint64_t>(0x0000000001060000);
  ib.service_id_mask = wire::Be<uint64_t>(0xffffffffffff0000);
  const SocketAddress any = SocketAddress::FromBytes(
      {reinterpret_cast<const uint8_t*>(&ib), sizeof(ib)});
  const uint32_t id = host_.Create(PortSpace::kIb);
  ASSERT_EQ(host_.Bind(id, any), 0);
  rdma_ucm_query_addr_resp address;
  ASSERT_EQ(service().QueryAddress(channel(), id, address), 0);
  EXPECT_EQ(address.src_size, sizeof(ib));
  EXPECT_EQ(Listen(id), ENODEV);
  EXPECT_EQ(host_.Resolve(id, any), ENODEV);
  ib.address = GidOf("fd00::1");
  const SocketAddress specific = SocketAddress::FromBytes(
      {reinterpret_cast<const uint8_t*>(&ib), sizeof(ib)});
  EXPECT_EQ(host_.Bind(host_.Create(PortSpace::kIb), specific), ENODEV);
  // A service that the id's port space does not have.
  EXPECT_EQ(host_.Bind(host_.Create(PortSpace::kUdp), any), EPROTONOSUPPORT);
}

TEST_F(AddressTest, PortSpacesThatAreNotBuiltAreRefused) {
  uint32_t number = 0;
  constexpr uint16_t kIpoib = 2;
  for (const uint16_t space : {kIpoib, uint16_t{0}, uint16_t{0xffff}}) {
    EXPECT_EQ(service().CreateId(channel(), 1, space, 2, &number), EINVAL);
  }
}

TEST_F(AddressTest, ANewIdGetsTheLowestFreeNumber) {
  EXPECT_EQ(host_.Create(), 0u);
  EXPECT_EQ(host_.Create(), 1u);
  EXPECT_EQ(host_.Create(), 2u);
  host_.Destroy(1);
  EXPECT_EQ(host_.Create(), 1u);
}

// ---------------------------------------------------------------- resolution

TEST_F(AddressTest, ResolutionFindsDeviceAndSource) {
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.Resolve(id, Address("10.0.0.2", 7000)), 0);
  EXPECT_EQ(host_.NextType(), EventType::kAddrResolved);
  rdma_ucm_query_route_resp route;
  ASSERT_EQ(service().QueryRoute(channel(), id, route), 0);
  EXPECT_EQ(route.port_num, 1);
  EXPECT_NE(route.node_guid, 0u);
  EXPECT_EQ(route.num_paths, 0u);
  EXPECT_EQ(route.ib_route[0].sgid[15], 1);
  EXPECT_EQ(route.ib_route[0].dgid[15], 2);
  EXPECT_EQ(host_.Resolve(id, Address("10.0.0.2", 7000)), EINVAL);
}

TEST_F(AddressTest, FarAddressesAreUnreachableImmediately) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(host_.Resolve(id, Address("192.0.2.1")), ENETUNREACH);
  EXPECT_FALSE(host_.Next().has_value());
  // As in Linux the id is bound now, and may resolve another address.
  EXPECT_EQ(host_.Resolve(id, Address("fd00::2")), EINVAL) << "another family";
  EXPECT_EQ(host_.Resolve(id, Address("10.0.0.2")), 0);
}

TEST_F(AddressTest, BeyondARouterTheRouteChoosesTheSource) {
  Host far{network_, "c", {"fe80::3", "192.0.2.9"}};
  const uint32_t id = host_.Create();
  host_.rnic.routed_remote = Address("192.0.2.9").gid();
  host_.rnic.routed = {.source = Address("10.0.0.1").gid(),
                       .prefix_bits = 96 + 24};
  ASSERT_EQ(host_.Resolve(id, Address("192.0.2.9", 7000)), 0);
  EXPECT_EQ(host_.NextType(), EventType::kAddrResolved);
  rdma_ucm_query_route_resp route;
  ASSERT_EQ(service().QueryRoute(channel(), id, route), 0);
  EXPECT_EQ(route.ib_route[0].sgid[12], 10);
  EXPECT_EQ(route.ib_route[0].sgid[15], 1);
  EXPECT_EQ(route.ib_route[0].dgid[15], 9);
}

TEST_F(AddressTest, TheRouteHasTheMtuOfThePathThatWasFound) {
  for (const bool smaller : {false, true}) {
    host_.rnic.path_mtu = smaller ? 800 : 0;
    const uint32_t id = host_.Create();
    ASSERT_EQ(host_.Resolve(id, Address("10.0.0.2", 7000)), 0);
    EXPECT_EQ(host_.NextType(), EventType::kAddrResolved);
    ASSERT_EQ(service().ResolveRoute(channel(), id, 1000), 0);
    EXPECT_EQ(host_.NextType(), EventType::kRouteResolved);
    rdma_ucm_query_route_resp route;
    ASSERT_EQ(service().QueryRoute(channel(), id, route), 0);
    EXPECT_EQ(route.ib_route[0].mtu, smaller ? 2u : 3u);
  }
}

TEST_F(AddressTest, ResolutionReportsADeviceThatDoesNotOpen) {
  host_.rnic.open_error = EBUSY;
  const uint32_t id = host_.Create();
  EXPECT_EQ(host_.Resolve(id, Address("10.0.0.2")), EBUSY);
  host_.rnic.open_error = 0;
  EXPECT_EQ(host_.Resolve(id, Address("10.0.0.2")), 0);
}

TEST_F(AddressTest, LoopbackMeansTheFirstDevice) {
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.Resolve(id, Address("127.0.0.1", 7000)), 0);
  EXPECT_EQ(host_.NextType(), EventType::kAddrResolved);
  rdma_ucm_query_addr_resp address;
  ASSERT_EQ(service().QueryAddress(channel(), id, address), 0);
  const SocketAddress expected = Address("10.0.0.1", 7000);
  EXPECT_EQ(std::memcmp(&address.dst_addr, expected.data(), expected.size()),
            0);
}

TEST_F(AddressTest, RoutesNeedAnAddressAndATimeout) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(service().ResolveRoute(channel(), id, 1), EINVAL);
  ASSERT_EQ(host_.Resolve(id, Address("10.0.0.2")), 0);
  EXPECT_EQ(service().ResolveRoute(channel(), id, 0), EINVAL);
  EXPECT_EQ(service().ResolveRoute(channel(), id, 1), 0);
  EXPECT_EQ(service().ResolveRoute(channel(), id, 1), EINVAL);
}

//= IBTA 15.2.5.16, A11.2
TEST_F(AddressTest, AQueriedPathIsTheRecordOfASubnetAdministrator) {
  const uint32_t id = host_.Routed(Address("10.0.0.2", 7000));
  bool found = false;
  ib_path_rec_data path;
  ASSERT_EQ(service().QueryPath(channel(), id, &found, path), 0);
  ASSERT_TRUE(found);
  const auto* record = reinterpret_cast<const uint8_t*>(path.path_rec);
  const auto equal = [record](size_t at, std::vector<uint8_t> bytes) {
    return std::equal(bytes.begin(), bytes.end(), record + at);
  };
  // The service: RDMA_PS_TCP and port 7000.
  EXPECT_TRUE(equal(0, {0, 0, 0, 0, 0x01, 0x06, 0x1b, 0x58}));
  // The destination and the source, whose IPv4 addresses end their GIDs.
  EXPECT_TRUE(equal(8 + 10, {0xff, 0xff, 10, 0, 0, 2}));
  EXPECT_TRUE(equal(24 + 10, {0xff, 0xff, 10, 0, 0, 1}));
  EXPECT_TRUE(equal(40, {0, 0, 0, 0})) << "LIDs";
  EXPECT_EQ(record[47], 64) << "hop limit";
  EXPECT_EQ(record[49], 0x80) << "reversible";
  EXPECT_TRUE(equal(50, {0xff, 0xff})) << "P_Key";
  EXPECT_EQ(record[54] >> 6, 2) << "the MTU is exact";
}

TEST_F(AddressTest, TheProgramMayGiveThePath) {
  const uint32_t other = host_.Routed(Address("10.0.0.2", 7000));
  bool found = false;
  ib_path_rec_data path;
  ASSERT_EQ(service().QueryPath(channel(), other, &found, path), 0);
  ASSERT_TRUE(found);
  const uint32_t id = host_.Create();
  const std::span<const uint8_t> value(reinterpret_cast<const uint8_t*>(&path),
                                       sizeof(path));
  const auto set = [&](std::span<const uint8_t> bytes) {
    return service().SetOption(channel(), id, RDMA_OPTION_IB,
                               RDMA_OPTION_IB_PATH, bytes);
  };
  EXPECT_EQ(set(value), EINVAL) << "no address yet";
  ASSERT_EQ(host_.Resolve(id, Address("10.0.0.2", 7000)), 0);
  EXPECT_EQ(host_.NextType(), EventType::kAddrResolved);
  EXPECT_EQ(set({}), EINVAL);
  EXPECT_EQ(set(value.first(71)), EINVAL);
  EXPECT_EQ(set(value), 0);
  EXPECT_EQ(host_.NextType(), EventType::kRouteResolved);
  EXPECT_EQ(host_.Connect(id, 5), 0);
}

TEST_F(AddressTest, OptionsCheckTheirSizesAndStates) {
  const uint32_t id = host_.Create();
  const uint8_t bytes[8] = {1};
  const auto set = [&](uint32_t level, uint32_t option, size_t size) {
    return service().SetOption(channel(), id, level, option, {bytes, size});
  };
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 8), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, 4, 1), ENOSYS);
  EXPECT_EQ(set(RDMA_OPTION_IB, 2, 1), ENOSYS);
  EXPECT_EQ(set(7, 0, 1), ENOSYS);
  EXPECT_EQ(Listen(id), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4), EINVAL);
  EXPECT_EQ(SetFlag(id, RDMA_OPTION_ID_REUSEADDR, 0), EINVAL);
  EXPECT_EQ(SetFlag(id, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
  const uint32_t datagrams = host_.Create(PortSpace::kUdp);
  EXPECT_EQ(service().SetOption(channel(), datagrams, RDMA_OPTION_ID,
                                RDMA_OPTION_ID_ACK_TIMEOUT, {bytes, 1}),
            EINVAL);
}

TEST_F(AddressTest, TheTosGoesIntoTheRoute) {
  const uint32_t id = host_.Create();
  const uint8_t tos = 0x68;
  ASSERT_EQ(service().SetOption(channel(), id, RDMA_OPTION_ID,
                                RDMA_OPTION_ID_TOS, {&tos, 1}),
            0);
  ASSERT_EQ(host_.Resolve(id, Address("10.0.0.2", 7000)), 0);
  ASSERT_EQ(service().ResolveRoute(channel(), id, 1), 0);
  rdma_ucm_query_route_resp route;
  ASSERT_EQ(service().QueryRoute(channel(), id, route), 0);
  EXPECT_EQ(route.ib_route[0].traffic_class, tos);
}

// ----------------------------------------------------------------- listening

TEST_F(AddressTest, ListeningBindsToAllAddressesByItself) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(Listen(id), 0);
  EXPECT_NE(PortOf(id), 0);
  EXPECT_EQ(Listen(id), EINVAL);
}

TEST_F(AddressTest, ListeningFailsIfNoDeviceOpens) {
  host_.rnic.open_error = EBUSY;
  const uint32_t id = host_.Create();
  EXPECT_EQ(Listen(id), EBUSY);
  host_.rnic.open_error = 0;
  EXPECT_EQ(Listen(id), 0) << "it is still bound";
}

// ----------------------------------------------------------------- datagrams

class DatagramTest : public AddressTest {
 protected:
  uint32_t Request() {
    network_.Deliver();
    const auto event = peer_.Next();
    EXPECT_TRUE(event.has_value());
    return event.has_value() ? event->id : 0;
  }
};

//= Linux cma_sidr_rep_handler()
TEST_F(DatagramTest, AServiceReportsItsQueuePair) {
  peer_.Listener(7000, PortSpace::kUdp);
  const uint32_t id = host_.Routed(Address("10.0.0.2", 7000), PortSpace::kUdp);
  ib_uverbs_qp_attr init;
  ASSERT_EQ(service().InitQpAttributes(channel(), id, 1, init), 0);
  EXPECT_EQ(init.qkey, kUdpQkey);
  EXPECT_EQ(init.qp_attr_mask, 0x71u);
  ASSERT_EQ(host_.Connect(id, 5, "hello"), 0);
  network_.Deliver();
  const auto request = peer_.Next();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->param.ud.private_data_len, 180);
  EXPECT_EQ(DataOf(request->param.ud).substr(0, 5), "hello");
  ASSERT_EQ(peer_.Accept(request->id, 9, "here"), 0);
  network_.Deliver();
  const auto answer = host_.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(static_cast<EventType>(answer->event), EventType::kEstablished);
  EXPECT_EQ(answer->param.ud.qp_num, 9u);
  EXPECT_EQ(answer->param.ud.qkey, kUdpQkey);
  EXPECT_EQ(answer->param.ud.private_data_len, 136);
  EXPECT_EQ(DataOf(answer->param.ud).substr(0, 4), "here");
  EXPECT_EQ(answer->param.ud.ah_attr.grh.sgid_index, 3);
  EXPECT_EQ(answer->param.ud.ah_attr.grh.dgid[15], 2);
}

//= Linux cma_sidr_rep_handler()
TEST_F(DatagramTest, AServiceMayRefuse) {
  peer_.Listener(7000, PortSpace::kUdp);
  const uint32_t id = host_.Routed(Address("10.0.0.2", 7000), PortSpace::kUdp);
  ASSERT_EQ(host_.Connect(id, 5), 0);
  ASSERT_EQ(peer_.service->Reject(*peer_.channel, Request(), 0, {}), 0);
  network_.Deliver();
  const auto answer = host_.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(static_cast<EventType>(answer->event), EventType::kUnreachable);
  EXPECT_EQ(answer->status, wire::kSidrReject);
}

TEST_F(DatagramTest, ADatagramIdWithoutAServiceIsUnreachable) {
  peer_.Listener(7001, PortSpace::kUdp);
  const uint32_t id = host_.Routed(Address("10.0.0.2", 7000), PortSpace::kUdp);
  ASSERT_EQ(host_.Connect(id, 5), 0);
  network_.Deliver();
  const auto answer = host_.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(static_cast<EventType>(answer->event), EventType::kUnreachable);
  EXPECT_EQ(answer->status, wire::kSidrUnsupported);
}

TEST_F(DatagramTest, SilenceIsATimeout) {
  const uint32_t id = host_.Routed(Address("10.0.0.2", 7000), PortSpace::kUdp);
  network_.is_lost = [](const auto&) { return true; };
  ASSERT_EQ(host_.Connect(id, 5), 0);
  network_.Advance(Duration::Seconds(3600));
  const auto answer = host_.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(static_cast<EventType>(answer->event), EventType::kUnreachable);
  EXPECT_EQ(static_cast<int>(answer->status), -ETIMEDOUT);
}

// ------------------------------------------------------------------ multicast

TEST_F(AddressTest, DatagramIdsWithADeviceCanJoinAGroup) {
  const SocketAddress group = Address("239.1.2.3");
  uint32_t multicast = 0;
  const auto join = [&](uint32_t id, const SocketAddress& to) {
    return service().JoinMulticast(channel(), id, 77, to, &multicast);
  };
  EXPECT_EQ(join(host_.Create(), group), EINVAL) << "no device";
  const uint32_t stream = host_.Create();
  ASSERT_EQ(host_.Bind(stream, Address("10.0.0.1")), 0);
  EXPECT_EQ(join(stream, group), EINVAL) << "not a datagram id";
  const uint32_t id = host_.Create(PortSpace::kUdp, 4);
  ASSERT_EQ(host_.Bind(id, Address("10.0.0.1")), 0);
  EXPECT_EQ(join(id, Address("10.0.0.2")), EINVAL) << "not a group";
  ASSERT_EQ(join(id, group), 0);
  const auto event = host_.Next();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(static_cast<EventType>(event->event), EventType::kMulticastJoin);
  EXPECT_EQ(event->uid, 77u);
  EXPECT_EQ(event->id, multicast);
  EXPECT_EQ(event->param.ud.qkey, kUdpQkey);
  uint32_t events = 0;
  EXPECT_EQ(service().LeaveMulticast(channel(), multicast, &events), 0);
  EXPECT_EQ(events, 1u);
  EXPECT_EQ(service().LeaveMulticast(channel(), multicast, &events), ENOENT);
  EXPECT_EQ(host_.Destroy(id), 1u) << "the id counts it as well";
}

TEST_F(AddressTest, LeavingAGroupRemovesItsEvent) {
  const uint32_t id = host_.Create(PortSpace::kUdp, 4);
  ASSERT_EQ(host_.Bind(id, Address("10.0.0.1")), 0);
  uint32_t multicast = 0;
  ASSERT_EQ(service().JoinMulticast(channel(), id, 77, Address("239.1.2.3"),
                                    &multicast),
            0);
  EXPECT_TRUE(host_.readiness.ready);
  uint32_t events = 7;
  EXPECT_EQ(service().LeaveMulticast(channel(), multicast, &events), 0);
  EXPECT_EQ(events, 0u);
  EXPECT_FALSE(host_.readiness.ready);
  EXPECT_EQ(host_.Destroy(id), 0u);
}

}  // namespace
}  // namespace urnic::rdmacm
