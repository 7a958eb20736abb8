// Neighbours that do not answer at once: the only part with a thread.

#include "verbs/rdmacm/resolver.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "verbs/rdmacm/testing/host.h"

namespace urnic::rdmacm {
namespace {

// Readiness that a test can wait for.
struct WaitableReadiness final : EventChannel::Readiness {
  void SetReady(bool is_ready) override {
    std::lock_guard lock(mutex);
    ready = is_ready;
    changed.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return ready; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
};

class ResolverTest : public ::testing::Test {
 protected:
  ResolverTest() {
    channel_ = host_.service->OpenChannel(readiness_);
    network_.SetSilent(GidOf("10.0.0.9"), true);
  }
  ~ResolverTest() override { host_.service->CloseChannel(channel_); }

  uint32_t Create() {
    uint32_t number = 0;
    EXPECT_EQ(
        host_.service->CreateId(
            *channel_, 1, static_cast<uint16_t>(PortSpace::kTcp), 2, &number),
        0);
    return number;
  }
  int Resolve(uint32_t id, uint32_t timeout_ms) {
    return host_.service->ResolveAddress(*channel_, id, {}, Address("10.0.0.9"),
                                         timeout_ms);
  }

  FakeNetwork network_;
  Host host_{network_, "a", {"10.0.0.1"}};
  WaitableReadiness readiness_;
  EventChannel* channel_ = nullptr;
};

TEST_F(ResolverTest, SilenceIsAnAddressErrorInTheEnd) {
  const uint32_t id = Create();
  ASSERT_EQ(Resolve(id, 2000), 0);
  readiness_.Wait();
  const auto event = host_.Next(channel_);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(static_cast<EventType>(event->event), EventType::kAddrError);
  EXPECT_EQ(static_cast<int>(event->status), -ETIMEDOUT);
  EXPECT_GE(network_.now().ns(), Duration::Milliseconds(2000).ns());
  // The id can try again.
  network_.SetSilent(GidOf("10.0.0.9"), false);
  ASSERT_EQ(Resolve(id, 2000), 0);
  readiness_.Wait();
  EXPECT_EQ(static_cast<EventType>(host_.Next(channel_)->event),
            EventType::kAddrResolved);
}

TEST_F(ResolverTest, ManyAreResolvedByOneThreadOfWhichEachTakesItsTurn) {
  std::vector<uint32_t> ids;
  for (int i = 0; i < 20; ++i) {
    ids.push_back(Create());
    ASSERT_EQ(Resolve(ids.back(), 100), 0);
  }
  for (int i = 0; i < 20; ++i) {
    readiness_.Wait();
    const auto event = host_.Next(channel_);
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(static_cast<EventType>(event->event), EventType::kAddrError);
  }
}

TEST_F(ResolverTest, WhoAnswersDoesNotWaitForManyWhoDoNot) {
  constexpr int kSilent = 50;
  std::mutex mutex;
  std::condition_variable resolved;
  std::optional<Time> asked_at;
  std::optional<Time> resolved_at;
  std::atomic<bool> all_wait = false;
  Resolver resolver([&](const Resolver::Job& job, int error) {
    if (job.serial != kSilent) return;
    std::lock_guard lock(mutex);
    EXPECT_EQ(error, 0);
    resolved_at = network_.now();
    resolved.notify_all();
  });
  Resolver::Job job;
  job.rnic = &host_.rnic;
  job.timeout = Duration::Seconds(60);
  // Asks when the silent ones have been waited for long.
  host_.rnic.while_waiting = [&] {
    while (!all_wait) std::this_thread::yield();
    if (asked_at.has_value() || network_.now().ns() < 20'000'000'000) return;
    asked_at = network_.now();
    Resolver::Job live = job;
    live.serial = kSilent;
    live.query.remote = GidOf("10.0.0.2");
    EXPECT_TRUE(resolver.Add(live));
  };
  for (int i = 0; i < kSilent; ++i) {
    Resolver::Job silent = job;
    silent.serial = static_cast<uint64_t>(i);
    silent.query.remote = GidOf("10.0.0.9");
    ASSERT_TRUE(resolver.Add(silent));
  }
  all_wait = true;
  std::unique_lock lock(mutex);
  resolved.wait(lock, [&] { return resolved_at.has_value(); });
  EXPECT_LE((*resolved_at - *asked_at).ns(), Duration::Milliseconds(10).ns());
}

// It runs the engine: a handler that jumped out of it would keep the token.
TEST_F(ResolverTest, ItsThreadTakesNoneOfTheProgramsSignals) {
  std::atomic<int> blocked{-1};
  host_.rnic.while_waiting = [&] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked = sigismember(&mask, SIGINT) == 1 &&
              sigismember(&mask, SIGALRM) == 1 &&
              sigismember(&mask, SIGSEGV) == 0;
  };
  ASSERT_EQ(Resolve(Create(), 100), 0);
  readiness_.Wait();
  EXPECT_EQ(blocked, 1);
}

TEST_F(ResolverTest, AnIdMayBeDestroyedMeanwhile) {
  for (int i = 0; i < 200; ++i) {
    const uint32_t id = Create();
    ASSERT_EQ(Resolve(id, 1), 0);
    uint32_t events = 0;
    EXPECT_EQ(host_.service->DestroyId(*channel_, id, &events), 0);
  }
}

// For the thread sanitizer: commands on the same ids from many threads, while
// messages arrive.
TEST_F(ResolverTest, ManyThreadsMayUseTheSameIds) {
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
