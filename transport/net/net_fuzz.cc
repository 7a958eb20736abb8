// Any sequence of operations on a host: valid, invented and altered frames;
// calls with any arguments; time; a port without room. The invariants of
// README.md are checked after each operation. When all paths are dropped and
// time passes, the host comes to rest, and each question has been answered.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/support/host_wire.h"
#include "transport/base/check.h"
#include "transport/net/host.h"

namespace urnic::net {
namespace {

using testing::FrameBytes;
using testing::GidOf;
using testing::HostSink;
using testing::Input;
using testing::MacOf;
using testing::SelfOf;

constexpr int kOperationMax = 400;
constexpr uint32_t kMtu = 4200;
constexpr uint8_t kAddresses = 10;  // the first two are ours, some of the time
// Without room for frames, a neighbour is probed every 10 ms.
constexpr uint32_t kMaxSteps = 60000;

// A path that is held, and what is expected of it.
struct Held {
  Path path;
  wire::Gid address;  // the neighbour's
  wire::MacAddress mac;
  uint32_t generation = 0;
};

class Fuzzer {
 public:
  explicit Fuzzer(Input input) : in_(input) {
    HostConfig config;
    config.mac = MacOf(1);
    config.vlan = in_.Below(4) == 0 ? 7 : 0;
    config.mtu = kMtu;
    config.addresses = AnyAddresses();
    config.max_neighbors = 1 + in_.Below(8);
    config.max_questions = 1 + in_.Below(16);
    config.max_groups = 1 + in_.Below(4);
    config.max_path_mtus = 1 + in_.Below(3);
    config.seed = in_.Word();
    vlan_ = config.vlan;
    max_neighbors_ = config.max_neighbors;
    host_ = std::make_unique<Host>(config);
  }

  void Run() {
    for (int n = 0; n < kOperationMax && !in_.empty(); ++n) {
      searching_.clear();
      for (const Held& held : held_) {
        if (StateOf(held.address) == NeighborState::kSearch) {
          searching_.insert(held.path.adjacency.get());
        }
      }
      Operate();
      Check();
    }
    End();
  }

 private:
  NeighborState StateOf(const wire::Gid& address) const {
    return host_->neighbors().StateOf(address, now_);
  }
  wire::Gid AnyGid() {
    const auto n = static_cast<uint8_t>(1 + in_.Below(kAddresses));
    const uint32_t how = in_.Below(8);
    wire::Gid gid = GidOf(n, (how & 1) != 0);
    if (how == 6) gid.bytes[14] = 9;  // on another link
    if (how == 7) gid.bytes[7] = 9;
    return gid;
  }
  wire::MacAddress AnyMac() {
    return MacOf(static_cast<uint8_t>(1 + in_.Below(6)));
  }
  std::optional<uint16_t> Tci() const {
    return vlan_ == 0 ? std::nullopt : std::optional<uint16_t>(vlan_);
  }
  std::vector<LocalAddress> AnyAddresses() {
    std::vector<LocalAddress> list;
    const uint32_t how = in_.Byte();
    if ((how & 1) == 0) list.push_back({GidOf(1), 96 + 24});
    if ((how & 2) == 0) list.push_back({GidOf(1, true), 64});
    if ((how & 4) != 0) list.push_back({GidOf(2), 96});
    if ((how & 8) != 0) list.push_back({GidOf(2, true), 0});
    return list;
  }
  PathQuery AnyQuery() {
    PathQuery query;
    query.local =
        GidOf(static_cast<uint8_t>(1 + in_.Below(2)), in_.Below(2) != 0);
    query.remote = AnyGid();
    query.traffic_class = in_.Byte();
    query.roce_v1 = in_.Below(4) == 0;
    return query;
  }

  void Operate() {
    switch (in_.Below(16)) {
      case 0:
        return Give(AnyBytes());
      case 1:
      case 2:
      case 3:
      case 4:
        return Give(AnyFrame());
      case 5:
        return Give(Altered(AnyFrame()));
      case 6:
      case 7:
        return Pass(Duration::Microseconds(in_.Word() & 0x3ffff));
      case 8:
        return Pass(Duration::Seconds(in_.Below(64)));
      case 9:
      case 10:
        return Ask();
      case 11:
        return Use();
      case 12:
        return Call();
      case 13:
        sink_.full = in_.Below(3) == 0;
        return;
      case 14:
        if (!held_.empty()) held_.erase(held_.begin() + PickHeld());
        return;
      default:
        return TakeAnswers();
    }
  }
  ptrdiff_t PickHeld() {
    return static_cast<ptrdiff_t>(in_.Byte() % held_.size());
  }

