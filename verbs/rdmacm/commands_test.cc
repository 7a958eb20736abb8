// The bytes that programs write: sizes, unmapped memory, and commands on ids in
// the wrong state.

#include "verbs/rdmacm/commands.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "verbs/control/untold.h"
#include "verbs/rdmacm/testing/host.h"

namespace urnic::rdmacm {
namespace {

constexpr uint64_t kNowhere = 0x1000;

// This process's memory, except the first pages.
struct TestMemory final : UserMemory {
  bool Read(void* to, uint64_t from, size_t bytes) override {
    if (from <= 2 * kNowhere) return false;
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return true;
  }
  bool Write(uint64_t to, const void* from, size_t bytes) override {
    if (to <= 2 * kNowhere) return false;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return true;
  }
};

struct TestChannels final : ChannelFinder {
  EventChannel* Find(uint32_t fd) override {
    return fd == 7 ? channel : nullptr;
  }
  EventChannel* channel = nullptr;
};

class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() { channels_.channel = host_.channel; }

  int RunBytes(const void* bytes, size_t size) {
    return RunCommand(*host_.service, *host_.channel, memory_, channels_,
                      reinterpret_cast<uint64_t>(bytes), size);
  }
  // `body` is a command's struct.
  template <typename T>
  int Run(uint32_t command, const T& body, size_t out, size_t in = sizeof(T)) {
    std::vector<uint8_t> bytes(sizeof(rdma_ucm_cmd_hdr) + in);
    const rdma_ucm_cmd_hdr header = {command, static_cast<uint16_t>(in),
                                     static_cast<uint16_t>(out)};
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), &body, in);
    return RunBytes(bytes.data(), bytes.size());
  }
  template <typename T>
  static uint64_t AddressOf(T& object) {
    return reinterpret_cast<uint64_t>(&object);
  }
  int CreateId(uint64_t response) {
    rdma_ucm_create_id body = {};
    body.uid = 1;
    body.response = response;
    body.ps = RDMA_PS_TCP;
    return Run(RDMA_USER_CM_CMD_CREATE_ID, body,
               sizeof(rdma_ucm_create_id_resp));
  }

  FakeNetwork network_;
  Host host_{network_, "a", {"fe80::1", "10.0.0.1"}};
  TestMemory memory_;
  TestChannels channels_;
};

TEST_F(CommandsTest, ShortAndUnknownCommandsAreInvalid) {
  rdma_ucm_cmd_hdr header = {};
  for (size_t size = 0; size < sizeof(header); ++size) {
    EXPECT_EQ(RunBytes(&header, size), EINVAL);
  }
  header.cmd = RDMA_USER_CM_CMD_JOIN_MCAST + 1;
  EXPECT_EQ(RunBytes(&header, sizeof(header)), EINVAL);
  header.cmd = RDMA_USER_CM_CMD_GET_OPTION;
  EXPECT_EQ(RunBytes(&header, sizeof(header)), ENOSYS);
  header.cmd = RDMA_USER_CM_CMD_CREATE_ID;
  header.in = 8;
  EXPECT_EQ(RunBytes(&header, sizeof(header)), EINVAL)
      << "says that it is longer than it is";
  EXPECT_EQ(RunCommand(*host_.service, *host_.channel, memory_, channels_,
                       kNowhere, 100),
            EFAULT);
}

// Every command is refused at every length that is too short.
TEST_F(CommandsTest, EveryCommandNeedsItsBytes) {
  const size_t kSizes[] = {
      sizeof(rdma_ucm_create_id),      sizeof(rdma_ucm_destroy_id),
      sizeof(rdma_ucm_bind_ip),        sizeof(rdma_ucm_resolve_ip),
      sizeof(rdma_ucm_resolve_route),  sizeof(rdma_ucm_query),
      offsetof(rdma_ucm_connect, ece), sizeof(rdma_ucm_listen),
      offsetof(rdma_ucm_accept, ece),  sizeof(rdma_ucm_reject),
      sizeof(rdma_ucm_disconnect),     sizeof(rdma_ucm_init_qp_attr),
      sizeof(rdma_ucm_get_event),      0,
      sizeof(rdma_ucm_set_option),     sizeof(rdma_ucm_notify),
      sizeof(rdma_ucm_join_ip_mcast),  sizeof(rdma_ucm_destroy_id),
      sizeof(rdma_ucm_migrate_id),     sizeof(rdma_ucm_query),
      sizeof(rdma_ucm_bind),           sizeof(rdma_ucm_resolve_addr),
      sizeof(rdma_ucm_join_mcast)};
  uint8_t zeros[1024] = {};
  for (uint32_t command = 0; command <= RDMA_USER_CM_CMD_JOIN_MCAST;
       ++command) {
    for (size_t size = 0; size < kSizes[command]; ++size) {
      EXPECT_EQ(Run(command, zeros, 1000, size), EINVAL)
          << "command " << command << " of " << size << " bytes";
    }
  }
  EXPECT_EQ(host_.Create(), 0u) << "no id has been made";
}

