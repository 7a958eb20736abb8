// Peers that vanish, and programs that end without disconnecting, at each step
// of a connection: nothing of it is left on the other side once the program
// there has destroyed its ids.

#include <gtest/gtest.h>

#include <vector>

#include "verbs/rdmacm/testing/host.h"

namespace urnic::rdmacm {
namespace {

constexpr uint16_t kPort = 7174;
constexpr uint32_t kClientQpn = 0x11;
constexpr uint32_t kServerQpn = 0x22;

enum class Step : uint8_t {
  kAsked,        // the REQ is on its way
  kHeard,        // it is in the server's channel, unread
  kTold,         // the server's program has read it
  kAccepted,     // the REP is on its way
  kAnswered,     // the client has the REP, and has sent no RTU
  kReady,        // the RTU is on its way
  kEstablished,  //
  kEnding,       // the client's DREQ is on its way
  kEnded,        // the server has the DREQ, and has sent no DREP
  kOver,         // both are in time wait
};
constexpr Step kLast = Step::kOver;

class VanishTest : public ::testing::Test {
 protected:
  void Reach(Step step) {
    listener_ = server_.Listener(kPort);
    client_id_ = client_.Routed(Address("10.0.0.2", kPort));
    ASSERT_EQ(client_.Connect(client_id_, kClientQpn), 0);
    if (step == Step::kAsked) return;
    network_.Deliver();
    if (step == Step::kHeard) return;
    const auto request = server_.Next();
    ASSERT_TRUE(request.has_value());
    server_id_ = request->id;
    if (step == Step::kTold) return;
    ASSERT_EQ(server_.Accept(server_id_, kServerQpn), 0);
    if (step == Step::kAccepted) return;
    network_.Deliver();
    ASSERT_EQ(client_.NextType(), EventType::kConnectResponse);
    if (step == Step::kAnswered) return;
    ASSERT_EQ(client_.Ready(client_id_), 0);
    if (step == Step::kReady) return;
    network_.Deliver();
    ASSERT_EQ(server_.NextType(), EventType::kEstablished);
    if (step == Step::kEstablished) return;
    ASSERT_EQ(client_.service->Disconnect(*client_.channel, client_id_), 0);
    if (step == Step::kEnding) return;
    network_.Deliver();
    ASSERT_EQ(server_.NextType(), EventType::kDisconnected);
    if (step == Step::kEnded) return;
    ASSERT_EQ(server_.service->Disconnect(*server_.channel, server_id_), 0);
    network_.Deliver();
    ASSERT_EQ(client_.NextType(), EventType::kDisconnected);
  }

  // From now on every packet from and to the host is lost.
  void Vanish(const Host& host) {
    network_.is_lost = [&host](const FakeNetwork::InFlight& mad) {
      return host.rnic.HasGid(mad.path.local) ||
             host.rnic.HasGid(mad.path.remote);
    };
  }
  static void Drain(Host& host, std::vector<uint32_t>& ids) {
    while (const auto event = host.Next()) {
      if (static_cast<EventType>(event->event) == EventType::kConnectRequest) {
        ids.push_back(event->id);
      }
    }
  }
  void ExpectNothingLeft(Host& host) {
    network_.Advance(Duration::Seconds(3600));
    EXPECT_TRUE(host.rnic.Deadline().IsInfinite());
    EXPECT_FALSE(host.readiness.ready);
    EXPECT_EQ(host.service->connections(), 0u);
  }