  // --- Frames ----------------------------------------------------------------

  FrameBytes AnyBytes() {
    FrameBytes frame(in_.Byte());
    for (uint8_t& byte : frame) byte = in_.Byte();
    return frame;
  }
  FrameBytes AnyFrame() {
    const auto self = SelfOf(AnyMac(), AnyGid(), Tci());
    const wire::Gid other = AnyGid();
    if (self.gid.is_ipv4() != other.is_ipv4()) {
      return testing::AnnounceFrame(self);
    }
    switch (in_.Below(4)) {
      case 0:
        return testing::AskFrame(self, other);
      case 1:
        return testing::AnswerFrame(self, SelfOf(MacOf(1), other));
      case 2:
        return testing::AnnounceFrame(self);
      default:
        return testing::TooBigFrame({.router_mac = self.mac,
                                     .mac = MacOf(1),
                                     .router = self.gid,
                                     .to = other,
                                     .quoted_src = other,
                                     .quoted_dst = AnyGid(),
                                     .mtu = in_.Word() & 0x1fff});
    }
  }
  FrameBytes Altered(FrameBytes frame) {
    const uint32_t changes = in_.Below(4);
    for (uint32_t n = 0; n < changes; ++n) {
      frame[in_.Byte() % frame.size()] = in_.Byte();
    }
    if (in_.Below(4) == 0) frame.resize(in_.Byte() % frame.size());
    return frame;
  }
  void Give(const FrameBytes& frame) {
    wire::FrameView view;
    const RxVerdict shape = wire::ParseFrame(frame.data(), frame.size(), view);
    if (shape == RxVerdict::kAccept) return;
    if (const auto words = testing::WordsOf(frame);
        words.has_value() && words->vlan == vlan_ && words->info.solicited) {
      for (const Held& held : held_) {
        // A neighbour that answers from its known MAC is not silent.
        if (held.address == words->info.owner &&
            held.mac == words->info.owner_mac) {
          unanswered_.erase(held.address);
        }
      }
    }
    (void)host_->OnFrame(view, shape, {frame}, now_, sink_);
  }

  // --- Calls -----------------------------------------------------------------

  void Ask() {
    const Time deadline = now_ + Duration::Milliseconds(in_.Word() & 0xfff);
    const QuestionId id =
        host_->Ask(AnyQuery(), in_.Byte(), now_, deadline, sink_);
    if (id == 0) return;
    URNIC_CHECK(!open_.contains(id));
    open_[id] = deadline;
  }
  void TakeAnswers() {
    Host::Answer answer;
    while (host_->TakeAnswer(now_, answer)) {
      URNIC_CHECK(open_.erase(answer.id) == 1);
      Keep(answer.status, answer.path);
    }
  }
  void Keep(PathStatus status, const Path& path) {
    if (status != PathStatus::kFound) return;
    URNIC_CHECK(path.mtu <= kMtu);
    URNIC_CHECK(path.mtu >= PathMtuCache::kFloorIpv4);
    URNIC_CHECK(path.IsCurrent());
    URNIC_CHECK(path.headers.is_tagged() == (vlan_ != 0));
    if (path.adjacency == nullptr || held_.size() == 16) return;
    held_.push_back({path, path.adjacency->address(), path.adjacency->mac(),
                     path.generation});
    URNIC_CHECK(path.headers.dst_mac() == held_.back().mac);
  }
  void Use() {
    if (held_.empty()) {
      Path path;
      return Keep(host_->Find(AnyQuery(), now_, path), path);
    }
    const Held& held = held_[static_cast<size_t>(PickHeld())];
    if (in_.Below(2) == 0) {
      host_->Suspect(*held.path.adjacency, now_, sink_);
    } else {
      held.path.adjacency->Confirm(now_);
    }
  }
  void Call() {
    Route route{.prefix = AnyGid(), .gateway = AnyGid()};
    route.prefix_bits = in_.Byte();
    switch (in_.Below(7)) {
      case 0:
        return host_->SetAddresses(AnyAddresses());
      case 1:
        return host_->Announce(sink_);
      case 2:
        (void)host_->AddRoute(route);
        return;
      case 3:
        if (in_.Below(2) == 0) (void)host_->SetRoutes({});
        (void)host_->RemoveRoute(route);
        return;
      case 4:
        (void)host_->JoinGroup(AnyGroup(), now_, sink_);
        return;
      case 5:
        return host_->LeaveGroup(AnyGroup(), now_, sink_);
      default:
        if (open_.empty()) return;
        auto at = open_.begin();
        std::advance(at, in_.Byte() % open_.size());
        host_->Cancel(at->first);
        open_.erase(at);
    }
  }
  wire::Gid AnyGroup() {
    return wire::Gid::FromIpv4(0xe1000000u + in_.Below(6));
  }
  void Pass(Duration time) {
    const Time end = now_ + time;
    for (uint32_t i = 0; host_->NextDeadline() <= end; ++i) {
      URNIC_CHECK(i < kMaxSteps);
      now_ = std::max(now_, host_->NextDeadline());
      host_->OnTimer(now_, sink_);
      URNIC_CHECK(now_ < host_->NextDeadline());
      Check();
    }
    now_ = end;
  }

