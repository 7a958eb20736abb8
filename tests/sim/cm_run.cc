#include "tests/sim/cm_run.h"

#include <algorithm>

namespace urnic::sim {

using cm::AcceptParams;
using cm::Config;
using cm::ConnectParams;
using cm::Event;
using cm::EventKind;
using cm::RejectParams;
using cm::SidrReplyParams;
using cm::SidrRequestParams;
using testing::SeenEvent;
using testing::SentMad;

namespace {

constexpr uint64_t kServiceId = 0x0000000001061c06;
constexpr uint64_t kSidrServiceId = 0x0000000001111c06;
constexpr uint8_t kTimeoutCode = 10;  // 4.2 ms
constexpr uint8_t kLifeTimeCode = 8;  // 1 ms
constexpr uint8_t kServiceCode = 14;  // 67 ms
constexpr int kAttempts = 40;
constexpr int kMoves = 25;
constexpr uint64_t kBusyNs = 400'000'000;
constexpr int kStepsMax = 200000;

wire::Gid GidOf(int i) { return wire::Gid::FromIpv4(0x0a000001 + i); }

}  // namespace

Config CmRun::ConfigOf(int i, testing::Random& random) const {
  Config config;
  config.ca_guid = 0xca00 + i;
  config.first_communication_id = static_cast<uint32_t>(random.Next());
  config.number_key = {{random.Next(), random.Next()}};
  config.max_connections = 128;
  config.max_half_open_per_source = per_source_;
  config.max_half_open_per_listener = per_listener_;
  config.ack_delay_code = 11;  // TIMEWAIT of 8 ms: longer than any delay
  return config;
}

namespace {

// One bit for each thing that is told at most once. Nothing follows the last.
enum Told : uint32_t {
  kBegun = 1,
  kPatience = 2,
  kReplied = 4,
  kUp = 8,
  kAsked = 16,     // by a DREQ
  kAnswered = 32,  // our DREQ, or not
  kFailed = 64,
  kOver = 128,
};
uint32_t BitOf(EventKind kind) {
  switch (kind) {
    case EventKind::kReqReceived:
    case EventKind::kSidrReqReceived:
      return kBegun;
    case EventKind::kMraReceived:
      return kPatience;
    case EventKind::kRepReceived:
      return kReplied;
    case EventKind::kRtuReceived:
    case EventKind::kUserEstablished:
      return kUp;
    case EventKind::kDreqReceived:
      return kAsked;
    case EventKind::kDrepReceived:
    case EventKind::kDreqError:
      return kAnswered;
    case EventKind::kRejReceived:
    case EventKind::kRepError:
      return kFailed;
    default:
      return kOver;
  }
}

}  // namespace

CmRun::CmRun(uint64_t seed, bool moves)
    : random_(seed),
      move_random_(seed ^ 0x6d6f7665),
      loss_percent_(random_.Below(31)) {
  if (random_.OneIn(3)) {
    per_source_ = 1 + static_cast<uint32_t>(random_.Below(4));
    per_listener_ = 1 + static_cast<uint32_t>(random_.Below(5));
  }
  for (int i = 0; i < 2; ++i) Start(i);
  for (int i = 0; i < kAttempts; ++i) {
    After(random_.Below(kBusyNs), [this] { Attempt(); });
  }
  if (random_.OneIn(4)) {
    const int i = static_cast<int>(random_.Below(2));
    After(random_.Below(kBusyNs), [this, i] { Start(i); });
    restarts_ = true;
  }
  for (int n = 0; moves && n < kMoves; ++n) {
    const int i = static_cast<int>(move_random_.Below(2));
    const bool all = move_random_.OneIn(2);
    After(move_random_.Below(2 * kBusyNs),
          [this, i, all] { all ? Move(i) : MoveOut(i); });
  }
}

// A restarted program knows nothing about its predecessor.
void CmRun::Start(int i) {
  Node& node = nodes_[i];
  node = Node();
  node.manager = std::make_unique<cm::ConnectionManager>(ConfigOf(i, random_));
  Listen(node);
}

void CmRun::Listen(Node& node) {
  node.listeners.clear();
  for (const uint64_t id : {kServiceId, kSidrServiceId}) {
    Require(node.manager->Listen(id, 0, 0, node.listeners.emplace_back()) == 0,
            "Listen() fails");
  }
}

std::vector<CmStep> CmRun::Run(CmStats& stats) {
  Settle();
  std::vector<CmStep> steps = std::move(steps_);
  CheckRest(stats_);
  for (int i = 0; i < 2; ++i) {
    while (!nodes_[i].handles.empty()) {
      Destroy(i, nodes_[i].handles.begin()->first);
    }
    for (const Handle listener : nodes_[i].listeners) {
      Require(nodes_[i].manager->Unlisten(listener) == 0, "Unlisten() fails");
    }
  }
  Drain();
  Settle();
  CheckNothingLeft();
  stats.established += stats_.established;
  stats.resolved += stats_.resolved;
  stats.moves += stats_.moves;
  stats.states |= stats_.states;
  return steps;
}

void CmRun::Settle() {
  for (int step = 0; step < kStepsMax; ++step) {
    Time next = plan_.empty() ? Time::Infinite() : plan_.begin()->first;
    for (const Node& node : nodes_) next = std::min(next, node.Due());
    if (next.IsInfinite()) return;
    now_ = std::max(now_, next);
    for (Node& node : nodes_) {
      node.manager->OnTimer(node.Now(now_), node.sink);
    }
    Drain();
    if (!plan_.empty() && plan_.begin()->first <= now_) {
      const auto action = plan_.begin()->second;
      plan_.erase(plan_.begin());
      action();
    }
    Drain();
  }
  Violate("it never comes to rest");
}

net::PathQuery CmRun::PathTo(int from, int to) const {
  net::PathQuery path;
  path.local = GidOf(from);
  path.remote = GidOf(to);
  return path;
}

// --- Programs ----------------------------------------------------------------

// Connects to the other node, or to itself.
void CmRun::Attempt() {
  const int i = static_cast<int>(random_.Below(2));
  const int to = random_.OneIn(5) ? i : 1 - i;
  Node& node = nodes_[i];
  Handle handle;
  if (random_.OneIn(6)) {
    SidrRequestParams params;
    params.service_id = kSidrServiceId;
    params.mad_path = PathTo(i, to);
    params.response_timeout_code = kTimeoutCode;
    params.packet_life_time_code = kLifeTimeCode;
    Require(node.manager->SidrRequest(params, next_name_, node.Now(now_),
                                      node.sink, handle) == 0,
            "SidrRequest() fails");
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
    Require(node.manager->Connect(params, next_name_, node.Now(now_), node.sink,
                                  handle) == 0,
            "Connect() fails");
  }
  const int name = Name(node, handle);
  if (random_.OneIn(8)) {
    After(Soon(), [this, i, name] { Destroy(i, name); });
  }
}

// Small numbers, so that they are soon reused.
Qpn CmRun::FreeQpn(const Node& node) {
  Qpn qpn{static_cast<uint32_t>(random_.Below(64))};
  while (node.manager->IsQpnBusy(qpn)) ++qpn.value;
  return qpn;
}

int CmRun::Name(Node& node, Handle handle) {
  node.handles[next_name_] = handle;
  return next_name_++;
}

// Sends the managers' messages, and acts upon their events. The programs' calls
// may cause more of both.
void CmRun::Drain() {
  for (bool any = true; any;) {
    any = false;
    for (int i = 0; i < 2; ++i) {
      Node& node = nodes_[i];
      node.manager->CheckInvariants();
      while (!node.sink.mads.empty()) {
        Send(i, node.sink.mads.front());
        node.sink.mads.pop_front();
      }
      while (!node.sink.events.empty()) {
        const SeenEvent seen = node.sink.events.front();
        node.sink.events.pop_front();
        React(i, seen.event);
        any = true;
      }
    }
  }
}

void CmRun::Send(int from, const SentMad& mad) {
  steps_.push_back({now_, from, -1, mad.attribute()});
  const int to = mad.to.remote == GidOf(0) ? 0 : 1;
  const int copies = random_.OneIn(10) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    if (random_.Below(100) < loss_percent_) continue;
    After(OnTheWay(), [this, from, to, mad] {
      Node& node = nodes_[to];
      (void)node.manager->OnMad(mad.bytes, PathTo(to, from), node.Now(now_),
                                node.sink);
    });
  }
}

