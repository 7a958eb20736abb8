#pragma once

// An adapter window of RUD (docs/design/0014-rud.md), as the engine sees it:
// its core, its peers, its contexts. It is a queue pair, because it has a
// number, states, an owner and a doorbell; but not one of RoCE: its packets are
// RUD's, and each names its peer.

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "datapath/engine/engine_qp.h"
#include "datapath/engine/flow_sink.h"
#include "datapath/engine/rud_wakeups.h"
#include "transport/net/path.h"
#include "transport/net/path_users.h"
#include "transport/rud/task_views.h"
#include "transport/rud/window.h"
#include "transport/wire/rud.h"

namespace urnic {

// Of EngineQpConfig. Pool and tables outlive the window, and so does the memory
// of the rings.
struct RudWindowConfig {
  uint32_t job = 0;
  uint32_t key = 0;
  uint32_t max_payload = 0;  // bytes of a packet that the link carries
  rud::SendFifo send;
  rud::ReceiveFifo receive;
  const rud::TceTables* tces = nullptr;
  rud::Task task;  // the engine: who takes memory away from it must know
};

// A window of another host, or of this one, that a window talks to.
struct RudPeer {
  uint32_t number = 0;
  net::Path path;
  uint32_t window = 0;
  uint32_t key = 0;       // its protection key, which packets to it bear
  wire::Crc32c sent;      // of the addresses of packets to it
  wire::Crc32c received;  // and from it
};

// A group of which a window is a member, for the packets of one peer.
struct RudGroup {
  wire::Gid address;
  uint32_t peer = 0;
  rud::Membership as;
  wire::Crc32c received;  // of the addresses of its packets
};

// Created and destroyed through QpTable. Thread: the token holder.
class RudWindow final : public EngineQp, public net::PathUsers {
 public:
  // `contexts` outlives the window.
  RudWindow(const EngineQpConfig& config, const RudWindowConfig& window,
            rud::ContextPool* contexts);
  // Gives back its contexts.
  ~RudWindow() override;

  // REQUIRES: kind() is kRudWindow.
  static RudWindow& Of(Flow& flow) { return static_cast<RudWindow&>(flow); }

  static constexpr uint32_t kPeerBits = 16;
  static constexpr uint32_t kMaxPeers = 1u << kPeerBits;
  static constexpr uint32_t kMaxGroups = 256;

  // --- Control ---------------------------------------------------------------

  // A window that this one may talk to: packets from others are dropped.
  // Returns its number for urnic_rud_send.peer, which is not used again soon:
  // answers to the one before must not go to the next. 0: there are kMaxPeers.
  // A path to a group leads to windows that have joined it, and none of them is
  // heard by it. REQUIRES: FindPeerBy() finds none with this window and these
  // addresses.
  uint32_t AddPeer(const net::Path& path, uint32_t window, uint32_t key);
  // Also from the groups in which the window hears it. False: there is none
  // with this number.
  bool RemovePeer(uint32_t number);
  // From now on the window takes the peer's packets to this group. False: there
  // are kMaxGroups. Network::JoinGroup() brings the packets here. REQUIRES:
  // FindPeer(peer), and FindGroup() finds none with its address and window.
  bool JoinGroup(const wire::Gid& address, uint32_t peer,
                 const rud::Membership& as);
  bool LeaveGroup(const wire::Gid& address, uint32_t peer);
  // Of any peer.
  bool IsInGroup(const wire::Gid& address) const;
  std::vector<wire::Gid> GroupsWith(uint32_t peer) const;
  // Nullopt: none is free.
  std::optional<rud::ContextId> AcquireContext();
  // False: it is not the window's.
  bool ReleaseContext(rud::ContextId id);
  // Whom it wakes; null: nobody so far. `indices`: of its receive FIFO.
  RudWakeups* wakeups() { return wakeups_.get(); }
  RudWakeups& MakeWakeups(const urnic_queue_indices* indices) {
    wakeups_ = std::make_unique<RudWakeups>(indices);
    return *wakeups_;
  }

  // --- Packets --------------------------------------------------------------

  // Null: no such peer.
  RudPeer* FindPeer(uint32_t number) {
    const uint32_t index = number % kMaxPeers;
    if (index >= peers_.size()) return nullptr;
    RudPeer* const peer = peers_[index].get();
    return peer != nullptr && peer->number == number ? peer : nullptr;
  }
  // Null: the window `number` at these addresses is not a peer. The next packet
  // is usually from the same one as the last: 100 instructions less.
  const RudPeer* FindPeerBy(const wire::Gid& local, const wire::Gid& remote,
                            uint32_t number) {
    const RudPeer* const peer = last_heard_;
    if (peer != nullptr && peer->window == number &&
        peer->path.remote == remote && peer->path.local == local) {
      return peer;
    }
    return SearchPeer(local, remote, number);
  }

