#pragma once

// A network that a NIC is in: who we are there (addresses, P_Keys), how others
// are reached (neighbours, routes, groups, address handles), and what its
// numbers mean (queue pairs, shared receive queues, keys). It knows nothing of
// ports, bursts or completions; an engine runs it.
//
// A NIC has one, the plain one, or that of the VLAN that its port is in.
//
// Thread: the holder of the engine's token, inside a ControlScope unless said
// otherwise. Off the packet path, but for qps(), mrs(), address_handles() and
// host().IsLocal().

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/engine/address_table.h"
#include "datapath/engine/engine_qp.h"
#include "datapath/engine/groups.h"
#include "datapath/engine/gsi.h"
#include "datapath/engine/number_table.h"
#include "datapath/engine/shared_receive_queue.h"
#include "datapath/engine/transmit_queue.h"
#include "ras/metrics/counters.h"
#include "transport/base/lessor.h"
#include "transport/base/permutation.h"
#include "transport/mem/mr_table.h"
#include "transport/net/host.h"

namespace urnic {

struct NetworkConfig {
  // The first two are the port's.
  wire::MacAddress mac;
  uint16_t vlan = 0;     // net/vlan.h
  uint32_t mtu = 0;      // bytes of an IP packet
  uint32_t ordinal = 0;  // of the NIC (transport/base/numbers.h)
  // Of QPNs, SRQNs and keys; outlives the network. Null: all of the ordinal are
  // its own.
  Lessor* lessor = nullptr;
  std::vector<net::LocalAddress> addresses;
  // The P_Key table, for QP1; other queue pairs have their own of it.
  std::vector<uint16_t> pkeys = {0xffff};
  uint32_t max_qps = kMaxQueuePairs;
  uint32_t max_mrs = 1u << 18;  // a power of two
  NumberKey number_key;         // the order of QPNs, SRQNs and keys
  uint64_t seed = 0;            // random: see net::HostConfig
  // Told of each destination in use that larger packets no longer reach
  // (net/path_mtu.h), by the holder of the token; null: nobody is.
  std::function<void(const net::PathMtuCache::Change&)> on_path_mtu = nullptr;
};

// What a path's status is to a caller. INVALID_ARGUMENT: IPv4 and IPv6 mixed;
// NOT_FOUND: the source is not ours; UNAVAILABLE: no route; DEADLINE_EXCEEDED:
// no answer; RESOURCE_EXHAUSTED: too many neighbours or questions.
absl::Status ToStatus(net::PathStatus status);

class Network {
 public:
  // Both outlive it. Counts what it sees of these counters.
  Network(const NetworkConfig& config, TransmitQueue* tx,
          EngineCounters* counters);
  // REQUIRES: no queue pair is left.
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // --- Numbers ---------------------------------------------------------------

  mem::MrTable& mrs() { return mrs_; }
  NumberTable<EngineQp>& qps() { return qps_; }
  const NumberTable<EngineQp>& qps() const { return qps_; }
  NumberTable<SharedReceiveQueue>& srqs() { return srqs_; }

  // `config.number` is ignored: one is drawn. Null: kMaxSrqs are there, or no
  // number is left, or can be leased.
  SharedReceiveQueue* CreateSrq(const SharedReceiveQueue& config);
  // REQUIRES: no queue pair uses it. XRC queue pairs may: they stop using it.
  void DestroySrq(SharedReceiveQueue* srq);
  static constexpr uint32_t kMaxSrqs = 1u << 16;
  // The ring that an XRC request names, if the queue pair may use it.
  RecvRing* FindXrcRing(const EngineQp& qp, const RxPacket& packet) const;

  // --- Who we are ------------------------------------------------------------

  const net::Host& host() const { return host_; }
  // A frame that no queue pair can be asked about: see net::Host::OnFrame().
  RxVerdict OnFrame(const wire::FrameView& view, RxVerdict shape,
                    std::span<const uint8_t> frame, Time now);

  // The addresses that are ours from now on. A path from one that is gone stays
  // what it is, and works again when the address is back; meanwhile what is
  // sent along it is lost (tx_source_gone), as on a host without the address:
  // requests of RC fail when their retries are used up, datagrams complete and
  // do not arrive. What arrives for such an address is not for us (kNotForUs).
  // Groups stay joined. New ones are announced.
  void SetAddresses(std::vector<net::LocalAddress> addresses, Time now);
  // Tells all neighbours that our addresses are here: the port has come up.
  void Announce() { host_.Announce(*tx_); }