void CmRun::React(int i, const Event& event) {
  Node& node = nodes_[i];
  cm::ConnectionManager& m = *node.manager;
  const Handle h = event.handle;
  const bool asks = event.kind == EventKind::kReqReceived ||
                    event.kind == EventKind::kSidrReqReceived;
  if (asks) {
    const int name = Name(node, h);
    Require(m.SetUser(h, name) == 0, "SetUser() fails");
  }
  const std::optional<int> known = node.NameOf(h);
  Require(known.has_value(), "an event of an unknown connection");
  const int name = *known;
  Require(asks || event.user == static_cast<uint64_t>(name),
          "an event of another connection");
  Note(i, name, event.kind);
  switch (event.kind) {
    case EventKind::kReqReceived:
      return OnRequest(i, name);
    case EventKind::kRepReceived:
      return OnReply(i, name);
    case EventKind::kRtuReceived:
    case EventKind::kUserEstablished:
      return OnEstablished(i, name);
    case EventKind::kDreqReceived:
      if (random_.OneIn(3)) return Destroy(i, name);
      if (random_.OneIn(3)) return AnswerLate(i, name);
      Require(m.SendDrep(h, {}, node.Now(now_), node.sink) == 0,
              "SendDrep() fails");
      return;
    case EventKind::kSidrReqReceived:
      if (random_.OneIn(4)) return Destroy(i, name);
      if (random_.OneIn(3)) return AnswerLate(i, name);
      Require(m.SidrReply(h, SidrReplyParams(), node.sink) == 0,
              "SidrReply() fails");
      return Destroy(i, name);
    case EventKind::kSidrRepReceived:
      ++stats_.resolved;
      return Destroy(i, name);
    case EventKind::kMraReceived:
      return;
    case EventKind::kRepError:
    case EventKind::kDisplaced:
      late_.insert(m.local_comm_id(h));
      [[fallthrough]];
    default:  // over
      if (random_.OneIn(2)) Destroy(i, name);
  }
}

