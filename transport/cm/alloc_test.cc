// Messages allocate nothing once as many connections have existed before.

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/alloc_guard.h"
#include "transport/cm/connection_manager.h"

namespace urnic::cm {
namespace {

constexpr uint64_t kServiceId = 5;
constexpr uint32_t kConnections = 300;

// Keeps the last message and the last handle, without allocating.
class LastSink final : public Sink {
 public:
  void SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
               const net::PathQuery&) override {
    std::memcpy(bytes, mad.data(), mad.size());
  }
  void OnEvent(const Event& event) override { handle = event.handle; }

  uint8_t bytes[wire::kMadBytes] = {};
  Handle handle;
};

class AllocTest : public ::testing::Test {
 protected:
  static Config ConfigOf(int i) {
    Config config;
    config.ca_guid = 0xca00 + i;
    config.first_communication_id = 0x1000 * (1 + i);
    config.max_connections = kConnections + 1;
    return config;
  }

  // Sets up all connections, ends them, and waits until they are over.
  void Cycle() {
    for (uint32_t n = 0; n < kConnections; ++n) Establish(n);
    for (uint32_t n = 0; n < kConnections; ++n) End(n);
    now_ = now_ + Duration::Seconds(10);
    active_.OnTimer(now_, active_sink_);
    passive_.OnTimer(now_, passive_sink_);
    EXPECT_EQ(active_.in_use(), 0u);
  }
  void Establish(uint32_t n) {
    ConnectParams params;
    params.service_id = kServiceId;
    params.qpn = Qpn{n};
    ASSERT_EQ(active_.Connect(params, 0, now_, active_sink_, actives_[n]), 0);
    ToPassive();
    passives_[n] = passive_sink_.handle;
    AcceptParams reply;
    reply.qpn = Qpn{n};
    ASSERT_EQ(passive_.Accept(passives_[n], reply, now_, passive_sink_), 0);
    ToActive();
    ASSERT_EQ(active_.SendRtu(actives_[n], {}, active_sink_), 0);
    ToPassive();
    ASSERT_EQ(passive_.state(passives_[n]), State::kEstablished);
  }
  void End(uint32_t n) {
    ASSERT_EQ(active_.Destroy(actives_[n], now_, active_sink_), 0);
    ToPassive();
    ASSERT_EQ(passive_.Destroy(passives_[n], now_, passive_sink_), 0);
    ToActive();
  }
  void ToPassive() {
    EXPECT_EQ(passive_.OnMad(active_sink_.bytes, path_, now_, passive_sink_),
              RxVerdict::kAccept);
  }
  void ToActive() {
    EXPECT_EQ(active_.OnMad(passive_sink_.bytes, path_, now_, active_sink_),
              RxVerdict::kAccept);
  }

  Time now_ = Time::FromNs(1);
  ConnectionManager active_{ConfigOf(0)};
  ConnectionManager passive_{ConfigOf(1)};
  LastSink active_sink_;
  LastSink passive_sink_;
  net::PathQuery path_;
  Handle actives_[kConnections];
  Handle passives_[kConnections];
};

TEST_F(AllocTest, ASecondGenerationOfConnectionsAllocatesNothing) {
  Handle listener;
  ASSERT_EQ(passive_.Listen(kServiceId, 0, 0, listener), 0);
  Cycle();
  urnic::testing::AllocGuard guard;
  Cycle();
  EXPECT_EQ(guard.count(), 0u);
}

TEST_F(AllocTest, AConnectionIsAsSmallAsTheManualSays) {
  // It also has places in four indexes and in the heap.
  EXPECT_LE(sizeof(Connection), 512u);
}

}  // namespace
}  // namespace urnic::cm
