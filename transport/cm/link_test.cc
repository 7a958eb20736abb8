// Two managers, a link that loses, repeats, reorders and delays, and programs
// that decide at random, early, late or never again. Whatever happens: both
// sides agree in the end which connections are established, and when all
// handles are destroyed nothing is left.

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "tests/support/cm_sink.h"
#include "tests/support/random.h"

namespace urnic::cm {
namespace {

using ::urnic::testing::CmSink;
using ::urnic::testing::Random;
using ::urnic::testing::SeenEvent;
using ::urnic::testing::SentMad;

constexpr uint64_t kServiceId = 0x0000000001061c06;
constexpr uint64_t kSidrServiceId = 0x0000000001111c06;
constexpr uint8_t kTimeoutCode = 10;  // 4.2 ms
constexpr uint8_t kLifeTimeCode = 8;  // 1 ms
constexpr uint8_t kServiceCode = 14;  // 67 ms
constexpr int kAttempts = 40;
constexpr int kStepsMax = 200000;

wire::Gid GidOf(int i) { return wire::Gid::FromIpv4(0x0a000001 + i); }

struct Node {
  explicit Node(const Config& config) : manager(config) {}
  ConnectionManager manager;
  CmSink sink;
  std::set<uint32_t> handles;  // all that are not destroyed
};

class World {
 public:
  explicit World(uint64_t seed)
      : random_(seed), loss_percent_(random_.Below(31)) {
    for (int i = 0; i < 2; ++i) Start(i);
    for (int i = 0; i < kAttempts; ++i) {
      After(random_.Below(400'000'000), [this] { Attempt(); });
    }
    if (random_.OneIn(4)) {
      const int i = static_cast<int>(random_.Below(2));
      After(random_.Below(400'000'000), [this, i] { Start(i); });
      restarts_ = true;
    }
  }

  // Until nothing is under way, due or planned.
  void Settle() {
    for (int step = 0; step < kStepsMax; ++step) {
      Time next = plan_.empty() ? Time::Infinite() : plan_.begin()->first;
      for (auto& node : nodes_) {
        next = std::min(next, node->manager.NextDeadline());
      }
      if (next.IsInfinite()) return;
      now_ = std::max(now_, next);
      for (auto& node : nodes_) node->manager.OnTimer(now_, node->sink);
      if (!plan_.empty() && plan_.begin()->first <= now_) {
        const auto action = plan_.begin()->second;
        plan_.erase(plan_.begin());
        action();
      }
      Drain();
    }
    FAIL() << "it never comes to rest";
  }

  void ExpectBothSidesAgree() {
    if (restarts_) return;  // who has forgotten does not disagree
    for (int i = 0; i < 2; ++i) {
      for (const uint32_t value : nodes_[i]->handles) {
        const Handle handle{value};
        if (nodes_[i]->manager.state(handle) != State::kEstablished) continue;
        const uint32_t ours = nodes_[i]->manager.local_comm_id(handle);
        const uint32_t theirs = nodes_[i]->manager.remote_comm_id(handle);
        EXPECT_TRUE(HasEstablished(theirs, ours) || late_.count(theirs) != 0)
            << "half a connection at node " << i;
        ++established_;
      }
    }
  }
  void DestroyAll() {
    for (auto& node : nodes_) {
      const auto handles = node->handles;
      for (const uint32_t value : handles) Destroy(*node, Handle{value});
    }
    Drain();
  }
  void ExpectNothingLeft() {
    for (auto& node : nodes_) {
      EXPECT_EQ(node->manager.in_use(), 0u);
      EXPECT_TRUE(node->manager.NextDeadline().IsInfinite());
    }
    EXPECT_TRUE(plan_.empty());
  }
  int established() const { return established_; }
  int resolved() const { return resolved_; }

 private:
  void Start(int i) {
    Config config;
    config.ca_guid = 0xca00 + i;
    config.first_communication_id = static_cast<uint32_t>(random_.Next());
    config.max_connections = 128;
    config.max_half_open_per_source = 8;
    config.max_half_open_per_listener = 12;
    config.ack_delay_code = 11;  // TIMEWAIT of 8 ms: longer than the link's
    nodes_[i].emplace(config);
    Node& node = *nodes_[i];
    for (const uint64_t id : {kServiceId, kSidrServiceId}) {
      Handle listener;
      ASSERT_EQ(node.manager.Listen(id, 0, 0, listener), 0);
      node.handles.insert(listener.value);
    }
  }