// Answers a DREQ or a SIDR_REQ.
void CmRun::AnswerLate(int i, int name) {
  After(Soon(), [this, i, name] {
    Node& node = nodes_[i];
    const Handle h = node.Of(name);
    (void)node.manager->SendDrep(h, {}, node.Now(now_), node.sink);
    if (node.manager->SidrReply(h, SidrReplyParams(), node.sink) == 0) {
      Destroy(i, name);
    }
  });
}

void CmRun::OnRequest(int i, int name) {
  Node& node = nodes_[i];
  const Handle h = node.Of(name);
  switch (random_.Below(10)) {
    case 0:
      return Destroy(i, name);
    case 1:
      Require(node.manager->Reject(h, RejectParams(), node.Now(now_),
                                   node.sink) == 0,
              "Reject() of a request fails");
      return Destroy(i, name);
    case 2:
    case 3:
      Require(node.manager->PrepareMra(h, kServiceCode) == 0,
              "PrepareMra() of a request fails");
      [[fallthrough]];
    case 4:
      return After(Soon(), [this, i, name] { Accept(i, name); });
    default:
      return Accept(i, name);
  }
}

// Anything may have happened before a late call.
void CmRun::Accept(int i, int name) {
  Node& node = nodes_[i];
  AcceptParams params;
  params.qpn = FreeQpn(node);
  if (node.manager->Accept(node.Of(name), params, node.Now(now_), node.sink) !=
      0) {
    return;
  }
  const bool destroys = random_.OneIn(10);
  if (!destroys && !random_.OneIn(5)) return;
  After(OnTheWay(), [this, i, name, destroys] {
    Node& self = nodes_[i];
    const Handle h = self.Of(name);
    late_.insert(self.manager->local_comm_id(h));
    if (destroys) return Destroy(i, name);
    (void)self.manager->Reject(h, RejectParams(), self.Now(now_), self.sink);
  });
}

