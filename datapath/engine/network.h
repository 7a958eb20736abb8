#pragma once

// A network that a NIC belongs to: our identity in it (addresses, P_Keys), the
// paths to others (neighbours, routes, groups, address handles), and the
// objects that peers name by number (queue pairs, shared receive queues, keys).
// It knows nothing of ports, bursts or completions; an engine runs it.
//
// A NIC has one network: the untagged one, or that of its port's VLAN.
//
// Thread: the holder of the engine's token, inside a ControlScope unless said
// otherwise. Off the packet path, except qps(), mrs(), address_handles(),
// groups(), FindXrcRing() and host().IsLocal().

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/engine/address_table.h"
#include "datapath/engine/groups.h"
#include "datapath/engine/gsi.h"
#include "datapath/engine/network_config.h"
#include "datapath/engine/number_table.h"
#include "datapath/engine/roce_qp.h"
#include "datapath/engine/shared_receive_queue.h"
#include "datapath/engine/transmit_queue.h"
#include "ras/metrics/counters.h"
#include "transport/base/frame_keeper.h"
#include "transport/base/lessor.h"
#include "transport/base/permutation.h"
#include "transport/iwarp/options/options.h"
#include "transport/mem/mr_table.h"
#include "transport/net/host.h"
#include "transport/net/path_users.h"
#include "transport/net/tcp_reports.h"

namespace urnic {

namespace rud {
class ContextPool;
struct Context;
}  // namespace rud
class RudWindow;  // datapath/engine/rud_window.h

// Translates the status of a path. INVALID_ARGUMENT: IPv4 and IPv6 mixed;
// NOT_FOUND: the source is not our address; UNAVAILABLE: no route;
// DEADLINE_EXCEEDED: no answer; RESOURCE_EXHAUSTED: too many neighbours or
// questions.
absl::Status ToStatus(net::PathStatus status);

class Network {
 public:
  // All outlive the network. It counts in `counters`.
  Network(const NetworkConfig& config, TransmitQueue* tx, FrameKeeper* keeper,
          EngineCounters* counters);
  // REQUIRES: no queue pair is left.
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // --- Numbers ---------------------------------------------------------------

  mem::MrTable& mrs() { return mrs_; }
  // The queue pairs of RoCE, by the numbers in their packets.
  NumberTable<RoceQp>& qps() { return qps_; }
  const NumberTable<RoceQp>& qps() const { return qps_; }
  // The queue pairs of iWARP. Only programs see their numbers, and no packet
  // contains them. So they are not leased, and may be equal to numbers of RoCE.
  NumberTable<EngineQp>& iwarp_qps() { return iwarp_qps_; }
  const NumberTable<EngineQp>& iwarp_qps() const { return iwarp_qps_; }
  NumberTable<SharedReceiveQueue>& srqs() { return srqs_; }
  // Windows of RUD, by the numbers in their packets.
  NumberTable<RudWindow>& rud_windows() { return rud_windows_; }
  // The contexts of all windows. Allocated when it is first asked for.
  rud::ContextPool& rud_contexts();
  // The RNIC has recovered: packets sent before that match no context any more.
  // REQUIRES: there are no windows.
  void OnRecovery();

  // iWARP. The connection key is secret: initial sequence numbers depend on it.
  bool serves_iwarp() const { return iwarp_; }
  const iwarp::Options& iwarp_options() const { return iwarp_options_; }
  const ConnectionLimits& connection_limits() const {
    return connection_limits_;
  }
  const NumberKey& connection_key() const { return connection_key_; }

  // `config.number` is ignored: the network draws one. Null: there are max_srqs
  // queues, or no number is left or can be leased.
  SharedReceiveQueue* CreateSrq(const SharedReceiveQueue& config);
  // REQUIRES: no queue pair uses it, except XRC queue pairs, which stop using
  // it.
  void DestroySrq(SharedReceiveQueue* srq);
  // The ring that an XRC request names, if the queue pair may use it.
  RecvRing* FindXrcRing(const RoceQp& qp, const RxPacket& packet) const;

  // --- Our identity ----------------------------------------------------------

  const net::Host& host() const { return host_; }
  // Handles a frame that belongs to no queue pair: see net::Host::OnFrame().
  RxVerdict OnFrame(const wire::FrameView& view, RxVerdict shape,
                    const ReceivedFrame& frame, Time now);