  FakeNetwork network_;
  Host client_{network_, "a", {"fe80::1", "10.0.0.1", "fd00::1"}};
  Host server_{network_, "b", {"fe80::2", "10.0.0.2", "fd00::2"}};
  uint32_t listener_ = 0;
  uint32_t client_id_ = 0;
  uint32_t server_id_ = 0;
};

class VanishSteps : public VanishTest,
                    public ::testing::WithParamInterface<int> {
 protected:
  Step step() const { return static_cast<Step>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(All, VanishSteps,
                         ::testing::Range(0, static_cast<int>(kLast) + 1));

TEST_P(VanishSteps, TheClientVanishes) {
  Reach(step());
  Vanish(client_);
  network_.Advance(Duration::Seconds(3600));
  std::vector<uint32_t> ids = {listener_};
  if (server_id_ != 0) ids.push_back(server_id_);
  Drain(server_, ids);
  for (const uint32_t id : ids) server_.Destroy(id);
  ExpectNothingLeft(server_);
  server_.Listener(kPort);
}

TEST_P(VanishSteps, TheServerVanishes) {
  Reach(step());
  Vanish(server_);
  network_.Advance(Duration::Seconds(3600));
  std::vector<uint32_t> none;
  Drain(client_, none);
  EXPECT_TRUE(none.empty());
  client_.Destroy(client_id_);
  ExpectNothingLeft(client_);
}

// The program has called exit().
TEST_P(VanishSteps, TheClientProgramEnds) {
  Reach(step());
  client_.service->TakeLeave();
  network_.Advance(Duration::Seconds(3600));
  std::vector<uint32_t> ids = {listener_};
  if (server_id_ != 0) ids.push_back(server_id_);
  Drain(server_, ids);
  for (const uint32_t id : ids) server_.Destroy(id);
  ExpectNothingLeft(server_);
  ExpectNothingLeft(client_);
}

TEST_P(VanishSteps, TheServerProgramEnds) {
  Reach(step());
  server_.service->TakeLeave();
  network_.Deliver();
  // A client that waits is told immediately, not after all its repetitions.
  const bool waits = step() != Step::kAsked && step() != Step::kOver;
  EXPECT_EQ(client_.readiness.ready, waits);
  network_.Advance(Duration::Seconds(3600));
  std::vector<uint32_t> none;
  Drain(client_, none);
  client_.Destroy(client_id_);
  ExpectNothingLeft(client_);
}

TEST_F(VanishTest, AnEstablishedPeerIsToldOfTheEndImmediately) {
  Reach(Step::kEstablished);
  client_.service->TakeLeave();
  network_.Deliver();
  EXPECT_EQ(server_.NextType(), EventType::kDisconnected);
  EXPECT_EQ(client_.Destroy(client_id_), 3u) << "also where nobody needs it";
}

// Otherwise it would keep a dead connection: the DREQ is not repeated later.
TEST_F(VanishTest, AnEstablishedPeerIsToldOfTheEndDespiteLosses) {
  Reach(Step::kEstablished);
  int sent = 0;
  network_.is_lost = [&](const FakeNetwork::InFlight&) { return ++sent <= 5; };
  const Time begin = network_.now();
  client_.service->TakeLeave();
  EXPECT_EQ(server_.NextType(), EventType::kDisconnected);
  EXPECT_LE(network_.now() - begin, Service::kLeaveTime);
}

// One DREQ and its repetitions, and never two at the same time.
TEST_F(VanishTest, APeerIsSentOneDreqAtATime) {
  Reach(Step::kEstablished);
  std::vector<Time> sent;
  network_.is_lost = [&](const FakeNetwork::InFlight&) {
    sent.push_back(network_.now());
    return true;
  };
  const Time begin = network_.now();
  client_.service->TakeLeave();
  ASSERT_EQ(sent.size(),
            Service::kLeaveTime.ns() / Service::kLeaveInterval.ns());
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i],
              begin + Service::kLeaveInterval * static_cast<int64_t>(i));
  }
}

// A signal handler calls exit() while its thread is inside the service: the
// engines run for the last time, and cause events.
TEST_F(VanishTest, AThreadThatEndsInsideTheServiceDoesNotWaitForItself) {
  Reach(Step::kEstablished);
  ASSERT_EQ(server_.service->Disconnect(*server_.channel, server_id_), 0);
  ASSERT_EQ(client_.Resolve(client_.Create(), Address("10.0.0.2")), 0);
  network_.SetSilent(GidOf("10.0.0.9"), true);
  ASSERT_EQ(client_.Resolve(client_.Create(), Address("10.0.0.9")), 0);
  bool came_back = false;
  const auto handler = [&](const rdma_ucm_event_resp&) {
    client_.service->BeginEnd();
    EXPECT_GT(network_.Deliver(), 0);
    client_.rnic.Answer(GidOf("10.0.0.9"));
    client_.service->TakeLeave();
    came_back = true;
    return true;
  };
  EXPECT_EQ(client_.service->GetEvent(*client_.channel, handler), 0);
  EXPECT_TRUE(came_back);
}

TEST_F(VanishTest, AThreadThatEndsAnywhereElseTakesLeave) {
  Reach(Step::kEstablished);
  client_.service->BeginEnd();
  client_.service->TakeLeave();
  network_.Deliver();
  EXPECT_EQ(server_.NextType(), EventType::kDisconnected);
}

// The peer's program answers immediately, so nothing is left to wait for.
TEST_F(VanishTest, LeavingEndsWhenThePeerHasAnswered) {
  Reach(Step::kEstablished);
  ASSERT_EQ(server_.service->Disconnect(*server_.channel, server_id_), 0);
  const Time begin = network_.now();
  client_.service->TakeLeave();
  EXPECT_LE(network_.now() - begin, Duration::Milliseconds(2));
}

TEST_F(VanishTest, LeavingDoesNotWaitLongForAPeerThatIsGone) {
  Reach(Step::kEstablished);
  Vanish(server_);
  const Time begin = network_.now();
  client_.service->TakeLeave();
  EXPECT_LE(network_.now() - begin, Service::kLeaveTime);
}

TEST_F(VanishTest, LeavingWithoutAConnectionTakesNoTime) {
  server_.Listener(kPort);
  const Time begin = network_.now();
  server_.service->TakeLeave();
  EXPECT_EQ(network_.now(), begin);
}

// A request that its sender withdraws before the program has read it does not
// count. Otherwise anyone could make a server keep any number of them.
TEST_F(VanishTest, RequestsThatAreWithdrawnUnreadLeaveNothing) {
  const uint32_t listener = server_.Listener(kPort, PortSpace::kTcp, 3);
  for (uint32_t n = 0; n < 20; ++n) {
    const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
    ASSERT_EQ(client_.Connect(id, kClientQpn + n), 0);
    network_.Deliver();
    EXPECT_TRUE(server_.readiness.ready);
    client_.Destroy(id);
    network_.Deliver();
    EXPECT_FALSE(server_.readiness.ready);
    EXPECT_EQ(server_.service->connections(), 0u);
  }
  // The same for requests that wait beyond the backlog. Those that are not
  // withdrawn are reported.
  std::vector<uint32_t> ids;
  for (uint32_t n = 0; n < 8; ++n) {
    ids.push_back(client_.Routed(Address("10.0.0.2", kPort)));
    ASSERT_EQ(client_.Connect(ids.back(), kClientQpn + n), 0);
  }
  network_.Deliver();
  for (const size_t n : {0u, 2u, 4u, 5u, 7u}) client_.Destroy(ids[n]);
  network_.Deliver();
  std::vector<uint32_t> requests;
  Drain(server_, requests);
  EXPECT_EQ(requests.size(), 3u);
  EXPECT_EQ(server_.service->connections(), 3u);
  for (const uint32_t id : requests) server_.Destroy(id);
  server_.Destroy(listener);
  ExpectNothingLeft(server_);
}

// The thread that holds the token may be the one that has called exit(), so
// TakeLeave() does not wait for it.
TEST_F(VanishTest, LeavingDoesNotWaitForTheToken) {
  Reach(Step::kEstablished);
  {
    const auto token = client_.rnic.HoldToken();
    client_.service->TakeLeave();
  }
  EXPECT_EQ(network_.Deliver(), 0);
  EXPECT_FALSE(server_.readiness.ready);
}

TEST_F(VanishTest, ADatagramServerVanishes) {
  const uint32_t listener = server_.Listener(kPort, PortSpace::kUdp);
  const uint32_t id =
      client_.Routed(Address("10.0.0.2", kPort), PortSpace::kUdp);
  ASSERT_EQ(client_.Connect(id, kClientQpn), 0);
  network_.Deliver();
  const auto request = server_.Next();
  ASSERT_TRUE(request.has_value());
  Vanish(server_);
  network_.Advance(Duration::Seconds(3600));
  EXPECT_EQ(client_.NextType(), EventType::kUnreachable);
  client_.Destroy(id);
  ExpectNothingLeft(client_);
  server_.Destroy(request->id);
  server_.Destroy(listener);
  ExpectNothingLeft(server_);
}

}  // namespace
}  // namespace urnic::rdmacm
