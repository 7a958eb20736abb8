// What a sender of requests can do, under its own address or under others': it
// neither keeps others out, nor makes us send much to a host that has asked for
// nothing.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/support/cm_pair.h"

namespace urnic::cm {
namespace {

using ::urnic::testing::CmSink;
using ::urnic::testing::MadBytes;
using ::urnic::testing::SeenEvent;

constexpr uint32_t kPerSource = 4;
constexpr uint32_t kPerListener = 10;
constexpr int kFlooder = 9;
constexpr uint8_t kManyRetries = 15;

class HalfOpenTest : public ::urnic::testing::CmPair {
 protected:
  void SetUp() override {
    CmPair::SetUp();
    Config config;
    config.ca_guid = 0xca01;
    config.first_communication_id = 0x7000;
    config.max_connections = 64;
    config.max_half_open_per_source = kPerSource;
    config.max_half_open_per_listener = kPerListener;
    Restart(1, config);
    Listen();
  }

  // A request like those of node 0, but of another CA, from the address
  // `source`.
  RxVerdict RequestFrom(int source, uint64_t service = kService) {
    ConnectParams params = Request();
    params.service_id = service;
    params.max_cm_retries = kManyRetries;
    CmSink out;
    Handle handle;
    EXPECT_EQ(forger_.Connect(params, 0, now_, out, handle), 0);
    auto req = out.mads.front().As<wire::CmReq>();
    req.local_ca_guid = wire::Be<uint64_t>(0xbad00 + source);
    req.set_local_qpn(Qpn{++forged_});
    net::PathQuery from = PathFrom(1);
    from.remote = GidOf(source);
    MadBytes bytes;
    std::memcpy(bytes.data(), &req, sizeof(req));
    const RxVerdict verdict = manager(1).OnMad(bytes, from, now_, sink(1));
    manager(1).CheckInvariants();
    return verdict;
  }
  // A server that accepts every request, and destroys what fails.
  void Serve() {
    while (!sink(1).events.empty()) {
      const Event event = sink(1).events.front().event;
      sink(1).events.pop_front();
      if (event.kind == EventKind::kReqReceived) {
        AcceptParams reply = Reply();
        reply.qpn = Qpn{++accepted_};
        EXPECT_EQ(manager(1).Accept(event.handle, reply, now_, sink(1)), 0);
      } else if (event.kind == EventKind::kRtuReceived) {
        ++established_;
      } else {
        ++failed_;
        EXPECT_EQ(manager(1).Destroy(event.handle, now_, sink(1)), 0);
      }
    }
  }
  // Runs until node 1 sends nothing more by itself; returns how much it has
  // sent.
  size_t SaidUntilTheEnd() {
    while (!manager(1).NextDeadline().IsInfinite()) {
      now_ = manager(1).NextDeadline();
      manager(1).OnTimer(now_, sink(1));
    }
    return sink(1).mads.size();
  }

