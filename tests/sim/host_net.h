#pragma once

// Host cores (transport/net) at a switch. Some hosts know each other, and send
// along the paths that they find. Hosts move to another MAC, announced or not,
// and are unplugged for a while. Liars claim the addresses of others, and
// crowds of strangers ask. Hosts ping each other in fragments, and are flooded
// with fragments that make no packet. Everything follows from the seed.
//
// The oracle:
// - An adjacency stays that of one neighbour, however large the crowd.
// - No lie moves a neighbour that is there, on a wire that loses nothing.
// - A host that moves is followed: within 140 ms if it announces the move,
//   within 400 ms of silence if not (no loss, no liars).
// - Each question has one answer, at its deadline at the latest; a host that is
//   there is found.
// - The answer to a ping has its bytes. A host that is there answers, on a wire
//   that loses nothing, unless fragments flood it. The number of kept fragments
//   is bounded, and none is kept after its time.
// - When the trouble is over, every path leads to where its neighbour is, and
//   packets along it arrive.

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/sim/link.h"
#include "tests/sim/world.h"
#include "tests/support/fragments.h"
#include "tests/support/host_wire.h"
#include "transport/net/host.h"

namespace urnic::sim {

struct NetStats {
  uint64_t delivered = 0;
  uint64_t lost = 0;
  uint64_t moves = 0;
  uint64_t lies = 0;
  uint64_t found = 0;
  uint64_t answers = 0;  // to pings in fragments
};

class NetRun {
 public:
  explicit NetRun(uint64_t seed) : random_(seed) {
    faulty_ = random_.OneIn(2);
    liars_ = random_.OneIn(2);
    vlan_ = random_.OneIn(4) ? 7 : 0;
    link_.delay = Micros(2 + random_.Below(300));
    link_.jitter = Micros(random_.Below(200));
    if (faulty_) {
      link_.loss_ppm = static_cast<uint32_t>(random_.Below(100000));
      link_.bursts = {.enter_ppm = static_cast<uint32_t>(random_.Below(5000)),
                      .leave_ppm = 150'000};
      link_.duplicate_ppm = static_cast<uint32_t>(random_.Below(100000));
      link_.reorder_ppm = static_cast<uint32_t>(random_.Below(100000));
    }
    rto_ = Millis(40 + random_.Below(40));
    const uint64_t nodes = 3 + random_.Below(6);
    for (uint64_t i = 0; i < nodes; ++i) {
      nodes_.push_back(std::make_unique<Node>());
      Node& node = *nodes_.back();
      node.number = static_cast<uint8_t>(i + 1);
      node.uplink = std::make_unique<Link>(
          world_, random_.Next(), link_,
          [this, &node](std::vector<uint8_t> f) { Switch(node, f); });
      Incarnate(node);
    }
  }

  // Throws Violation.
  NetStats Run() {
    trouble_ends_ = world_.now() + Millis(1500 + random_.Below(1500));
    for (const auto& node : nodes_) Tick(*node);
    MakeTrouble();
    (void)world_.RunUntil(trouble_ends_);
    Settle();
    (void)world_.RunUntil(world_.now() + Millis(5000));
    for (const auto& node : nodes_) CheckEnd(*node);
    for (const auto& node : nodes_) {
      stats_.lost += node->uplink->count(LinkCount::k_lost) +
                     node->uplink->count(LinkCount::k_burst_lost);
    }
    return stats_;
  }

 private:
  struct Flow {
    net::Path path;
    uint8_t peer = 0;
    wire::MacAddress seen;  // the neighbour's MAC, at the last look
    Time made;
    Time sent_since;  // without an answer
    Time suspected;
    Time answered;
  };
  struct Asked {
    uint8_t peer = 0;
    bool ipv6 = false;
    Time at;
    Time deadline;
  };
  struct Ping {
    uint8_t peer = 0;
    std::vector<uint8_t> answer;  // the expected one
    Time at;
  };
  struct Node final : net::FrameSink {
    std::span<uint8_t> Frame() override { return room; }
    void Send(size_t bytes, bool) override {
      if (!plugged) return;
      uplink->Send({room, room + bytes});
    }

    uint8_t number = 0;
    uint8_t incarnation = 0;
    bool plugged = true;
    wire::MacAddress mac;
    Time changed;  // moved, or was plugged in or out
    std::unique_ptr<net::Host> host;
    std::unique_ptr<Link> uplink;
    std::map<uint32_t, Flow> flows;
    std::map<net::QuestionId, Asked> asked;
    std::map<uint16_t, Ping> pings;  // without an answer, by sequence number
    testing::Answers answers;        // fragments of them
    std::unique_ptr<testing::HostFrames> frames;  // that the host keeps
    Time flooded;
    Time timer = Time::Infinite();  // of the planned event
    uint8_t room[2048];
  };

  static constexpr size_t kFlowsMax = 3;
  static constexpr uint8_t kLiar = 0x66;
  // From a doubt to the verdict, with the wire's delays.
  static constexpr Duration kVerdict = Duration::Milliseconds(35);

  static Duration Millis(uint64_t n) {
    return Duration::Milliseconds(static_cast<int64_t>(n));
  }
  static Duration Micros(uint64_t n) {
    return Duration::Microseconds(static_cast<int64_t>(n));
  }
  static wire::Gid GidOf(uint8_t n, bool ipv6) {
    return testing::GidOf(n, ipv6);
  }
  std::optional<uint16_t> Tag() const {
    return vlan_ == 0 ? std::nullopt : std::optional(vlan_);
  }
  Node& Pick() { return *nodes_[random_.Below(nodes_.size())]; }
  Node& NodeOf(uint8_t number) { return *nodes_[number - 1u]; }
  Time now() const { return world_.now(); }

  // Restarts the host, with a new MAC and without any state.
  void Incarnate(Node& node) {
    ++node.incarnation;
    node.mac = {{2, 0, 0, 0, node.incarnation, node.number}};
    node.changed = now();
    node.flows.clear();
    node.asked.clear();
    net::HostConfig config;
    config.mac = node.mac;
    config.vlan = vlan_;
    config.addresses = {{GidOf(node.number, false), 96 + 16},
                        {GidOf(node.number, true), 64}};
    config.max_neighbors = 24;
    config.seed = random_.Next();
    node.pings.clear();
    node.host.reset();
    node.frames = std::make_unique<testing::HostFrames>();
    config.keeper = node.frames.get();
    node.host = std::make_unique<net::Host>(config);
  }

  // --- The switch ------------------------------------------------------------

  void Switch(const Node& from, const std::vector<uint8_t>& frame) {
    for (const auto& node : nodes_) {
      if (node.get() != &from) Offer(*node, frame);
    }
  }
  void Offer(Node& node, const std::vector<uint8_t>& frame) {
    wire::MacAddress to;
    std::memcpy(&to, frame.data(), sizeof(to));
    if (!node.plugged || !(to.is_group() || to == node.mac)) return;
    wire::FrameView view;
    const RxVerdict shape = wire::ParseFrame(frame.data(), frame.size(), view);
    if (shape == RxVerdict::kAccept) {
      Require(node.host->IsOurVlan(view), "a packet without its tag");
      if (node.host->IsLocal(view.dst)) Arrived(view);
      return;
    }
    if (node.host->IsLocal(view.dst)) HearAnswer(node, frame);
    (void)node.frames->Give(frame, [&](const ReceivedFrame& received) {
      wire::FrameView its;
      (void)wire::ParseFrame(received.bytes.data(), received.bytes.size(), its);
      return node.host->OnFrame(its, shape, received, now(), node);
    });
    Require(node.frames->kept() <= net::Reassembly::kMaxFrames,
            "too many frames are kept");
    After(node);
  }
  // Must follow every call of a host.
  void After(Node& node) {
    net::Host::Answer answer;
    while (node.host->TakeAnswer(now(), answer)) OnAnswer(node, answer);
    const Time next = node.host->NextDeadline();
    if (next >= node.timer) return;
    node.timer = next;
    world_.At(next, [this, &node, next] {
      if (node.timer != next) return;
      node.timer = Time::Infinite();
      node.host->OnTimer(now(), node);
      Require(node.host->NextDeadline() > now(), "the timer is not done");
      After(node);
    });
  }

  // --- Flows -----------------------------------------------------------------

  // Sends along all paths, as an engine would.
  void Tick(Node& node) {
    for (auto& [id, flow] : node.flows) {
      Look(node, flow);
      if (!flow.path.IsCurrent()) flow.path.Restamp();
      uint8_t* frame = node.room;
      constexpr uint16_t kBytes = 32;
      flow.path.headers.Write(frame, kBytes);
      const size_t head = flow.path.headers.size();
      std::memset(frame + head, 0, kBytes);
      frame[head] = node.number;
      frame[head + 1] = node.incarnation;
      std::memcpy(frame + head + 4, &id, sizeof(id));
      node.Send(head + kBytes, false);
      if (now() - std::max(flow.answered, flow.suspected) > rto_) {
        flow.suspected = now();
        node.host->Suspect(*flow.path.adjacency, now(), node);
        After(node);
      }
    }
    world_.After(Millis(20), [this, &node] { Tick(node); });
  }
  // The receiver's confirmation, which does not use the wire.
  void Arrived(const wire::FrameView& view) {
    ++stats_.delivered;
    uint32_t id;
    std::memcpy(&id, view.payload + 4, sizeof(id));
    Node& sender = NodeOf(view.payload[0]);
    const uint8_t incarnation = view.payload[1];
    world_.After(link_.delay, [this, &sender, incarnation, id] {
      const auto at = sender.flows.find(id);
      if (sender.incarnation != incarnation || at == sender.flows.end()) return;
      at->second.answered = now();
      at->second.path.adjacency->Confirm(now());
    });
  }
  void Look(const Node& node, Flow& flow) {
    const net::Adjacency& adjacency = *flow.path.adjacency;
    Require(adjacency.address() == flow.path.remote,
            "an adjacency became another neighbour's");
    Require(node.host->neighbors().IsLive(flow.path.remote),
            "a neighbour in use was forgotten");
    const Node& peer = NodeOf(flow.peer);
    const bool steady = !faulty_ && IsSteady(peer, now() - kVerdict * 2) &&
                        IsSteady(node, now() - kVerdict * 2);
    Require(!steady || !(flow.seen == peer.mac) || adjacency.mac() == peer.mac,
            "a lie moved a neighbour that was there");
    flow.seen = adjacency.mac();
  }
  bool IsSteady(const Node& node, Time since) const {
    return node.plugged && node.changed < since;
  }

  // --- Pings -----------------------------------------------------------------

  // Sends a ping in fragments, over the faulty wire.
  void SendPing(Node& node) {
    const Node& peer = Pick();
    if (&peer == &node) return;
    const bool ipv6 = random_.OneIn(2);
    const auto sequence = static_cast<uint16_t>(++last_ping_);
    std::vector<uint8_t> data(1 + random_.Below(6000));
    for (uint8_t& byte : data) byte = random_.Byte();
    const wire::Gid from = GidOf(node.number, ipv6);
    const wire::Gid to = GidOf(peer.number, ipv6);
    node.pings[sequence] = {
        peer.number, testing::EchoMessage(to, from, sequence, data, true),
        now()};
    const auto bytes = static_cast<uint32_t>(8 * (20 + random_.Below(160)));
    for (auto& frame : testing::FragmentFrames(
             {.from = testing::SelfOf(node.mac, from, Tag()),
            .to = testing::SelfOf(peer.mac, to),
            .identification = sequence},
             testing::EchoMessage(from, to, sequence, data), bytes)) {
      if (node.plugged) node.uplink->Send(std::move(frame));
    }
    world_.After(Millis(20), [this, &node, sequence, sent = now()] {
      const auto at = node.pings.find(sequence);
      if (at == node.pings.end()) return;
      const Node& peer = NodeOf(at->second.peer);
      const bool quiet = peer.flooded < sent - Millis(1);
      Require(
          faulty_ || !quiet || !IsSteady(peer, sent) || !IsSteady(node, sent),
          "a ping was not answered");
      node.pings.erase(at);
    });
  }
  void HearAnswer(Node& node, const std::vector<uint8_t>& frame) {
    const auto message = node.answers.Add(frame);
    if (!message.has_value() || message->size() < 8) return;
    const auto sequence =
        static_cast<uint16_t>((*message)[6] << 8 | (*message)[7]);
    const auto at = node.pings.find(sequence);
    const uint8_t type = (*message)[0];
    // Fragments of different answers may share one identification.
    if (type == wire::kIcmpEchoReply &&
        wire::ChecksumReference(*message) != 0) {
      return;
    }
    if (at == node.pings.end() ||
        (type != wire::kIcmpEchoReply && type != wire::kIcmpv6EchoReply)) {
      return;
    }
    Require(*message == at->second.answer, "the answer to another ping");
    ++stats_.answers;
    node.pings.erase(at);
  }
  // Sends fragments that make no packet, from strangers.
  void Flood(Node& node) {
    node.flooded = now();
    const bool ipv6 = random_.OneIn(2);
    for (int i = 0; i < 300; ++i) {
      wire::Gid stranger = GidOf(random_.Byte(), ipv6);
      stranger.bytes[14] = 1 + random_.Byte() % 3;
      if (!ipv6) stranger.bytes[13] = 0;
      const std::vector<uint8_t> data(8 * (1 + random_.Below(20)));
      Offer(node,
            testing::FragmentFrame(
                {.from = testing::SelfOf({{2, 9, 9, 9, 9, 9}}, stranger, Tag()),
                 .to = testing::SelfOf(node.mac, GidOf(node.number, ipv6)),
                 .identification = static_cast<uint32_t>(random_.Below(50))},
                static_cast<uint32_t>(8 * random_.Below(30)), random_.OneIn(20),
                data));
    }
  }

  // --- Questions -------------------------------------------------------------

  void Ask(Node& node) {
    const Node& peer = Pick();
    if (&peer == &node) return;
    const bool ipv6 = random_.OneIn(2);
    const Time deadline = now() + Millis(1 + random_.Below(1500));
    const net::PathQuery query{.local = GidOf(node.number, ipv6),
                               .remote = GidOf(peer.number, ipv6)};
    const net::QuestionId id =
        node.host->Ask(query, peer.number, now(), deadline, node);
    Require(id != 0, "a question was not asked");
    node.asked[id] = {peer.number, ipv6, now(), deadline};
    After(node);
  }
  void OnAnswer(Node& node, const net::Host::Answer& answer) {
    const auto at = node.asked.find(answer.id);
    Require(at != node.asked.end(), "an answer to no question");
    const Asked asked = at->second;
    node.asked.erase(at);
    Require(answer.user == asked.peer, "the answer to another question");
    Require(now() <= asked.deadline, "an answer behind its deadline");
    if (answer.status == net::PathStatus::kNoAnswer) {
      Require(now() == asked.deadline, "given up before the deadline");
      const bool patient = now() - asked.at > Millis(100);
      const bool there = IsSteady(NodeOf(asked.peer), asked.at - kVerdict) &&
                         IsSteady(node, asked.at - kVerdict);
      Require(faulty_ || !patient || !there, "who is there was not found");
      return;
    }
    if (answer.status != net::PathStatus::kFound) {
      Require(answer.status == net::PathStatus::kNoRoom, "no way to a peer");
      return;
    }
    ++stats_.found;
    if (node.flows.size() == kFlowsMax) return;
    Flow flow;
    flow.path = answer.path;
    flow.peer = asked.peer;
    flow.seen = answer.path.adjacency->mac();
    flow.made = flow.answered = flow.suspected = now();
    node.flows[next_flow_++] = flow;
  }

  // --- Trouble ---------------------------------------------------------------

  void MakeTrouble() {
    if (now() >= trouble_ends_) return;
    Node& node = Pick();
    switch (random_.Below(16)) {
      case 0:
        Move(node);
        break;
      case 1:
        Unplug(node);
        break;
      case 2:
        if (!node.flows.empty()) node.flows.erase(node.flows.begin());
        break;
      case 3:
        for (int i = 0; i < 100; ++i) Crowd(node);
        break;
      case 4:
      case 5:
      case 6:
        if (liars_) Lie(node);
        break;
      case 7:
      case 8:
      case 9:
        SendPing(node);
        break;
      case 10:
        if (liars_) Flood(node);
        break;
      default:
        Ask(node);
    }
    world_.After(Millis(1 + random_.Below(20)), [this] { MakeTrouble(); });
  }
  void Move(Node& node) {
    Incarnate(node);
    ++stats_.moves;
    const bool announced = node.plugged && random_.OneIn(2);
    if (announced) node.host->Announce(node);
    const Time moved = now();
    world_.After(announced ? Millis(140) : Millis(400), [this, &node, moved] {
      if (faulty_ || liars_) return;
      for (const auto& other : nodes_) CheckFollowed(*other, node, moved);
    });
  }
  void CheckFollowed(const Node& other, const Node& moved, Time when) {
    if (moved.changed != when || !moved.plugged ||
        !IsSteady(other, when - Millis(400))) {
      return;
    }
    for (const auto& [id, flow] : other.flows) {
      // A flow made a moment before has not been tried yet.
      if (flow.peer != moved.number || flow.made > when - Millis(100)) continue;
      Require(flow.path.adjacency->mac() == moved.mac,
              "who has moved was not followed");
    }
  }
  void Unplug(Node& node) {
    if (!node.plugged) return;
    node.plugged = false;
    node.changed = now();
    world_.After(Millis(10 + random_.Below(1000)), [this, &node] {
      node.plugged = true;
      node.changed = now();
    });
  }
  // A hundred unknown hosts ask for us.
  void Crowd(Node& node) {
    const bool ipv6 = random_.OneIn(2);
    wire::Gid stranger = GidOf(random_.Byte(), ipv6);
    stranger.bytes[14] = 1 + random_.Byte() % 250;
    if (!ipv6) stranger.bytes[13] = 0;
    const wire::MacAddress mac{
        {2, 9, 9, random_.Byte(), random_.Byte(), random_.Byte()}};
    Offer(node, testing::AskFrame(testing::SelfOf(mac, stranger, Tag()),
                                  GidOf(node.number, ipv6)));
  }
  // Tells one host, or all, that another host's address is at the liar's MAC.
  void Lie(Node& node) {
    ++stats_.lies;
    const bool ipv6 = random_.OneIn(2);
    const wire::Gid victim = GidOf(Pick().number, ipv6);
    const auto liar =
        testing::SelfOf({{2, kLiar, kLiar, 0, 0, 1}}, victim, Tag());
    const auto self = testing::SelfOf(node.mac, GidOf(node.number, ipv6));
    std::vector<uint8_t> frame;
    switch (random_.Below(3)) {
      case 0:
        frame = testing::AnnounceFrame(liar);
        break;
      case 1:
        frame = testing::AskFrame(liar, self.gid);
        break;
      default:
        frame = testing::AnswerFrame(liar, self);
    }
    const bool to_all = random_.OneIn(2);
    for (const auto& other : nodes_) {
      if (to_all || other.get() == &node) Offer(*other, frame);
    }
  }

  // --- The end ---------------------------------------------------------------

  void Settle() {
    for (const auto& node : nodes_) {
      node->uplink->StopFaults();
      if (!node->plugged) node->changed = now();
      node->plugged = true;
    }
  }
  void CheckEnd(Node& node) {
    Require(node.asked.empty(), "a question without an answer");
    for (const auto& [id, flow] : node.flows) {
      const Node& peer = NodeOf(flow.peer);
      Require(flow.path.adjacency->mac() == peer.mac,
              "a path leads elsewhere in the end");
      Require(flow.answered > now() - Millis(100),
              "what is sent does not arrive in the end");
    }
    node.host->OnTimer(now() + net::Reassembly::kLifetime, node);
    Require(node.frames->kept() == 0, "fragments are kept forever");
  }

  World world_;
  Random random_;
  LinkConfig link_;
  Duration rto_;
  bool faulty_ = false;
  bool liars_ = false;
  uint16_t vlan_ = 0;  // of all hosts, and of the liars
  std::vector<std::unique_ptr<Node>> nodes_;
  Time trouble_ends_;
  uint32_t next_flow_ = 1;
  uint32_t last_ping_ = 0;
  NetStats stats_;
};

}  // namespace urnic::sim
