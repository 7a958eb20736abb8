#pragma once

// Two connection managers and the wire between them, which a test operates step
// by step. Node 0 usually connects to node 1, which listens.

#include <gtest/gtest.h>

#include <optional>

#include "tests/support/cm_sink.h"
#include "transport/cm/messages.h"

namespace urnic::testing {

class CmPair : public ::testing::Test {
 protected:
  static constexpr uint64_t kService = 0x0000000001061c06;
  static constexpr uint64_t kUser = 77;
  static constexpr uint64_t kListenerUser = 88;
  static constexpr uint8_t kTimeoutCode = 10;  // 4.2 ms
  static constexpr uint8_t kLifeTimeCode = 8;  // 1 ms
  static constexpr uint8_t kRetries = 3;

  struct Node {
    explicit Node(const cm::Config& config) : manager(config) {}
    cm::ConnectionManager manager;
    CmSink sink;
    cm::Handle listener;
    cm::Handle handle;  // of the last connection
  };

  void SetUp() override {
    for (int i = 0; i < 2; ++i) Restart(i, 64, 32);
  }
  void TearDown() override {
    for (auto& node : nodes_) node->manager.CheckInvariants();
  }

  // A new manager of the same CA, with other communication ids.
  void Restart(int i, uint32_t max_connections, uint32_t max_half_open) {
    cm::Config config;
    config.ca_guid = 0xca00 + i;
    config.first_communication_id = 0x1000u * (1 + i) + 0x10u * ++restarts_;
    config.max_connections = max_connections;
    config.max_half_open_per_source = max_half_open;
    config.max_half_open_per_listener = max_half_open;
    Restart(i, config);
  }
  void Restart(int i, const cm::Config& config) { nodes_[i].emplace(config); }
  Node& node(int i) { return *nodes_[i]; }
  cm::ConnectionManager& manager(int i) { return nodes_[i]->manager; }
  CmSink& sink(int i) { return nodes_[i]->sink; }
  cm::Handle handle(int i) { return nodes_[i]->handle; }

  static wire::Gid GidOf(int i) { return wire::Gid::FromIpv4(0x0a000001 + i); }
  static net::PathQuery PathFrom(int i) {
    net::PathQuery path;
    path.local = GidOf(i);
    path.remote = GidOf(1 - i);
    return path;
  }

  void Listen(int i = 1) {
    ASSERT_EQ(manager(i).Listen(kService, 0, kListenerUser, node(i).listener),
              0);
  }
  static cm::ConnectParams Request(int i = 0) {
    cm::ConnectParams p;
    p.service_id = kService;
    p.mad_path = PathFrom(i);
    p.path.local = GidOf(i);
    p.path.remote = GidOf(1 - i);
    p.packet_life_time_code = kLifeTimeCode;
    p.qpn = Qpn{0x100u + i};
    p.starting_psn = Psn(0x111111u * (1 + i));
    p.responder_resources = 3;
    p.initiator_depth = 5;
    p.retry_count = 6;
    p.rnr_retry_count = 4;
    p.remote_response_timeout_code = kTimeoutCode;
    p.local_response_timeout_code = kTimeoutCode;
    p.max_cm_retries = kRetries;
    return p;
  }
  static cm::AcceptParams Reply(int i = 1) {
    cm::AcceptParams p;
    p.qpn = Qpn{0x200u + i};
    p.starting_psn = Psn(0x222222);
    p.responder_resources = 2;
    p.initiator_depth = 1;
    p.rnr_retry_count = 5;
    return p;
  }
  // How long Connect() of Request() waits for an answer.
  static Duration AnswerTime() {
    return Duration::Nanoseconds((4096ll << kTimeoutCode) +
                                 2 * (4096ll << kLifeTimeCode));
  }

  void Connect(int i = 0) { Connect(i, Request(i)); }
  void Connect(int i, const cm::ConnectParams& params) {
    ASSERT_EQ(manager(i).Connect(params, kUser, now_, sink(i), node(i).handle),
              0);
  }
  // The oldest message of node `i` arrives at the other.
  RxVerdict Deliver(int i) {
    if (sink(i).mads.empty()) {
      ADD_FAILURE() << "node " << i << " has sent nothing";
      return RxVerdict::kTruncated;
    }
    const SentMad mad = sink(i).mads.front();
    sink(i).mads.pop_front();
    return Give(1 - i, mad);
  }
  void Pass(int i) {
    EXPECT_EQ(static_cast<int>(Deliver(i)),
              static_cast<int>(RxVerdict::kAccept));
  }
  // As if node `i` had received this from the other.
  RxVerdict Give(int i, const SentMad& mad) {
    const RxVerdict verdict =
        manager(i).OnMad(mad.bytes, PathFrom(i), now_, sink(i));
    manager(i).CheckInvariants();
    return verdict;
  }
  template <typename Message>
  RxVerdict Give(int i, const Message& message) {
    SentMad mad;
    static_assert(sizeof(message) == sizeof(mad.bytes));
    std::memcpy(mad.bytes.data(), &message, sizeof(message));
    return Give(i, mad);
  }
  // The MRA with which node `i` would ask its peer for time.
  wire::CmMra Mra(int i, uint8_t of, uint8_t service_timeout_code) {
    auto mra = cm::Begin<wire::CmMra>(0, manager(i).local_comm_id(handle(i)),
                                      manager(i).remote_comm_id(handle(i)));
    mra.set_message_mraed(of);
    mra.set_service_timeout_code(service_timeout_code);
    return mra;
  }
  // The next event of node `i`; its handle becomes the node's.
  SeenEvent Take(int i, cm::EventKind kind) {
    if (sink(i).events.empty()) {
      ADD_FAILURE() << "node " << i << " has no event";
      return SeenEvent();
    }
    SeenEvent seen = sink(i).events.front();
    sink(i).events.pop_front();
    EXPECT_EQ(static_cast<int>(seen.event.kind), static_cast<int>(kind));
    node(i).handle = seen.event.handle;
    return seen;
  }
  void ExpectQuiet(int i) {
    EXPECT_TRUE(sink(i).mads.empty());
    EXPECT_TRUE(sink(i).events.empty());
  }
  // Waits until the next deadline of either node. False if there is none.
  bool Wait() {
    const Time next =
        std::min(manager(0).NextDeadline(), manager(1).NextDeadline());
    if (next.IsInfinite()) return false;
    now_ = next;
    for (int i = 0; i < 2; ++i) manager(i).OnTimer(now_, sink(i));
    return true;
  }

  // Node 1 has the request, undecided.
  void ReachReqReceived() {
    Listen();
    Connect();
    ASSERT_EQ(Deliver(0), RxVerdict::kAccept);
    Take(1, cm::EventKind::kReqReceived);
  }
  // The REP is on its way to node 0.
  void ReachRepSent() {
    ReachReqReceived();
    ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  }
  void ReachRepReceived() {
    ReachRepSent();
    ASSERT_EQ(Deliver(1), RxVerdict::kAccept);
    Take(0, cm::EventKind::kRepReceived);
  }
  void ReachEstablished() {
    ReachRepReceived();
    ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
    ASSERT_EQ(Deliver(0), RxVerdict::kAccept);
    Take(1, cm::EventKind::kRtuReceived);
  }

  Time now_ = Time::FromNs(1'000'000);
  std::optional<Node> nodes_[2];

 private:
  uint32_t restarts_ = 0;
};

}  // namespace urnic::testing