  void After(uint64_t ns, std::function<void()> action) {
    plan_.emplace(now_ + Duration::Nanoseconds(static_cast<int64_t>(ns)),
                  std::move(action));
  }
  uint64_t Soon() { return random_.Below(60'000'000); }
  uint64_t OnTheWay() { return random_.Below(5'000'000); }

  // To the other node or to itself.
  net::PathQuery PathTo(int from, int to) {
    net::PathQuery path;
    path.local = GidOf(from);
    path.remote = GidOf(to);
    return path;
  }

  void Attempt() {
    const int i = static_cast<int>(random_.Below(2));
    const int to = random_.OneIn(5) ? i : 1 - i;
    Node& node = *nodes_[i];
    Handle handle;
    if (random_.OneIn(6)) {
      SidrRequestParams params;
      params.service_id = kSidrServiceId;
      params.mad_path = PathTo(i, to);
      params.response_timeout_code = kTimeoutCode;
      params.packet_life_time_code = kLifeTimeCode;
      ASSERT_EQ(node.manager.SidrRequest(params, 0, now_, node.sink, handle),
                0);
    } else {
      ConnectParams params;
      params.service_id = kServiceId;
      params.mad_path = PathTo(i, to);
      params.path.local = GidOf(i);
      params.path.remote = GidOf(to);
      params.packet_life_time_code = kLifeTimeCode;
      params.qpn = FreeQpn(node);
      params.remote_response_timeout_code = kTimeoutCode;
      params.local_response_timeout_code = kTimeoutCode;
      ASSERT_EQ(node.manager.Connect(params, 0, now_, node.sink, handle), 0);
    }
    node.handles.insert(handle.value);
    if (random_.OneIn(8)) {
      After(Soon(), [this, i, handle] { Destroy(*nodes_[i], handle); });
    }
  }
  // Small numbers, so that they come again.
  Qpn FreeQpn(const Node& node) {
    Qpn qpn{static_cast<uint32_t>(random_.Below(64))};
    while (node.manager.IsQpnBusy(qpn)) ++qpn.value;
    return qpn;
  }

  // What the managers want done: messages go on their way, events are acted
  // upon. The programs' calls may want more done.
  void Drain() {
    for (bool any = true; any;) {
      any = false;
      for (int i = 0; i < 2; ++i) {
        Node& node = *nodes_[i];
        node.manager.CheckInvariants();
        while (!node.sink.mads.empty()) {
          Send(i, node.sink.mads.front());
          node.sink.mads.pop_front();
        }
        while (!node.sink.events.empty()) {
          const SeenEvent seen = node.sink.events.front();
          node.sink.events.pop_front();
          React(i, node, seen.event);
          any = true;
        }
      }
    }
  }
  void Send(int from, const SentMad& mad) {
    const int to = mad.to.remote == GidOf(0) ? 0 : 1;
    const int copies = random_.OneIn(10) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      if (random_.Below(100) < loss_percent_) continue;
      After(OnTheWay(), [this, from, to, mad] {
        Node& node = *nodes_[to];
        (void)node.manager.OnMad(mad.bytes, PathTo(to, from), now_, node.sink);
      });
    }
  }