void CmRun::OnReply(int i, int name) {
  Node& node = nodes_[i];
  const Handle h = node.Of(name);
  switch (random_.Below(10)) {
    case 0:
      return Destroy(i, name);
    case 1:
      Require(node.manager->Reject(h, RejectParams(), node.Now(now_),
                                   node.sink) == 0,
              "Reject() of a reply fails");
      return;
    case 2:
      Require(node.manager->PrepareMra(h, kServiceCode) == 0,
              "PrepareMra() of a reply fails");
      [[fallthrough]];
    case 3:
      return After(Soon(), [this, i, name] { SendRtu(i, name); });
    default:
      return SendRtu(i, name);
  }
}

void CmRun::SendRtu(int i, int name) {
  Node& node = nodes_[i];
  const Handle h = node.Of(name);
  if (node.manager->SendRtu(h, {}, node.sink) != 0) return;
  OnEstablished(i, name);
  // The first data may overtake the RTU.
  const uint32_t theirs = node.manager->remote_comm_id(h);
  After(OnTheWay(), [this, theirs] { EstablishByTraffic(theirs); });
}

void CmRun::EstablishByTraffic(uint32_t comm_id) {
  for (Node& node : nodes_) {
    for (const auto& [name, handle] : node.handles) {
      if (node.manager->local_comm_id(handle) != comm_id) continue;
      (void)node.manager->EstablishByTraffic(handle, node.sink);
    }
  }
}

void CmRun::OnEstablished(int i, int name) {
  established_.insert(name);
  if (random_.OneIn(3)) {
    After(Soon(), [this, i, name] {
      Node& node = nodes_[i];
      (void)node.manager->Disconnect(node.Of(name), {}, node.Now(now_),
                                     node.sink);
    });
  } else if (random_.OneIn(5)) {
    After(Soon(), [this, i, name] { Destroy(i, name); });
  }
}

void CmRun::Destroy(int i, int name) {
  Node& node = nodes_[i];
  const Handle h = node.Of(name);
  if (!h.valid()) return;  // destroyed already, or the node has restarted
  node.handles.erase(name);
  Require(node.manager->Destroy(h, node.Now(now_), node.sink) == 0,
          "Destroy() fails");
}

// --- Moves -------------------------------------------------------------------

// Everything moves to another manager, with its own listeners.
void CmRun::Move(int i) {
  Node& node = nodes_[i];
  std::vector<std::pair<std::vector<uint8_t>, std::optional<int>>> images;
  for (const uint32_t id : node.manager->CommIds()) {
    std::optional<int> name;
    for (const auto& [its, handle] : node.handles) {
      if (node.manager->local_comm_id(handle) == id) name = its;
    }
    images.emplace_back(TakeOut(node, id), name);
  }
  node.manager->CheckInvariants();
  Require(node.manager->in_use() == node.listeners.size(),
          "what has gone is still there");
  Require(node.manager->NextDeadline().IsInfinite(),
          "what has gone has a deadline");
  Require(node.sink.mads.empty() && node.sink.events.empty(),
          "what has gone says so");
  node.manager =
      std::make_unique<cm::ConnectionManager>(ConfigOf(i, move_random_));
  node.shift = Duration::Nanoseconds(
      static_cast<int64_t>(move_random_.Below(uint64_t{1} << 40)));
  Listen(node);
  for (const auto& [image, name] : images) PutIn(node, image, name);
}