  ConnectionManager forger_{[] {
    Config config;
    config.ca_guid = 0xbad;
    return config;
  }()};
  uint32_t forged_ = 0x5000;
  uint32_t accepted_ = 0x800;
  int established_ = 0;
  int failed_ = 0;
};

// Also when the table is full because the program is slow to destroy displaced
// connections.
TEST_F(HalfOpenTest, AFloodIntoAFullTableDisplacesOnlyItself) {
  Config config;
  config.ca_guid = 0xca01;
  config.max_connections = 1 + 1 + kPerSource;  // with the listener
  config.max_half_open_per_source = kPerSource;
  Restart(1, config);
  Listen();
  constexpr int kOther = 5;
  EXPECT_EQ(RequestFrom(kOther), RxVerdict::kAccept);
  const Handle other = sink(1).events.back().event.handle;
  RxVerdict last = RxVerdict::kAccept;
  for (int n = 0; n < 32; ++n) {
    last = RequestFrom(kFlooder);
    EXPECT_EQ(manager(1).state(other), State::kReqReceived);
  }
  EXPECT_EQ(last, RxVerdict::kCmNoRoom);
}

TEST_F(HalfOpenTest, AFloodFromOneSourceDisplacesOnlyItself) {
  for (int n = 0; n < 200; ++n) {
    EXPECT_EQ(RequestFrom(kFlooder), RxVerdict::kAccept);
    Serve();
  }
  sink(1).mads.clear();
  EXPECT_EQ(manager(1).in_use(), 1 + kPerSource);
  Connect();
  Pass(0);
  Serve();
  // The flood goes on during the round trip.
  const auto rep = sink(1).mads.back();
  for (int n = 0; n < 200; ++n) {
    EXPECT_EQ(RequestFrom(kFlooder), RxVerdict::kAccept);
    Serve();
  }
  ASSERT_EQ(Give(0, rep), RxVerdict::kAccept);
  Take(0, EventKind::kRepReceived);
  ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
  Pass(0);
  Serve();
  EXPECT_EQ(established_, 1);
  EXPECT_EQ(failed_, 400 - static_cast<int>(kPerSource));
}

TEST_F(HalfOpenTest, AFloodThatAServerDoesNotAnswerDisplacesOnlyItself) {
  Connect();
  Pass(0);
  const SeenEvent first = Take(1, EventKind::kReqReceived);
  for (int n = 0; n < 200; ++n) {
    ASSERT_EQ(RequestFrom(kFlooder), RxVerdict::kAccept);
    while (!sink(1).events.empty()) {
      const Event event = sink(1).events.front().event;
      sink(1).events.pop_front();
      if (event.kind != EventKind::kDisplaced) continue;
      ++failed_;
      EXPECT_EQ(manager(1).state(event.handle), State::kIdle);
      EXPECT_EQ(manager(1).Destroy(event.handle, now_, sink(1)), 0);
    }
  }
  EXPECT_EQ(failed_, 200 - static_cast<int>(kPerSource));
  ExpectQuiet(1);
  EXPECT_EQ(manager(1).Accept(first.event.handle, Reply(), now_, sink(1)), 0);
}

// All sources differ. A peer that answers immediately still gets through.
TEST_F(HalfOpenTest, AFloodFromManySourcesDisplacesTheOldestOfTheListener) {
  constexpr uint64_t kOther = kService + 1;
  Handle other;
  ASSERT_EQ(manager(1).Listen(kOther, 0, 0, other), 0);
  ASSERT_EQ(RequestFrom(7, kOther), RxVerdict::kAccept);
  const Handle apart = Take(1, EventKind::kReqReceived).event.handle;
  std::vector<Handle> handles;
  for (uint32_t n = 0; n < 3 * kPerListener; ++n) {
    ASSERT_EQ(RequestFrom(100 + static_cast<int>(n)), RxVerdict::kAccept);
    if (n >= kPerListener) {
      EXPECT_EQ(Take(1, EventKind::kDisplaced).event.handle,
                handles[n - kPerListener]);
      ASSERT_EQ(manager(1).Destroy(handles[n - kPerListener], now_, sink(1)),
                0);
    }
    handles.push_back(Take(1, EventKind::kReqReceived).event.handle);
  }
  EXPECT_EQ(manager(1).state(apart), State::kReqReceived);
}

TEST_F(HalfOpenTest, AFullTableDisplacesTheOldestAndThePeerAsksAgain) {
  Restart(1, 3, 32);
  Listen();
  ASSERT_EQ(RequestFrom(20), RxVerdict::kAccept);
  const Handle oldest = Take(1, EventKind::kReqReceived).event.handle;
  ASSERT_EQ(RequestFrom(21), RxVerdict::kAccept);
  Take(1, EventKind::kReqReceived);
  Connect();
  const auto req = sink(0).mads.front();
  EXPECT_EQ(Deliver(0), RxVerdict::kCmNoRoom);
  EXPECT_TRUE(sink(1).mads.empty());
  EXPECT_EQ(Take(1, EventKind::kDisplaced).event.handle, oldest);
  ASSERT_EQ(manager(1).Destroy(oldest, now_, sink(1)), 0);
  EXPECT_EQ(Give(1, req), RxVerdict::kAccept);
}

TEST_F(HalfOpenTest, RemovingAListenerKeepsItsRequests) {
  for (int n = 0; n < 3; ++n) {
    ASSERT_EQ(RequestFrom(20 + n), RxVerdict::kAccept);
  }
  ASSERT_EQ(manager(1).Unlisten(node(1).listener), 0);
  manager(1).CheckInvariants();
  // Another listener has its place now, with its own limits.
  Listen();
  for (uint32_t n = 0; n < kPerListener; ++n) {
    ASSERT_EQ(RequestFrom(40 + static_cast<int>(n)), RxVerdict::kAccept);
  }
  Serve();
  EXPECT_EQ(failed_, 0);
  manager(1).CheckInvariants();
}

TEST_F(HalfOpenTest, AResolutionIsDisplacedToo) {
  SidrRequestParams params;
  params.service_id = kService;
  params.mad_path = PathFrom(0);
  Handle handle;
  for (uint32_t n = 0; n <= kPerSource; ++n) {
    ASSERT_EQ(manager(0).SidrRequest(params, 0, now_, sink(0), handle), 0);
    Pass(0);
  }
  const Handle oldest = Take(1, EventKind::kSidrReqReceived).event.handle;
  for (uint32_t n = 1; n < kPerSource; ++n) {
    Take(1, EventKind::kSidrReqReceived);
  }
  EXPECT_EQ(Take(1, EventKind::kDisplaced).event.handle, oldest);
  Take(1, EventKind::kSidrReqReceived);
  EXPECT_EQ(manager(1).SidrReply(oldest, {}, sink(1)), EINVAL);
}

TEST_F(HalfOpenTest, ASourceThatNeverAnsweredIsSentLittle) {
  ASSERT_EQ(RequestFrom(kFlooder), RxVerdict::kAccept);
  Serve();
  // The reply, its repetitions, and the final rejection.
  EXPECT_EQ(SaidUntilTheEnd(), 1u + kUnansweredRepRepeats + 1u);
}

TEST_F(HalfOpenTest, ASourceThatAnsweredOnceIsSentWhatItsRequestAllows) {
  Connect();
  Pass(0);
  Serve();
  Pass(1);
  Take(0, EventKind::kRepReceived);
  ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
  Pass(0);
  Serve();
  ConnectParams again = Request();
  again.qpn = Qpn{0x300};
  again.max_cm_retries = kManyRetries;
  Connect(0, again);
  Pass(0);
  Serve();
  EXPECT_EQ(SaidUntilTheEnd(), 1u + kManyRetries + 1u);
}

TEST_F(HalfOpenTest, AnMraCountsAsAnAnswer) {
  ConnectParams params = Request();
  params.max_cm_retries = kManyRetries;
  Connect(0, params);
  Pass(0);
  Serve();
  Pass(1);
  Take(0, EventKind::kRepReceived);
  ASSERT_EQ(Give(1, Mra(0, wire::kCmMessageRep, 1)), RxVerdict::kAccept);
  sink(1).events.clear();
  EXPECT_EQ(SaidUntilTheEnd(), kManyRetries + 1u);
}

TEST_F(HalfOpenTest, TimewaitIsShortForASourceThatNeverAnswered) {
  ConnectParams params = Request();
  params.packet_life_time_code = 30;
  Connect(0, params);
  Pass(0);
  Serve();
  while (sink(1).events.empty()) {
    now_ = manager(1).NextDeadline();
    manager(1).OnTimer(now_, sink(1));
  }
  Take(1, EventKind::kRepError);
  EXPECT_EQ(manager(1).state(handle(1)), State::kTimewait);
  EXPECT_LE(manager(1).NextDeadline() - now_, Duration::Milliseconds(1100));
}

TEST_F(HalfOpenTest, OneHostEstablishesManyConnectionsOneAfterTheOther) {
  for (uint32_t n = 0; n < 40; ++n) {
    ConnectParams params = Request();
    params.qpn = Qpn{0x400 + n};
    Connect(0, params);
    Pass(0);
    Serve();
    Pass(1);
    Take(0, EventKind::kRepReceived);
    ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
    Pass(0);
    Serve();
  }
  EXPECT_EQ(established_, 40);
  EXPECT_EQ(failed_, 0);
}

}  // namespace
}  // namespace urnic::cm