  void React(int i, Node& node, const Event& event) {
    ConnectionManager& m = node.manager;
    const Handle h = event.handle;
    switch (event.kind) {
      case EventKind::kReqReceived:
        node.handles.insert(h.value);
        return OnRequest(i, node, h);
      case EventKind::kRepReceived:
        return OnReply(i, node, h);
      case EventKind::kRtuReceived:
      case EventKind::kUserEstablished:
        return OnEstablished(i, h);
      case EventKind::kDreqReceived:
        if (random_.OneIn(3)) return Destroy(node, h);
        EXPECT_EQ(m.SendDrep(h, {}, now_, node.sink), 0);
        return;
      case EventKind::kSidrReqReceived: {
        node.handles.insert(h.value);
        if (random_.OneIn(4)) return Destroy(node, h);
        EXPECT_EQ(m.SidrReply(h, SidrReplyParams(), node.sink), 0);
        return Destroy(node, h);
      }
      case EventKind::kSidrRepReceived:
        ++resolved_;
        return Destroy(node, h);
      case EventKind::kMraReceived:
        return;
      case EventKind::kRepError:
        late_.insert(m.local_comm_id(h));
        [[fallthrough]];
      default:  // over
        if (random_.OneIn(2)) Destroy(node, h);
    }
  }
  void OnRequest(int i, Node& node, Handle h) {
    ConnectionManager& m = node.manager;
    switch (random_.Below(10)) {
      case 0:
        return Destroy(node, h);
      case 1:
        EXPECT_EQ(m.Reject(h, RejectParams(), now_, node.sink), 0);
        return Destroy(node, h);
      case 2:
      case 3:
        EXPECT_EQ(m.PrepareMra(h, kServiceCode), 0);
        return After(Soon(), [this, i, h] { Accept(i, h); });
      case 4:
        return After(Soon(), [this, i, h] { Accept(i, h); });
      default:
        return Accept(i, h);
    }
  }
  // Late calls may meet whatever has happened in between.
  void Accept(int i, Handle h) {
    Node& node = *nodes_[i];
    AcceptParams params;
    params.qpn = FreeQpn(node);
    if (node.manager.Accept(h, params, now_, node.sink) != 0) return;
    if (random_.OneIn(10)) {
      After(OnTheWay(), [this, i, h] {
        late_.insert(nodes_[i]->manager.local_comm_id(h));
        Destroy(*nodes_[i], h);
      });
    } else if (random_.OneIn(5)) {
      After(OnTheWay(), [this, i, h] {
        late_.insert(nodes_[i]->manager.local_comm_id(h));
        (void)nodes_[i]->manager.Reject(h, RejectParams(), now_,
                                        nodes_[i]->sink);
      });
    }
  }
  void OnReply(int i, Node& node, Handle h) {
    ConnectionManager& m = node.manager;
    switch (random_.Below(10)) {
      case 0:
        return Destroy(node, h);
      case 1:
        EXPECT_EQ(m.Reject(h, RejectParams(), now_, node.sink), 0);
        return;
      case 2:
        EXPECT_EQ(m.PrepareMra(h, kServiceCode), 0);
        return After(Soon(), [this, i, h] { SendRtu(i, h); });
      case 3:
        return After(Soon(), [this, i, h] { SendRtu(i, h); });
      default:
        return SendRtu(i, h);
    }
  }
  void SendRtu(int i, Handle h) {
    Node& node = *nodes_[i];
    if (node.manager.SendRtu(h, {}, node.sink) != 0) return;
    OnEstablished(i, h);
    // The first data may overtake the RTU.
    const uint32_t theirs = node.manager.remote_comm_id(h);
    After(OnTheWay(), [this, theirs] {
      for (auto& other : nodes_) {
        for (const uint32_t value : other->handles) {
          if (other->manager.local_comm_id(Handle{value}) == theirs) {
            (void)other->manager.EstablishByTraffic(Handle{value}, other->sink);
          }
        }
      }
    });
  }
  void OnEstablished(int i, Handle h) {
    if (random_.OneIn(3)) {
      After(Soon(), [this, i, h] {
        Node& node = *nodes_[i];
        (void)node.manager.Disconnect(h, {}, now_, node.sink);
      });
    } else if (random_.OneIn(5)) {
      After(Soon(), [this, i, h] { Destroy(*nodes_[i], h); });
    }
  }
  void Destroy(Node& node, Handle h) {
    const bool ours = node.handles.erase(h.value) != 0;
    // A restarted node may have given the same number to something else.
    if (!ours) return;
    EXPECT_EQ(node.manager.Destroy(h, now_, node.sink), 0);
  }
  bool HasEstablished(uint32_t local, uint32_t remote) {
    for (auto& node : nodes_) {
      for (const uint32_t value : node->handles) {
        const Handle h{value};
        if (node->manager.local_comm_id(h) == local &&
            node->manager.remote_comm_id(h) == remote &&
            node->manager.state(h) == State::kEstablished) {
          return true;
        }
      }
    }
    return false;
  }

  Random random_;
  const uint64_t loss_percent_;
  Time now_ = Time::FromNs(1);
  std::multimap<Time, std::function<void()>> plan_;
  std::optional<Node> nodes_[2];
  // Took back or gave up what it had accepted: one REJ, which may be lost.
  std::set<uint32_t> late_;
  bool restarts_ = false;
  int established_ = 0;
  int resolved_ = 0;
};

TEST(LinkTest, BothSidesAgreeAndNothingIsLeft) {
  constexpr uint64_t kSeeds = 2000;
  int established = 0;
  int resolved = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const auto world = std::make_unique<World>(seed);
    world->Settle();
    world->ExpectBothSidesAgree();
    established += world->established();
    resolved += world->resolved();
    world->DestroyAll();
    world->Settle();
    world->ExpectNothingLeft();
    if (::testing::Test::HasFailure()) return;
  }
  // The test has tested something.
  EXPECT_GT(established, 10000);
  EXPECT_GT(resolved, 5000);
}

}  // namespace
}  // namespace urnic::cm