  // --- Invariants ------------------------------------------------------------

  void Check() {
    Listen();
    URNIC_CHECK(host_->neighbors().size() <= max_neighbors_);
    host_->neighbors().CheckInvariants();
    for (Held& held : held_) {
      const Adjacency& adjacency = *held.path.adjacency;
      URNIC_CHECK(adjacency.address() == held.address);
      URNIC_CHECK(host_->neighbors().IsLive(held.address));
      const bool moved = adjacency.generation() != held.generation;
      URNIC_CHECK(moved == !held.path.IsCurrent());
      URNIC_CHECK(moved || adjacency.mac() == held.mac);
      if (!moved) continue;
      // It was silent, or was being searched for.
      URNIC_CHECK(was_silent_.contains(held.address) ||
                  searching_.contains(&adjacency) ||
                  StateOf(held.address) == NeighborState::kSearch);
      held.path.Restamp();
      URNIC_CHECK(held.path.headers.dst_mac() == adjacency.mac());
      held.mac = adjacency.mac();
      held.generation = adjacency.generation();
    }
    was_silent_.clear();
    for (const Held& held : held_) {
      if (StateOf(held.address) == NeighborState::kSearch) {
        searching_.insert(held.path.adjacency.get());
      }
    }
  }
  // All that the host sends is well-formed, in its VLAN and from its MAC.
  void Listen() {
    for (const FrameBytes& frame : sink_.Take()) {
      wire::FrameView view;
      const RxVerdict shape =
          wire::ParseFrame(frame.data(), frame.size(), view);
      URNIC_CHECK(host_->IsOurVlan(view));
      URNIC_CHECK(view.eth->src == MacOf(1));
      const auto words = testing::WordsOf(frame);
      URNIC_CHECK(shape != RxVerdict::kArp || words.has_value());
      if (!words.has_value() || words->to.is_group() ||
          words->info.kind != wire::NeighborKind::kSolicit) {
        continue;
      }
      if (++unanswered_[words->info.asked] >= NeighborCache::kProbes) {
        was_silent_.insert(words->info.asked);
      }
    }
    for (const auto& [address, probes] : unanswered_) {
      if (probes >= NeighborCache::kProbes) was_silent_.insert(address);
    }
  }

  void End() {
    TakeAnswers();
    held_.clear();
    sink_.full = false;
    Pass(Duration::Seconds(1000));
    URNIC_CHECK(host_->NextDeadline().IsInfinite());
    TakeAnswers();
    URNIC_CHECK(open_.empty());
  }

  struct Less {
    bool operator()(const wire::Gid& a, const wire::Gid& b) const {
      return a.bytes < b.bytes;
    }
  };

  Input in_;
  Time now_ = Time::FromNs(1000000000);
  uint16_t vlan_ = 0;
  uint32_t max_neighbors_ = 0;
  std::unique_ptr<Host> host_;
  HostSink sink_;
  std::map<QuestionId, Time> open_;
  std::vector<Held> held_;
  // Probes since the last answer.
  std::map<wire::Gid, uint32_t, Less> unanswered_;
  std::set<wire::Gid, Less> was_silent_;
  std::set<const Adjacency*> searching_;
};

}  // namespace
}  // namespace urnic::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const urnic::testing::Input input(data, size);
  std::make_unique<urnic::net::Fuzzer>(input)->Run();
  return 0;
}