  // Sets our addresses. A path from a removed address remains, and works again
  // when the address is back. Meanwhile its packets are lost (tx_source_gone),
  // as on a host without the address: requests of RC fail after their retries,
  // and datagrams complete but do not arrive. Packets to a removed address get
  // the verdict kNotForUs. Groups stay joined. New addresses are announced.
  void SetAddresses(std::vector<net::LocalAddress> addresses, Time now);
  // Announces our addresses to all neighbours. Call it when the port comes up.
  void Announce() { host_.Announce(*tx_); }

  // QP1: the handlers of management datagrams by class, and sending.
  GsiPort& gsi() { return gsi_; }
  const GsiPort& gsi() const { return gsi_; }
  // Processes a datagram for QP1 at one of our addresses.
  RxVerdict OnManagementPacket(const wire::FrameView& view,
                               const RxPacket& packet, Time now);

  // --- Paths to others -------------------------------------------------------

  // Finds a path from what is known now, without asking.
  net::PathStatus FindPath(const net::PathQuery& query, Time now,
                           net::Path& out) {
    return host_.Find(query, now, out);
  }
  // Asks for the path to a GID. `waiter` is called once, by the holder of the
  // token, possibly within this call. It gets kNoAnswer when `timeout` has
  // passed. Returns 0 if there are too many questions; then `waiter` is not
  // called.
  net::QuestionId Ask(const net::PathQuery& query, net::PathWaiter* waiter,
                      Time now, Duration timeout);
  // Cancels the question: `waiter` will not be called.
  void Cancel(net::QuestionId id) { host_.Cancel(id); }
  // Packets along the path were not answered in time.
  void Suspect(const net::Path& path, Time now);
  // As net::Host: takes the datagram of a frame for which OnFrame() has
  // returned kRudFragments.
  net::Host::Datagram TakeDatagram(std::span<uint8_t> out) {
    return host_.TakeDatagram(out);
  }
  uint32_t DrawIdentification() { return host_.DrawIdentification(); }

  // The path back to the sender of a frame that we are about to answer. The
  // sender's MAC is remembered as if it had asked for ours.
  net::Path PathBack(const wire::FrameView& view, Time now);
  // Call this when a queue pair, or another user, starts to use the path. It
  // takes over what has changed since the path was found: its source may have
  // been removed, or its route may have changed.
  void Adopt(net::Path& path, Time now);
  // From now on the paths of `users` change like those of queue pairs: see
  // SetAddresses() and SetRoutes(). REQUIRES: RemovePathUsers() before the end
  // of `users` or of the network.
  void AddPathUsers(net::PathUsers* users) { path_users_.push_back(users); }
  void RemovePathUsers(net::PathUsers* users) {
    std::erase(path_users_, users);
  }

  // A connection has found that packets of more than `mtu` bytes do not reach
  // `remote`. Existing paths do not change; paths found from now on have this
  // MTU.
  void LearnPathMtu(const wire::Gid& remote, uint32_t mtu, Time now);
  // A TCP segment from `peer` had no finished checksum.
  [[gnu::cold]] void TellOfUnfinishedChecksum(const wire::Gid& peer) const;
  // Reports of routers about TCP segments go to `reports`, inside OnFrame().
  // Null: they are ignored. REQUIRES: null before the end of `reports`.
  void ReportTcpTo(net::TcpReports* reports) { tcp_reports_ = reports; }

  // Sets the routes. Some paths of connected queue pairs, address handles and
  // other users may now lead through another neighbour. Such a path changes
  // when the new neighbour has answered. A path that has no route any more does
  // not change. REQUIRES: each route is valid, and a net::RouteTable has room
  // for all
  void SetRoutes(std::span<const net::Route> routes, Time now);

  // Creates an address handle. Returns its number for urnic_sq_wqe.to, for
  // queue pairs of this protection domain; 0: there are too many
  // (AddressTable).
  uint32_t CreateAh(const net::Path& path, uint32_t pd, Time now);
  void DestroyAh(uint32_t number) { address_handles_.Remove(number); }
  const AddressTable& address_handles() const { return address_handles_; }

