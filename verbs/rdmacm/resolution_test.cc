// Neighbours that do not answer immediately, and what happens until they do.

#include "verbs/rdmacm/resolution.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "verbs/rdmacm/testing/host.h"

namespace urnic::rdmacm {
namespace {

class ResolutionTest : public ::testing::Test {
 protected:
  ResolutionTest() {
    channel_ = host_.channel;
    network_.SetSilent(GidOf("10.0.0.9"), true);
  }

  uint32_t Create() { return host_.Create(); }
  int Resolve(uint32_t id, uint32_t timeout_ms,
              const std::string& to = "10.0.0.9") {
    return host_.service->ResolveAddress(*channel_, id, {}, Address(to),
                                         timeout_ms);
  }
  void ExpectError(uint32_t id, int status) {
    const auto event = host_.Next();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->id, id);
    EXPECT_EQ(static_cast<EventType>(event->event), EventType::kAddrError);
    EXPECT_EQ(static_cast<int>(event->status), status);
  }

  FakeNetwork network_;
  Host host_{network_, "a", {"10.0.0.1"}};
  EventChannel* channel_ = nullptr;
};

TEST_F(ResolutionTest, SilenceEndsInAnAddressError) {
  const uint32_t id = Create();
  const Time begin = network_.now();
  ASSERT_EQ(Resolve(id, 2000), 0);
  EXPECT_EQ(network_.now(), begin) << "nobody waits";
  network_.Advance(Duration::Milliseconds(1999));
  EXPECT_FALSE(host_.readiness.ready);
  network_.Advance(Duration::Milliseconds(1));
  ExpectError(id, -ETIMEDOUT);
  ASSERT_EQ(host_.rnic.failures.size(), 1u);
  const Notice& notice = host_.rnic.failures[0];
  EXPECT_EQ(notice.code, ErrorCode::kNoAnswer);
  EXPECT_EQ(notice.remote, GidOf("10.0.0.9"));
  EXPECT_NE(notice.text.find(" to 10.0.0.9:0: ADDR_ERROR -110: "),
            std::string::npos)
      << notice.text;
  // The id can try again.
  network_.SetSilent(GidOf("10.0.0.9"), false);
  ASSERT_EQ(Resolve(id, 2000), 0);
  EXPECT_EQ(host_.NextType(), EventType::kAddrResolved);
}

TEST_F(ResolutionTest, AnAnswerIsAnEventImmediately) {
  const uint32_t id = Create();
  ASSERT_EQ(Resolve(id, 2000), 0);
  network_.Advance(Duration::Milliseconds(700));
  host_.rnic.Answer(GidOf("10.0.0.9"));
  EXPECT_EQ(host_.NextType(), EventType::kAddrResolved);
  // There is only one event.
  network_.Advance(Duration::Seconds(10));
  EXPECT_FALSE(host_.readiness.ready);
  EXPECT_EQ(host_.service->ResolveRoute(*channel_, id, 2000), 0);
}

TEST_F(ResolutionTest, AnIdThatIsBeingResolvedIsNotResolvedAgain) {
  const uint32_t id = Create();
  ASSERT_EQ(Resolve(id, 2000), 0);
  EXPECT_EQ(Resolve(id, 2000), EINVAL);
  EXPECT_EQ(host_.service->ResolveRoute(*channel_, id, 2000), EINVAL);
  host_.rnic.Answer(GidOf("10.0.0.9"));
  EXPECT_EQ(host_.NextType(), EventType::kAddrResolved);
}

TEST_F(ResolutionTest, EachOfManyResolutionsEndsByItself) {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 20; ++i) {
    ids.push_back(Create());
    ASSERT_EQ(Resolve(ids.back(), 100 * (20 - i)), 0);
  }
  // The last has the shortest timeout.
  while (!ids.empty()) {
    network_.Advance(Duration::Milliseconds(100));
    ExpectError(ids.back(), -ETIMEDOUT);
    EXPECT_FALSE(host_.readiness.ready);
    ids.pop_back();
  }
}

