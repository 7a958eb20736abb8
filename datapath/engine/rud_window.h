#pragma once

// A RUD window (docs/design/0014-rud.md), as the engine sees it: its core, its
// peers and its contexts. It is a queue pair because it has a number, states,
// an owner and a doorbell. But it is not a RoCE queue pair: it has its own
// packets, and a packet may be for any of its peers.

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

// What a window needs besides EngineQpConfig. The tables and the memory of the
// rings outlive the window.
struct RudWindowConfig {
  uint32_t job = 0;
  uint32_t key = 0;
  uint32_t max_payload = 0;  // bytes of a packet that the link carries
  rud::SendFifo send;
  rud::ReceiveFifo receive;
  const rud::TceTables* tces = nullptr;
  rud::Task task;  // the engine, for those who revoke memory
};

// A peer: a window on this host or another one, or a group.
struct RudPeer {
  uint32_t number = 0;
  net::Path path;
  uint32_t window = 0;
  uint32_t key = 0;       // its protection key; in packets to it
  wire::Crc32c sent;      // of the addresses of packets to it
  wire::Crc32c received;  // and from it
};

// A group that the window has joined for the packets of one peer.
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
  // Releases its contexts.
  ~RudWindow() override;

  // REQUIRES: kind() is kRudWindow.
  static RudWindow& Of(Flow& flow) { return static_cast<RudWindow&>(flow); }

  static constexpr uint32_t kPeerBits = 16;
  static constexpr uint32_t kMaxPeers = 1u << kPeerBits;
  static constexpr uint32_t kMaxGroups = 256;

  // --- Control ---------------------------------------------------------------

  // Adds a window to which this one may send, and from which it accepts
  // packets. Packets from others are dropped. Returns its number for
  // urnic_rud_send.peer. 0: there are kMaxPeers. A number is not used again
  // soon, so that answers to a removed peer do not go to the next one. If
  // `path` leads to a group, the window may only send to it. REQUIRES:
  // FindPeerBy() finds no peer with this window and these addresses.
  uint32_t AddPeer(const net::Path& path, uint32_t window, uint32_t key);
  // Also leaves the groups that the window has joined for this peer. False: no
  // peer has this number.
  bool RemovePeer(uint32_t number);
  // From now on the window accepts the peer's packets to this group.
  // Network::JoinGroup() makes them arrive. False: there are kMaxGroups.
  // REQUIRES: FindPeer(peer) finds one, and FindGroup() finds no group with its
  // address and window.
  bool JoinGroup(const wire::Gid& address, uint32_t peer,
                 const rud::Membership& as);
  bool LeaveGroup(const wire::Gid& address, uint32_t peer);
  // For any peer.
  bool IsInGroup(const wire::Gid& address) const;
  std::vector<wire::Gid> GroupsWith(uint32_t peer) const;
  // Nullopt: none is free.
  std::optional<rud::ContextId> AcquireContext();
  // False: it does not belong to the window.
  bool ReleaseContext(rud::ContextId id);
  // Null: the window was never bound to handlers. `indices`: of its receive
  // FIFO.
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
  // Null: the window `number` at these addresses is not a peer. Looks at the
  // peer of the last packet first, which is usually the same: 100 instructions
  // less.
  const RudPeer* FindPeerBy(const wire::Gid& local, const wire::Gid& remote,
                            uint32_t number) {
    const RudPeer* const peer = last_heard_;
    if (peer != nullptr && peer->window == number &&
        peer->path.remote == remote && peer->path.local == local) {
      return peer;
    }
    return SearchPeer(local, remote, number);
  }

  // Null: the window has not joined this group for this sender.
  const RudGroup* FindGroup(const wire::Gid& address, const wire::Gid& remote,
                            uint32_t number) const;

  // Handles the packets of a burst, and executes their effects. Calls
  // `on_verdict(RxVerdict)` for each packet, in order. `placements`: memory
  // that it may use.
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
  // REQUIRES: a Task::Use of task() exists now, and until the payload of the
  // packets has been copied.
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

  // Identifies a peer, or a group and its source.
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
  QpState target_ = QpState::kReset;  // as set by Modify()
  bool told_ = false;                 // the owner knows that it has failed
  std::vector<std::unique_ptr<RudPeer>> peers_;
  std::unordered_map<Address, RudPeer*, AddressHash> peers_by_address_;
  const RudPeer* last_heard_ = nullptr;  // of peers_
  // By the address of the group, and address and window of the source.
  std::unordered_map<Address, RudGroup, AddressHash> groups_;
  uint32_t peers_added_ = 0;
  std::vector<uint32_t> owned_;  // contexts
  std::unique_ptr<RudWakeups> wakeups_;
};

}  // namespace urnic
