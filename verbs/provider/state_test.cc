// What `urnic state` shows of a program: queue pairs in any state, created and
// used through libibverbs, and connections of librdmacm.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <span>
#include <string>
#include <thread>
#include <vector>

#include "transport/work/image.h"
#include "verbs/cli/image_view.h"
#include "verbs/cli/rnic_process.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A line for each queue pair, in order of creation, and for each connection.
std::vector<std::string> Lines() {
  const auto rnic = FindOneRnic("urnic0", std::to_string(getpid()));
  EXPECT_TRUE(rnic.ok()) << rnic.status();
  const auto answer = AskRnic(*rnic, "state");
  EXPECT_TRUE(answer.ok()) << answer.status();
  std::vector<std::string> lines;
  std::span<const uint8_t> rest(
      reinterpret_cast<const uint8_t*>(answer->data()), answer->size());
  while (!rest.empty()) {
    const size_t bytes = ImageLength(rest);
    if (bytes == 0 || bytes > rest.size()) {
      ADD_FAILURE() << "no image";
      break;
    }
    const auto view = ViewImage(rest.first(bytes));
    EXPECT_TRUE(view.ok()) << view.status();
    if (view.ok()) lines.push_back(view->line);
    rest = rest.subspan(bytes);
  }
  return lines;
}

TEST(StateTest, ShowsQueuePairsInAnyState) {
  OpenDevice device;
  EXPECT_THAT(Lines(), ElementsAre());
  PairOptions unreliable;
  unreliable.type = IBV_QPT_UC;
  End a(device, {});
  End b(device, unreliable);
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr(" RC  RESET "), HasSubstr(" UC  RESET ")));
  ASSERT_EQ(a.ToInit(), 0);
  ASSERT_EQ(b.ToInit(), 0);
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr(" RC  INIT "), HasSubstr(" UC  INIT ")));
  a.set_peer(a);
  ASSERT_EQ(a.ToRtr(a.qp()->qp_num), 0);
  ASSERT_EQ(a.ToRts(), 0);
  ASSERT_EQ(b.To(IBV_QPS_ERR), 0);
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr(" RC  RTS "), HasSubstr(" UC  ERR ")));
}

// provider_main.cc, --both.
constexpr char kRoce[] = "10.9.0.1";
constexpr char kIwarp[] = "10.9.0.2";

rdma_cm_id* EndPoint(const char* address, int flags) {
  rdma_addrinfo hints = {};
  hints.ai_flags = flags;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* info = nullptr;
  EXPECT_EQ(rdma_getaddrinfo(address, "7174", &hints, &info), 0);
  ibv_qp_init_attr attributes = {};
  attributes.cap = {1, 1, 1, 1, 0};
  attributes.qp_type = IBV_QPT_RC;
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_ep(&id, info, nullptr, &attributes), 0);
  rdma_freeaddrinfo(info);
  return id;
}

TEST(StateTest, ShowsConnections) {
  rdma_cm_id* const listener = EndPoint(kRoce, RAI_PASSIVE);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  rdma_cm_id* const client = EndPoint(kRoce, 0);
  ASSERT_NE(client, nullptr);
  std::thread connects([&] { EXPECT_EQ(rdma_connect(client, nullptr), 0); });
  rdma_cm_id* server = nullptr;
  EXPECT_EQ(rdma_get_request(listener, &server), 0);
  const std::vector<std::string> asked = Lines();
  EXPECT_THAT(asked, Contains(AllOf(HasSubstr("CM 0x"), HasSubstr(" REQ_SENT "),
                                    HasSubstr(" peer 10.9.0.1 "),
                                    HasSubstr(" retries left"))));
  EXPECT_THAT(asked, Contains(HasSubstr("REQ_")).Times(2));
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(rdma_accept(server, nullptr), 0);
  connects.join();
  EXPECT_THAT(Lines(), Contains(HasSubstr(" ESTABLISHED ")).Times(2));
  for (rdma_cm_id* id : {client, server, listener}) rdma_destroy_ep(id);
}

TEST(StateTest, ShowsConnectionsOfIwarp) {
  rdma_cm_id* const listener = EndPoint(kIwarp, RAI_PASSIVE);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  EXPECT_THAT(Lines(), Contains(HasSubstr("TCP 1 listeners, 0 connections")));
  rdma_cm_id* const client = EndPoint(kIwarp, 0);
  ASSERT_NE(client, nullptr);
  EXPECT_THAT(Lines(), Contains(HasSubstr(" iWARP INIT  no connection")));
  std::thread connects([&] { EXPECT_EQ(rdma_connect(client, nullptr), 0); });
  rdma_cm_id* server = nullptr;
  EXPECT_EQ(rdma_get_request(listener, &server), 0);
  const std::vector<std::string> asked = Lines();
  EXPECT_THAT(asked,
              Contains(AllOf(HasSubstr(" iWARP INIT  TCP ESTABLISHED port "),
                             HasSubstr(" peer 10.9.0.2:7174  waits for the "
                                       "MPA reply"))));
  EXPECT_THAT(asked,
              Contains(AllOf(StartsWith("TCP ESTABLISHED port 7174 peer 10."),
                             HasSubstr("  waits for the program's answer"))));
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(rdma_accept(server, nullptr), 0);
  connects.join();
  EXPECT_THAT(Lines(),
              Contains(HasSubstr(" iWARP RTS   TCP ESTABLISHED ")).Times(2));
  for (rdma_cm_id* id : {client, server, listener}) rdma_destroy_ep(id);
}

}  // namespace
}  // namespace urnic