TEST_F(ResolutionTest, ANeighbourThatAnswersDoesNotWaitForSilentOnes) {
  network_.SetSilent(GidOf("10.0.0.2"), true);
  std::vector<uint32_t> silent;
  for (int i = 0; i < 50; ++i) {
    silent.push_back(Create());
    ASSERT_EQ(Resolve(silent.back(), 60'000), 0);
  }
  const uint32_t id = Create();
  ASSERT_EQ(Resolve(id, 60'000, "10.0.0.2"), 0);
  host_.rnic.Answer(GidOf("10.0.0.2"));
  const auto event = host_.Next();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->id, id);
  EXPECT_FALSE(host_.readiness.ready);
}

TEST_F(ResolutionTest, TooManyQuestionsAreRefusedImmediately) {
  host_.rnic.max_questions = 1;
  ASSERT_EQ(Resolve(Create(), 2000), 0);
  const uint32_t id = Create();
  EXPECT_EQ(Resolve(id, 2000), ENOMEM);
  host_.rnic.max_questions = 2;
  EXPECT_EQ(Resolve(id, 2000), 0) << "as if it had not been tried";
}

TEST_F(ResolutionTest, ADeviceThatDoesNotOpenIsNotAsked) {
  host_.rnic.open_error = EACCES;
  const uint32_t id = Create();
  EXPECT_EQ(Resolve(id, 2000), EACCES);
  host_.Destroy(id);
  host_.rnic.open_error = 0;
  EXPECT_EQ(host_.rnic.questions(), 0u);
}

TEST_F(ResolutionTest, DestroyingAnIdCancelsItsQuestion) {
  const uint32_t id = Create();
  ASSERT_EQ(Resolve(id, 2000), 0);
  EXPECT_EQ(host_.rnic.questions(), 1u);
  EXPECT_EQ(host_.Destroy(id), 0u);
  EXPECT_EQ(host_.rnic.questions(), 0u);
  host_.rnic.Answer(GidOf("10.0.0.9"));
  EXPECT_FALSE(host_.readiness.ready);
  // Closing the channel has the same effect.
  FakeReadiness readiness;
  EventChannel* const channel = host_.service->OpenChannel(readiness);
  uint32_t number = 0;
  ASSERT_EQ(
      host_.service->CreateId(
          *channel, 1, static_cast<uint16_t>(PortSpace::kTcp), 2, &number),
      0);
  network_.SetSilent(GidOf("10.0.0.9"), true);
  ASSERT_EQ(host_.service->ResolveAddress(*channel, number, {},
                                          Address("10.0.0.9"), 2000),
            0);
  EXPECT_EQ(host_.rnic.questions(), 1u);
  host_.service->CloseChannel(channel);
  EXPECT_EQ(host_.rnic.questions(), 0u);
}

// Another thread destroys the id after the first one has decided to ask, and
// has to wait for the token, which the first one holds.
TEST_F(ResolutionTest, AnIdMayBeDestroyedWhileItsQuestionIsAsked) {
  const uint32_t id = Create();
  std::thread destroyer;
  host_.rnic.while_asking = [&] {
    destroyer = std::thread([&] { host_.Destroy(id); });
    rdma_ucm_query_route_resp route;
    while (host_.service->QueryRoute(*channel_, id, route) != ENOENT) {
      std::this_thread::yield();
    }
  };
  EXPECT_EQ(Resolve(id, 2000), 0);
  destroyer.join();
  EXPECT_EQ(host_.rnic.questions(), 0u);
  network_.Advance(Duration::Seconds(3));
  EXPECT_FALSE(host_.readiness.ready);
}

// The same with a known neighbour.
TEST_F(ResolutionTest, AnIdMayBeDestroyedWhileItsAnswerArrives) {
  const uint32_t id = Create();
  std::thread destroyer;
  host_.rnic.while_asking = [&] {
    destroyer = std::thread([&] { host_.Destroy(id); });
    rdma_ucm_query_route_resp route;
    while (host_.service->QueryRoute(*channel_, id, route) != ENOENT) {
      std::this_thread::yield();
    }
  };
  EXPECT_EQ(Resolve(id, 2000, "10.0.0.2"), 0);
  destroyer.join();
  EXPECT_FALSE(host_.readiness.ready);
}

// Answers, timeouts and cancellations of the same questions, all concurrently.
TEST_F(ResolutionTest, ManyThreadsMayAskAndCancelWhileAnswersArrive) {
  std::atomic<bool> stop{false};
  std::thread network([&] {
    const wire::Gid gid = GidOf("10.0.0.9");
    while (!stop) {
      host_.rnic.Answer(gid);
      network_.SetSilent(gid, true);
      if (!host_.rnic.Deadline().IsInfinite()) {
        network_.Advance(Duration::Milliseconds(1));
      }
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        uint32_t number = 0;
        uint32_t events = 0;
        host_.service->CreateId(
            *channel_, 1, static_cast<uint16_t>(PortSpace::kTcp), 2, &number);
        Resolve(number, 1);
        host_.service->DestroyId(*channel_, number, &events);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  network.join();
  EXPECT_EQ(host_.rnic.questions(), 0u);
}

// For the thread sanitizer: commands on the same ids from many threads, while
// messages arrive.
TEST_F(ResolutionTest, ManyThreadsMayUseTheSameIds) {
  Host peer(network_, "b", {"10.0.0.2"});
  peer.Listener(7000);
  std::atomic<bool> stop{false};
  std::thread deliverer([&] {
    while (!stop) network_.Deliver();
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Service& service = *host_.service;
      for (uint32_t i = 0; i < 300; ++i) {
        const uint32_t id = i % 8;
        uint32_t number = 0;
        uint32_t events = 0;
        service.CreateId(*channel_, 1, static_cast<uint16_t>(PortSpace::kTcp),
                         2, &number);
        service.ResolveAddress(*channel_, id, {}, Address("10.0.0.2", 7000), 1);
        service.ResolveRoute(*channel_, id, 1);
        service.Connect(*channel_, id, Host::Params(i + 1000u * t, "x"));
        ib_uverbs_qp_attr attributes;
        service.InitQpAttributes(*channel_, id, 1, attributes);
        service.GetEvent(*channel_,
                         [](const rdma_ucm_event_resp&) { return true; });
        service.Disconnect(*channel_, id);
        if (i % 3 == 0) service.DestroyId(*channel_, id, &events);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  deliverer.join();
  network_.Deliver();
}

}  // namespace
}  // namespace urnic::rdmacm