  // Joins a queue pair to a group; a second call has no effect. Routers and
  // switches are told (IGMP, MLD) when the first queue pair joins, when they
  // ask, and when the last one leaves. Errors: those of GroupsOf::Join().
  absl::Status JoinGroup(RoceQp& qp, const wire::Gid& group, Time now) {
    return JoinGroupIn(groups_, qp, group, now);
  }
  // False: the queue pair has not joined.
  bool LeaveGroup(RoceQp& qp, const wire::Gid& group, Time now) {
    return LeaveGroupIn(groups_, qp, group, now);
  }
  void LeaveAllGroups(RoceQp& qp, Time now) {
    LeaveAllGroupsIn(groups_, qp, now);
  }
  const Groups& groups() const { return groups_; }
  // The same for windows of RUD.
  absl::Status JoinGroup(RudWindow& window, const wire::Gid& group, Time now) {
    return JoinGroupIn(rud_groups_, window, group, now);
  }
  bool LeaveGroup(RudWindow& window, const wire::Gid& group, Time now) {
    return LeaveGroupIn(rud_groups_, window, group, now);
  }
  void LeaveAllGroups(RudWindow& window, Time now) {
    LeaveAllGroupsIn(rud_groups_, window, now);
  }
  const RudGroups& rud_groups() const { return rud_groups_; }

  // --- Time ------------------------------------------------------------------

  // When OnTimer() is due. Call UpdateDeadline() after calls of a handler of
  // QP1 from outside, which may change its deadline.
  Time next_deadline() const { return deadline_; }
  void UpdateDeadline();
  void OnTimer(Time now);

 private:
  template <typename Table, typename Member>
  absl::Status JoinGroupIn(Table& table, Member& member, const wire::Gid& group,
                           Time now);
  template <typename Table, typename Member>
  bool LeaveGroupIn(Table& table, Member& member, const wire::Gid& group,
                    Time now);
  template <typename Table, typename Member>
  void LeaveAllGroupsIn(Table& table, Member& member, Time now);
  // Passes answers to their waiters, and counts what the host has given up.
  void DeliverAnswers(Time now);
  // Counts the path MTUs that have shrunk, and reports them.
  void TellOfMtus();

  // All paths that wait for an answer of the same new next hop.
  class Detour final : public net::PathWaiter {
   public:
    Detour(Network* network, const wire::Gid& next_hop)
        : network_(network), next_hop_(next_hop) {}
    void OnPath(net::PathStatus status, const net::Path& path) override {
      network_->EndDetour(*this, status, path);
    }
    const wire::Gid& next_hop() const { return next_hop_; }

   private:
    Network* const network_;
    const wire::Gid next_hop_;
  };
  // Visits the paths of connected queue pairs, address handles, and
  // path_users_.
  template <typename F>
  void ForEachPath(F&& f);
  // If the path now leads through another neighbour, asks for that neighbour.
  void FollowRoute(const net::Path& path, Time now);
  // Ends `detour`. If the neighbour has answered, the paths of `detour` lead
  // through it from now on.
  void EndDetour(const Detour& detour, net::PathStatus status,
                 const net::Path& path);

  TransmitQueue* const tx_;
  EngineCounters* const counters_;
  const std::function<void(const net::PathMtuCache::Change&)> on_path_mtu_;
  const std::function<void(const wire::Gid&)> on_unfinished_checksum_;
  const bool iwarp_;
  const iwarp::Options iwarp_options_;
  const ConnectionLimits connection_limits_;
  const NumberKey connection_key_;
  const uint32_t mr_entries_;
  void* mr_memory_ = nullptr;  // behind mrs_
  LocalLessor own_numbers_;
  mem::MrTable mrs_;
  NumberTable<RoceQp> qps_;
  LocalLessor iwarp_numbers_;
  NumberTable<EngineQp> iwarp_qps_;
  NumberTable<SharedReceiveQueue> srqs_;
  NumberTable<RudWindow> rud_windows_;
  const uint64_t rud_seed_;
  const uint32_t rud_context_count_;
  std::vector<rud::Context> rud_storage_;
  std::unique_ptr<rud::ContextPool> rud_contexts_;
  AddressTable address_handles_;
  std::vector<net::PathUsers*> path_users_;
  net::TcpReports* tcp_reports_ = nullptr;
  Groups groups_;
  RudGroups rud_groups_;
  net::Host host_;
  GsiPort gsi_;
  std::vector<std::unique_ptr<Detour>> detours_;
  Time deadline_ = Time::Infinite();      // the earliest of host_ and gsi_
  std::unique_ptr<uint8_t[]> null_sink_;  // for writes to null regions
};

}  // namespace urnic