// One connection leaves, and comes back. A half-open one would come back as the
// youngest of its kind.
void CmRun::MoveOut(int i) {
  Node& node = nodes_[i];
  for (const auto& [name, handle] : node.handles) {
    if (cm::IsHalfOpen(node.manager->state(handle))) continue;
    if (!move_random_.OneIn(4)) continue;
    const uint32_t id = node.manager->local_comm_id(handle);
    const std::vector<uint8_t> image = TakeOut(node, id);
    PutIn(node, image, name);
  }
}

std::vector<uint8_t> CmRun::TakeOut(Node& node, uint32_t comm_id) {
  cm::ConnectionManager& m = *node.manager;
  const Time now = node.Now(now_);
  std::vector<uint8_t> image(cm::ExtractImage(m, comm_id, now, {}));
  Require(!image.empty() &&
              cm::ExtractImage(m, comm_id, now, image) == image.size(),
          "ExtractImage() does not know its length");
  Require(m.Forget(comm_id) == 0, "Forget() fails");
  return image;
}

void CmRun::PutIn(Node& node, std::span<const uint8_t> image,
                  std::optional<int> name) {
  Handle handle;
  const ImageRefusal refusal =
      cm::InsertImage(image, node.Now(now_), *node.manager, handle);
  if (!refusal.ok()) Violate("an image of our own: " + refusal.Text());
  if (name.has_value()) node.handles[*name] = handle;
  stats_.states |= 1u << static_cast<int>(node.manager->state(handle));
  ++stats_.moves;
}

// --- Rules -------------------------------------------------------------------

void CmRun::Note(int i, int name, EventKind kind) {
  steps_.push_back({now_, i, name, static_cast<int>(kind)});
  uint32_t& told = told_[name];
  Require((told & kOver) == 0, "an event after the end");
  Require((told & BitOf(kind)) == 0, "an event that was told before");
  told |= BitOf(kind);
}

bool CmRun::HasEstablished(uint32_t local, uint32_t remote) const {
  for (const Node& node : nodes_) {
    for (const auto& [name, h] : node.handles) {
      if (node.manager->local_comm_id(h) == local &&
          node.manager->remote_comm_id(h) == remote &&
          node.manager->state(h) == State::kEstablished) {
        return true;
      }
    }
  }
  return false;
}

void CmRun::CheckRest(CmStats& stats) const {
  for (const Node& node : nodes_) {
    for (const auto& [name, h] : node.handles) {
      const State state = node.manager->state(h);
      const auto told = told_.find(name);
      if (state != State::kEstablished) {
        Require(state == State::kIdle, "it waits forever");
        Require(established_.count(name) == 0 ||
                    (told != told_.end() && (told->second & kOver) != 0),
                "it was established, and its end is not told");
        continue;
      }
      Require(told == told_.end() ||
                  (told->second & (kAsked | kAnswered | kFailed | kOver)) == 0,
              "it is established, and its end was told");
      if (restarts_) continue;  // a restarted node knows nothing
      const uint32_t theirs = node.manager->remote_comm_id(h);
      Require(HasEstablished(theirs, node.manager->local_comm_id(h)) ||
                  late_.count(theirs) != 0,
              "half a connection");
      ++stats.established;
    }
  }
}

void CmRun::CheckNothingLeft() const {
  for (const Node& node : nodes_) {
    Require(node.manager->in_use() == 0, "something is left");
    Require(node.manager->NextDeadline().IsInfinite(), "a deadline is left");
  }
  Require(plan_.empty(), "something is planned");
}

}  // namespace urnic::sim