TEST_F(CommandsTest, AnswersNeedRoom) {
  const struct {
    uint32_t command;
    size_t room;
  } kAnswers[] = {
      {RDMA_USER_CM_CMD_CREATE_ID, 4},
      {RDMA_USER_CM_CMD_DESTROY_ID, 4},
      {RDMA_USER_CM_CMD_QUERY_ROUTE,
       offsetof(rdma_ucm_query_route_resp, ibdev_index)},
      {RDMA_USER_CM_CMD_INIT_QP_ATTR, sizeof(ib_uverbs_qp_attr)},
      {RDMA_USER_CM_CMD_GET_EVENT, offsetof(rdma_ucm_event_resp, reserved)},
      {RDMA_USER_CM_CMD_JOIN_IP_MCAST, 4},
      {RDMA_USER_CM_CMD_LEAVE_MCAST, 4},
      {RDMA_USER_CM_CMD_MIGRATE_ID, 4},
      {RDMA_USER_CM_CMD_JOIN_MCAST, 4},
  };
  uint8_t zeros[1024] = {};
  for (const auto& answer : kAnswers) {
    EXPECT_EQ(Run(answer.command, zeros, answer.room - 1), ENOSPC)
        << answer.command;
    EXPECT_NE(Run(answer.command, zeros, answer.room), ENOSPC)
        << answer.command;
  }
  const uint32_t id = host_.Create();
  rdma_ucm_query query = {};
  query.id = id;
  for (const uint32_t option : {0, 1, 2}) {
    query.option = option;
    EXPECT_EQ(Run(RDMA_USER_CM_CMD_QUERY, query, 7), ENOSPC) << option;
  }
  query.option = 3;
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_QUERY, query, 1000), ENOSYS);
}

TEST_F(CommandsTest, UnmappedMemoryIsAFault) {
  EXPECT_EQ(CreateId(kNowhere), EFAULT);
  EXPECT_EQ(host_.Create(), 0u) << "the id is gone again";
  ASSERT_EQ(host_.Resolve(0, Address("10.0.0.1", 1)), 0);
  rdma_ucm_get_event get = {kNowhere};
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_GET_EVENT, get, sizeof(rdma_ucm_event_resp)),
            EFAULT);
  EXPECT_TRUE(host_.readiness.ready) << "the event is still there";
  rdma_ucm_set_option option = {};
  option.optval = kNowhere;
  option.optlen = 1;
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_SET_OPTION, option, 0), EFAULT);
  option.optlen = 1u << 30;
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_SET_OPTION, option, 0), EINVAL);
}

TEST_F(CommandsTest, AnEventIsTakenByItsCommand) {
  rdma_ucm_event_resp event = {};
  rdma_ucm_get_event get = {AddressOf(event)};
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_GET_EVENT, get, sizeof(event)), EAGAIN);
  ASSERT_EQ(host_.Resolve(host_.Create(), Address("10.0.0.1", 1)), 0);
  // Programs older than ECE ask for less.
  const size_t old_size = offsetof(rdma_ucm_event_resp, reserved);
  event.ece.vendor_id = 99;
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_GET_EVENT, get, old_size), 0);
  EXPECT_EQ(static_cast<EventType>(event.event), EventType::kAddrResolved);
  EXPECT_EQ(event.ece.vendor_id, 99u) << "beyond the room";
}

TEST_F(CommandsTest, AddressesMustHaveTheSizeOfTheirFamily) {
  const uint32_t id = host_.Create();
  const SocketAddress own = Address("10.0.0.1");
  rdma_ucm_bind bind = {};
  bind.id = id;
  std::memcpy(&bind.addr, own.data(), own.size());
  for (const uint16_t size : {0, 15, 17, 28, 128}) {
    bind.addr_size = size;
    EXPECT_EQ(Run(RDMA_USER_CM_CMD_BIND, bind, 0), EINVAL) << size;
  }
  bind.addr_size = sizeof(sockaddr_in);
  bind.reserved = 1;
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_BIND, bind, 0), EINVAL);
  bind.reserved = 0;
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_BIND, bind, 0), 0);
  rdma_ucm_resolve_addr resolve = {};
  resolve.id = id;
  std::memcpy(&resolve.dst_addr, own.data(), own.size());
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_RESOLVE_ADDR, resolve, 0), EINVAL);
  resolve.dst_size = sizeof(sockaddr_in);
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_RESOLVE_ADDR, resolve, 0), 0);
  rdma_ucm_bind_ip bind_ip = {};
  bind_ip.id = host_.Create();
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_BIND_IP, bind_ip, 0), EINVAL) << "no family";
}