  // Null: the window does not take packets of this sender to this group.
  const RudGroup* FindGroup(const wire::Gid& address, const wire::Gid& remote,
                            uint32_t number) const;

  // Handles the packets of a burst, and executes their effects.
  // `on_verdict(RxVerdict)` is called for each, in order.
  // `placements`: memory for them, until they are executed.
  template <typename F>
  FlowResult OnBurst(std::span<const rud::RxPacket> packets,
                     std::span<Placement> placements, FlowSink& sink,
                     F&& on_verdict) {
    const rud::Task::Use use(task_);
    Burst<F> burst{core_, sink, on_verdict, placements};
    core_.OnBurst(packets, burst);
    if (wakeups_ != nullptr && core_.TakeBegun()) wakeups_->OnBegun();
    burst.Execute();
    core_.FinishBurst();
    return Result(sink.now());
  }
  // The payload of the packets must be copied while a use of task() exists that
  // began before.
  uint32_t Transmit(std::span<rud::TxPacket> packets) {
    return core_.Transmit(packets);
  }
  const rud::Task& task() const { return task_; }
  uint32_t max_payload() const { return core_.config().max_payload; }
  void OnGatherFault(const rud::TxPacket& packet) {
    core_.OnGatherFault(packet);
  }

  // --- As a queue pair and a flow -------------------------------------------

  const net::Path* common_path() const override { return nullptr; }
  FlowResult OnTimer(Time now, FlowSink& sink) override;
  FlowResult Settle(FlowSink& sink) override { return SettleAt(sink.now()); }
  FlowResult Settle(TracedSink& sink) override;

  // REQUIRES: not to RESET. A window that has failed stays so.
  FlowResult Modify(QpState target, const QpConfig& config,
                    FlowSink& sink) override;
  void Reconfigure(const QpConfig& config) override { config_ = config; }
  const QpConfig& config() const override { return config_; }
  RequesterCounters counters() const override { return {}; }
  void DescribeWork(Time now, FactWriter& facts) const override;
  void DescribeFailure(Failure&) const override {}
  // Windows have no images yet.
  void AppendImage(Time, std::string&) const override {}

  void ForEachPath(const std::function<void(net::Path&)>& visit) override;

 private:
  static constexpr uint32_t kVariants = 0xffff;

  // Of a peer.
  struct Address {
    wire::Gid local;
    wire::Gid remote;
    uint32_t window = 0;
    friend bool operator==(const Address&, const Address&) = default;
  };
  struct AddressHash {
    size_t operator()(const Address& address) const;
  };
  static Address AddressOf(const RudPeer& peer) {
    return {peer.path.local, peer.path.remote, peer.window};
  }

  template <typename F>
  struct Burst {
    void Place(const Placement& placement) {
      if (__builtin_expect(count == placements.size(), 0)) Execute();
      placements[count++] = placement;
    }
    void Count(RxVerdict verdict) {
      sink.Count(verdict);
      on_verdict(verdict);
    }
    void Execute() {
      for (const Placement& placement : placements.first(count)) {
        if (!sink.ExecuteAlone(placement)) core.OnPlacementFault(placement);
      }
      count = 0;
    }

    rud::Window& core;
    FlowSink& sink;
    F& on_verdict;
    const std::span<Placement> placements;
    uint32_t count = 0;
  };

  const RudPeer* SearchPeer(const wire::Gid& local, const wire::Gid& remote,
                            uint32_t number);
  FlowResult SettleAt(Time now);
  FlowResult Result(Time now);

  rud::ContextPool& contexts_;
  const rud::Task task_;
  rud::Window core_;
  QpConfig config_;
  QpState target_ = QpState::kReset;  // as Modify() has set it
  bool told_ = false;                 // the owner, that it has failed
  std::vector<std::unique_ptr<RudPeer>> peers_;
  std::unordered_map<Address, RudPeer*, AddressHash> peers_by_address_;
  const RudPeer* last_heard_ = nullptr;  // of peers_
  // By the group's address and the sender's.
  std::unordered_map<Address, RudGroup, AddressHash> groups_;
  uint32_t peers_added_ = 0;
  std::vector<uint32_t> owned_;  // contexts
  std::unique_ptr<RudWakeups> wakeups_;
};

}  // namespace urnic