  // QP1: who gets which class of management datagrams, and sending them.
  GsiPort& gsi() { return gsi_; }
  const GsiPort& gsi() const { return gsi_; }
  // A datagram for QP1 and one of our addresses.
  RxVerdict OnManagementPacket(const wire::FrameView& view,
                               const RxPacket& packet, Time now);

  // --- How others are reached ------------------------------------------------

  // Looks at what is known.
  net::PathStatus FindPath(const net::PathQuery& query, Time now,
                           net::Path& out) {
    return host_.Find(query, now, out);
  }
  // Asks for the way to a GID. `waiter` is called once, by the holder of the
  // token, perhaps within this call; kNoAnswer when `timeout` has passed.
  // 0: too many questions, and nothing was asked.
  net::QuestionId Ask(const net::PathQuery& query, net::PathWaiter* waiter,
                      Time now, Duration timeout);
  // `waiter` is not called (any more).
  void Cancel(net::QuestionId id) { host_.Cancel(id); }
  // What was sent along the path was not answered in time.
  void Suspect(const net::Path& path, Time now);
  // The path is that of a queue pair now. Its source may have gone since it was
  // found, and its route may lead elsewhere.
  void Adopt(net::Path& path, Time now);

  // The routes from now on. Paths of connected queue pairs and address handles
  // that another neighbour is to take go on as they are until that one has
  // answered, and then by it; one without a route keeps its way. REQUIRES: as
  // many as a net::RouteTable takes, each valid
  void SetRoutes(std::span<const net::Route> routes, Time now);

  // A number for urnic_sq_wqe.to, for queue pairs of this protection domain;
  // 0: there are too many (AddressTable).
  uint32_t CreateAh(const net::Path& path, uint32_t pd, Time now);
  void DestroyAh(uint32_t number) { address_handles_.Remove(number); }
  const AddressTable& address_handles() const { return address_handles_; }

  // Datagrams to the group reach the queue pair; joined twice is joined once.
  // The first one tells the network (IGMP, MLD), and again when it asks; the
  // last one takes it back. Errors of Groups::Join().
  absl::Status JoinGroup(EngineQp& qp, const wire::Gid& group, Time now);
  // False: the queue pair has not joined.
  bool LeaveGroup(EngineQp& qp, const wire::Gid& group, Time now);
  void LeaveAllGroups(EngineQp& qp, Time now);
  Groups& groups() { return groups_; }

  // --- Time ------------------------------------------------------------------

  // When OnTimer() is due. UpdateDeadline() looks at who is asked outside of
  // here: handlers of QP1.
  Time next_deadline() const { return deadline_; }
  void UpdateDeadline();
  void OnTimer(Time now);

 private:
  // Hands answers to those who have asked.
  void DeliverAnswers(Time now);

  // Paths that wait for a next hop's answer, all of them together.
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
  // Of connected queue pairs and address handles.
  template <typename F>
  void ForEachPath(F&& f);
  // Asks for the neighbour that is to take the packets of the path, if that is
  // another than the one who does.
  void FollowRoute(const net::Path& path, Time now);
  // `detour` is over, and gone.
  void EndDetour(const Detour& detour, net::PathStatus status,
                 const net::Path& path);

  TransmitQueue* const tx_;
  EngineCounters* const counters_;
  const std::function<void(const net::PathMtuCache::Change&)> on_path_mtu_;
  const uint32_t mr_entries_;
  void* mr_memory_ = nullptr;  // behind mrs_
  LocalLessor own_numbers_;
  mem::MrTable mrs_;
  NumberTable<EngineQp> qps_;
  NumberTable<SharedReceiveQueue> srqs_;
  AddressTable address_handles_;
  Groups groups_;
  net::Host host_;
  GsiPort gsi_;
  std::vector<std::unique_ptr<Detour>> detours_;
  Time deadline_ = Time::Infinite();      // the first of host_ and gsi_
  std::unique_ptr<uint8_t[]> null_sink_;  // takes what null regions lose
};

}  // namespace urnic