TEST_F(CommandsTest, MigrationNamesADescriptor) {
  rdma_ucm_migrate_resp response = {99};
  rdma_ucm_migrate_id migrate = {AddressOf(response), host_.Create(), 8};
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, 4), ENOENT);
  migrate.fd = 7;
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, 4), 0);
  EXPECT_EQ(response.events_reported, 0u);
}

TEST_F(CommandsTest, UnknownIdsAndIdsOfOtherChannelsAreRefused) {
  FakeReadiness readiness;
  EventChannel* const other = host_.service->OpenChannel(readiness);
  uint32_t foreign = 0;
  ASSERT_EQ(host_.service->CreateId(*other, 1, RDMA_PS_TCP, 2, &foreign), 0);
  rdma_ucm_disconnect command = {foreign};
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_DISCONNECT, command, 0), EINVAL);
  command.id = 500;
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_DISCONNECT, command, 0), ENOENT);
  host_.service->CloseChannel(other);
}

// Commands that need a connection, on ids that have none.
TEST_F(CommandsTest, CommandsInTheWrongStateChangeNothing) {
  const uint32_t idle = host_.Create();
  const uint32_t bound = host_.Create();
  ASSERT_EQ(host_.Bind(bound, Address("10.0.0.1")), 0);
  const uint32_t listening = host_.Listener(7000);
  const uint32_t routed = host_.Routed(Address("10.0.0.1", 7001));
  for (const uint32_t id : {idle, bound, listening, routed}) {
    rdma_ucm_connect connect = {};
    connect.id = id;
    EXPECT_EQ(Run(RDMA_USER_CM_CMD_CONNECT, connect, 0), EINVAL) << "not valid";
    connect.conn_param.valid = 1;
    if (id != routed) {
      EXPECT_EQ(Run(RDMA_USER_CM_CMD_CONNECT, connect, 0), EINVAL) << id;
    }
    rdma_ucm_accept accept = {};
    accept.id = id;
    EXPECT_EQ(Run(RDMA_USER_CM_CMD_ACCEPT, accept, 0), EINVAL) << id;
    rdma_ucm_reject reject = {};
    reject.id = id;
    EXPECT_EQ(Run(RDMA_USER_CM_CMD_REJECT, reject, 0), EINVAL) << id;
    rdma_ucm_disconnect disconnect = {id};
    EXPECT_EQ(Run(RDMA_USER_CM_CMD_DISCONNECT, disconnect, 0), EINVAL) << id;
    rdma_ucm_notify notify = {id, 4};
    EXPECT_EQ(Run(RDMA_USER_CM_CMD_NOTIFY, notify, 0), EINVAL) << id;
    rdma_ucm_resolve_route route = {id, 1000};
    EXPECT_EQ(Run(RDMA_USER_CM_CMD_RESOLVE_ROUTE, route, 0), EINVAL) << id;
  }
  EXPECT_FALSE(host_.readiness.ready);
  EXPECT_EQ(network_.Deliver(), 0) << "nothing was sent";
  // The ids still work.
  EXPECT_EQ(host_.Connect(routed, 5), 0);
  EXPECT_EQ(host_.service->Listen(*host_.channel, bound, 1), 0);
  EXPECT_EQ(host_.Bind(idle, Address("10.0.0.1")), 0);
}

class RefusalsTest : public CommandsTest {
 protected:
  // Runs a command that is refused with `error`.
  template <typename T>
  void Refuse(uint32_t command, const T& body, int error, ErrorCode code,
              const std::string& text, size_t out = 0) {
    SCOPED_TRACE(text);
    const size_t before = host_.rnic.refusals.size();
    EXPECT_EQ(Run(command, body, out), error);
    ASSERT_EQ(host_.rnic.refusals.size(), before + 1);
    EXPECT_EQ(host_.rnic.refusals.back().code, code);
    EXPECT_EQ(host_.rnic.refusals.back().text, text);
  }
  static rdma_ucm_bind BindTo(uint32_t id, const SocketAddress& address) {
    rdma_ucm_bind bind = {};
    bind.id = id;
    bind.addr_size = static_cast<uint16_t>(address.size());
    std::memcpy(&bind.addr, address.data(), address.size());
    return bind;
  }
};

TEST_F(RefusalsTest, EachHasACodeAndTellsCallIdAndReason) {
  host_.Routed(Address("10.0.0.1", 7001));  // cm_id 1 opens the RNIC
  const uint32_t listener = host_.Listener(7000);
  const uint32_t idle = host_.Create();
  Refuse(RDMA_USER_CM_CMD_BIND, BindTo(idle, Address("10.0.0.9", 7002)),
         EADDRNOTAVAIL, ErrorCode::kNotLocal,
         "rdma_bind_addr: cm_id 3 (IDLE): 10.0.0.9:7002: no device of this "
         "program has the address (EADDRNOTAVAIL)");
  Refuse(RDMA_USER_CM_CMD_BIND, BindTo(idle, Address("10.0.0.1", 7000)),
         EADDRNOTAVAIL, ErrorCode::kTcpPortTaken,
         "rdma_bind_addr: cm_id 3 (IDLE): 10.0.0.1:7000: another id or "
         "listener has the port (EADDRNOTAVAIL)");
  Refuse(RDMA_USER_CM_CMD_BIND, BindTo(idle, Address("0.0.0.0", 7000)),
         EADDRNOTAVAIL, ErrorCode::kTcpPortTaken,
         "rdma_bind_addr: cm_id 3 (IDLE): 0.0.0.0:7000: another id or "
         "listener has the port (EADDRNOTAVAIL)");
  Refuse(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{listener, 1}, EINVAL,
         ErrorCode::kCmCallRefused,
         "rdma_listen: cm_id 2 (LISTEN, 0.0.0.0:7000): an argument is wrong, "
         "or the call is not allowed in the state LISTEN or without a device "
         "(EINVAL)");
  rdma_ucm_resolve_ip resolve = {};
  resolve.id = idle;
  const SocketAddress far = Address("192.0.2.1", 7000);
  std::memcpy(&resolve.dst_addr, far.data(), far.size());
  ASSERT_EQ(host_.Bind(idle, Address("10.0.0.1", 7003)), 0);
  resolve.id = host_.Create();
  ASSERT_EQ(host_.Bind(resolve.id, Address("0.0.0.0", 7004)), 0);
  Refuse(RDMA_USER_CM_CMD_RESOLVE_IP, resolve, ENETUNREACH, ErrorCode::kNoRoute,
         "rdma_resolve_addr: cm_id 4 (ADDR_BOUND, 0.0.0.0:7004): "
         "192.0.2.1:7000: no device of this program has a route there "
         "(ENETUNREACH)");
  rdma_ucm_join_ip_mcast join = {};
  join.id = idle;
  const SocketAddress group = Address("239.0.0.1");
  std::memcpy(&join.addr, group.data(), group.size());
  Refuse(RDMA_USER_CM_CMD_JOIN_IP_MCAST, join, EINVAL,
         ErrorCode::kCmCallRefused,
         "rdma_join_multicast: cm_id 3 (ADDR_BOUND, 10.0.0.1:7003): "
         "239.0.0.1:0: an argument is wrong, or the call is not allowed in the "
         "state ADDR_BOUND (EINVAL)",
         sizeof(rdma_ucm_create_id_resp));
  rdma_ucm_set_option option = {};
  option.id = idle;
  option.level = 7;
  Refuse(RDMA_USER_CM_CMD_SET_OPTION, option, ENOSYS, ErrorCode::kNotBuilt,
         "rdma_set_option: cm_id 3 (ADDR_BOUND, 10.0.0.1:7003): there is no "
         "such call or option (ENOSYS)");
  Refuse(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{500}, ENOENT,
         ErrorCode::kObjectEnded,
         "rdma_disconnect: id 500: there is no such id, group or descriptor "
         "(ENOENT)");
  Refuse(RDMA_USER_CM_CMD_LISTEN, uint32_t{0}, EINVAL,
         ErrorCode::kCmCallRefused,
         "rdma_listen: an argument is wrong (EINVAL)");
}

TEST_F(RefusalsTest, ThatThereIsNoEventIsNone) {
  host_.Routed(Address("10.0.0.1", 7001));
  rdma_ucm_event_resp event = {};
  rdma_ucm_get_event get = {AddressOf(event)};
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_GET_EVENT, get, sizeof(event)), EAGAIN);
  EXPECT_TRUE(host_.rnic.refusals.empty());
}

TEST_F(RefusalsTest, WithoutAnRnicTheyAreKept) {
  control::TakeUntold([](ErrorCode, const std::string&) {});
  EXPECT_EQ(Run(RDMA_USER_CM_CMD_BIND,
                BindTo(host_.Create(), Address("10.0.0.9", 7000)), 0),
            EADDRNOTAVAIL);
  EXPECT_TRUE(host_.rnic.refusals.empty());
  int told = 0;
  control::TakeUntold([&](ErrorCode code, const std::string& text) {
    ++told;
    EXPECT_EQ(code, ErrorCode::kNotLocal);
    EXPECT_TRUE(text.starts_with("rdma_bind_addr: cm_id 1 (IDLE): ")) << text;
  });
  EXPECT_EQ(told, 1);
  control::TakeUntold([&](ErrorCode, const std::string&) { ++told; });
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace urnic::rdmacm
