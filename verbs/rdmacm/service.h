#pragma once

// The rdma_cm device of this process, the counterpart of Linux'
// drivers/infiniband/core/{ucma,cma}.c. It has the same commands
// (<rdma/rdma_user_cm.h>), the same checks in the same order, and the same
// events. Below it is one connection manager per RNIC (cm_port.h).
//
// Every command is a function. It returns 0, or the errno that Linux returns;
// then nothing has changed. Ids are named by numbers:
//   ENOENT  there is no such id
//   EINVAL  it belongs to another channel, or its state does not allow this, or
//           it has no device yet and the command needs one
//
// Threads: any, several concurrently. One mutex protects everything here, and
// is held only briefly. A thread that delivers an event under an engine's token
// takes it, too, so no thread may take a token while it holds the mutex. A
// command checks and marks its intention under the mutex, acts under the token,
// and finishes under both.
//
// What differs from Linux, on purpose:
// - Port numbers belong to the process, because its RNICs do. Ports below 1024
//   need no privilege.
// - A loopback address (127.0.0.1, ::1) as the destination means the first
//   RNIC's own address. In Linux, RoCE devices fail with it.
// - Requests beyond the backlog wait instead of being dropped, because a peer
//   would repeat a dropped request only after four seconds.
// - AF_IB addresses can only be bound as wildcards, because librdmacm does that
//   to find out which commands exist. Everything else gives ENODEV, because
//   there is no InfiniBand.
// - The port space IPOIB is refused when the id is created (EINVAL).

#include <rdma/rdma_user_cm.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transport/base/permutation.h"
#include "verbs/rdmacm/address.h"
#include "verbs/rdmacm/cm_port.h"
#include "verbs/rdmacm/event_channel.h"
#include "verbs/rdmacm/handle_table.h"
#include "verbs/rdmacm/id.h"
#include "verbs/rdmacm/port_spaces.h"
#include "verbs/rdmacm/resolution.h"

namespace urnic::rdmacm {

// A command that was refused.
struct RefusedCall {
  const char* name = "a command of rdma_cm";  // or "rdma_listen"
  std::optional<uint32_t> id;
  SocketAddress address;  // without a family: the call has no address
};

// The Q_Key of UDP ids, RDMA_UDP_QKEY of <rdma/rdma_cma.h>.
inline constexpr uint32_t kUdpQkey = 0x01234567;
// Replaces a backlog of 0 or a larger one: net.rdma_ucm.max_backlog.
inline constexpr uint32_t kMaxBacklog = 1024;

class Service final : public CmEvents, public ResolutionEvents {
 public:
  // `rnics`: all RNICs of the process, which outlive the service. `key`:
  // random. `lessor`: leases ports and communication ids; null: the process may
  // use all.
  Service(const std::vector<Rnic*>& rnics, const NumberKey& key,
          Lessor* lessor = nullptr);
  // Only for tests; in a program the service lives as long as the process.
  // REQUIRES: all channels are closed, and no engine uses its ports any more.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  EventChannel* OpenChannel(EventChannel::Readiness& readiness);
  // Destroys the ids of a channel, as the kernel does when its descriptor is
  // closed.
  void CloseChannel(EventChannel* channel);
  // Call this at the end of the process, before its engines run for the last
  // time. A signal handler may have called exit() inside a function of this
  // class. Then this thread itself holds the mutex and will never release it.
  // So no thread waits for the mutex any more, events are lost, and TakeLeave()
  // does nothing.
  void BeginEnd();
  // Call this next, when no thread closes channels any more. Disconnects all
  // connections. Repeats a DREQ every kLeaveInterval until it is answered, for
  // kLeaveTime at most, because a peer that misses it would keep a dead
  // connection. Waits for nothing else.
  void TakeLeave();
  static constexpr Duration kLeaveTime = Duration::Milliseconds(100);
  static constexpr Duration kLeaveInterval = Duration::Milliseconds(5);
  // The number of connections and resolutions that the managers know, without
  // listeners. Includes those that only wait for their last packets to die.
  // Call it without a token.
  uint32_t connections();
  // Their images on the RNIC of this name: see CmPort::SendImages().
  bool SendImages(std::string_view rnic,
                  const std::function<bool(std::string_view)>& reply);

  // An address of the RNIC `rnic` is being removed: disconnects the connections
  // that use it, as Disconnect() does, and returns how many. Call it without a
  // token.
  uint32_t DisconnectFrom(std::string_view rnic, const wire::Gid& local);
  // The RNIC has failed: the ids on it get the event DEVICE_REMOVAL.
  void OnDeviceFailed(std::string_view rnic);

  // Appends the lines of some ids of the RNIC `rnic` (id_facts.h), and of ids
  // that have no device yet, from `serial` on. Returns the number to continue
  // from; none: there are no more.
  std::optional<uint64_t> DescribeIds(std::string_view rnic, uint64_t serial,
                                      std::string& out);

  // Reports to `urnic show error` and the logs that `call` returned `error`.
  // Call it without a token.
  void NoteRefusal(const EventChannel& channel, const RefusedCall& call,
                   int error);

  // --- Ids (service.cc) ----------------------------------------------------
  // EINVAL: an unknown port space. ENOMEM: 65536 ids.
  int CreateId(EventChannel& channel, uint64_t uid, uint16_t port_space,
               uint8_t qp_type, uint32_t* number);
  // `events`: gets the number of its events that the program has got.
  int DestroyId(EventChannel& channel, uint32_t number, uint32_t* events);
  // Moves an id with its events from channel `from`, which may not exist any
  // more (ENOENT), to channel `to`.
  int MigrateId(EventChannel& from, EventChannel& to, uint32_t number,
                uint32_t* events);
  // `deliver` takes the oldest event, or returns false to leave it (EFAULT).
  // EAGAIN: there is none.
  int GetEvent(EventChannel& channel,
               const std::function<bool(const rdma_ucm_event_resp&)>& deliver);
  // ENOSYS: no such level or option.
  int SetOption(EventChannel& channel, uint32_t number, uint32_t level,
                uint32_t option, std::span<const uint8_t> value);

  // --- Addresses (service_address.cc) --------------------------------------
  // EAFNOSUPPORT; EADDRNOTAVAIL, or ENODEV for AF_IB: no RNIC has the address;
  // see PortSpaces::Bind().
  int Bind(EventChannel& channel, uint32_t number,
           const SocketAddress& address);
  // `source` without a family: any source. ENETUNREACH: no RNIC has a link or
  // route to the address. ENOMEM: too many addresses are being resolved, or the
  // RNIC's table of neighbours is full. The event is ADDR_RESOLVED, or
  // ADDR_ERROR with -ETIMEDOUT.
  int ResolveAddress(EventChannel& channel, uint32_t number,
                     const SocketAddress& source,
                     const SocketAddress& destination, uint32_t timeout_ms);
  int ResolveRoute(EventChannel& channel, uint32_t number, uint32_t timeout_ms);
  // An id that is bound to no device listens on all devices that can be opened
  // and that have its port space, including both devices of a port. A request
  // makes an id on the device that has received it. EADDRINUSE: on an iWARP
  // device, another id listens on that TCP port at one address (of the other
  // family: see PortSpaces::Bind() for the rest). EOPNOTSUPP: no device has the
  // port space. ENODEV; or the errno of opening the only device, or of a full
  // table. After an error it listens nowhere.
  int Listen(EventChannel& channel, uint32_t number, uint32_t backlog);

  // --- Connections (service_connect.cc) ------------------------------------
  int Connect(EventChannel& channel, uint32_t number,
              const rdma_ucm_conn_param& params, const rdma_ucm_ece& ece = {});
  // Without `params`: the program has seen CONNECT_RESPONSE and is ready. If
  // the call fails, the peer is rejected.
  int Accept(EventChannel& channel, uint32_t number, uint64_t uid,
             const rdma_ucm_conn_param* params, const rdma_ucm_ece& ece = {});
  int Reject(EventChannel& channel, uint32_t number, uint8_t reason,
             std::span<const uint8_t> private_data);
  int Disconnect(EventChannel& channel, uint32_t number);
  // `event`: enum ibv_event_type; only COMM_EST has an effect.
  int Notify(EventChannel& channel, uint32_t number, uint32_t event);

  // --- Queries (service_query.cc) ------------------------------------------
  int QueryRoute(EventChannel& channel, uint32_t number,
                 rdma_ucm_query_route_resp& out);
  int QueryAddress(EventChannel& channel, uint32_t number,
                   rdma_ucm_query_addr_resp& out);
  int QueryGids(EventChannel& channel, uint32_t number,
                rdma_ucm_query_addr_resp& out);
  // Sets `found` to false if there is no path yet.
  int QueryPath(EventChannel& channel, uint32_t number, bool* found,
                ib_path_rec_data& out);
  int InitQpAttributes(EventChannel& channel, uint32_t number,
                       uint32_t qp_state, ib_uverbs_qp_attr& out);

  // --- Multicast (service_multicast.cc) ------------------------------------
  // The event has what the program needs to send to the group. To receive,
  // librdmacm attaches the queue pair by a verb, which joins the group on the
  // network. It does not do so if the program only wants to send. For this
  // device both cases are the same.
  int JoinMulticast(EventChannel& channel, uint32_t number, uint64_t uid,
                    const SocketAddress& group, uint32_t* multicast);
  int LeaveMulticast(EventChannel& channel, uint32_t multicast,
                     uint32_t* events);

 private:
  using IdPtr = std::shared_ptr<Id>;

  // The parts of an id that must be undone under the tokens.
  struct Teardown {
    CmPort* port = nullptr;
    CmHandle handle;
    Listening place;
    std::vector<CmPort*> heard_on;
    std::shared_ptr<Resolution> resolution;
  };
  // The following functions run under the mutex.
  int Find(EventChannel& channel, uint32_t number, IdPtr& out) const;
  // The same for an id that has a device.
  int FindOnDevice(EventChannel& channel, uint32_t number, IdPtr& out) const;
  IdPtr FindSerial(uint64_t serial) const;
  IdPtr MakeId(EventChannel& channel);
  // Forgets the id, and the ids of its requests that the program has not seen.
  void Forget(const IdPtr& id, std::vector<Teardown>& work);
  void ForgetOne(const IdPtr& id, std::vector<Teardown>& work);
  static void Unpark(Id& listener);
  // An id whose `uid` is 0 is not known to the program yet and gets no events.
  static void PushEvent(const IdPtr& id, EventType type, int status);
  // Queues an event for the program. If the event means that a connection could
  // not be made, also reports that at `port`, whose token is held.
  static void QueueFromPort(CmPort& port, const IdPtr& id,
                            const rdma_ucm_event_resp& response);
  static rdma_ucm_event_resp MakeEvent(const Id& id, EventType type,
                                       int status);
  // Completes a manager's event for the program.
  static rdma_ucm_event_resp Complete(const rdma_ucm_event_resp& event,
                                      const Id& id);
  static int SetIdOption(Id& id, uint32_t option,
                         std::span<const uint8_t> value);
  static int SetPath(const IdPtr& id, std::span<const uint8_t> value);
  int BindLocked(Id& id, const SocketAddress& address);
  CmPort* FindLocal(const SocketAddress& address) const;
  int FindWay(const Id& id, const SocketAddress& destination, Way& out) const;
  int FindUnicastWay(const Id& id, Way& out) const;
  int StartResolving(const IdPtr& id, const SocketAddress& source,
                     const SocketAddress& destination);
  void Resolved(const Resolution& resolution);
  static void SetRoute(Id& id);
  std::optional<uint8_t> GidIndex(const Id& id) const;
  void DropRequest(const IdPtr& id);
  Id* FindListener(CmPort& port, const CmRequest& request) const;
  IdPtr MakeRequestId(CmPort& port, const CmRequest& request, Id& listener);
  // The peer has resolved the service: ESTABLISHED, or ADDR_ERROR.
  void CompleteDatagrams(Id& id, rdma_ucm_event_resp& event) const;
  // Whether programs see a path record for the id's route.
  static bool ShowsPath(const Id& id);
  void FillAhAttributes(const Id& id, const wire::Gid& remote,
                        uint8_t hop_limit, ib_uverbs_ah_attr& out) const;
  // Sets the attributes in the mask that the id knows, but not its connection.
  int SetOwnAttributes(const Id& id, ib_uverbs_qp_attr& out) const;
  void FillDevice(const Id& id, rdma_ucm_query_addr_resp& out) const;

  // Call this without the mutex and without a token.
  void Finish(const std::vector<Teardown>& work);
  // `heard_on`: gets the ports where it listens now, even if the call fails.
  static int ListenOn(const std::vector<CmPort*>& ports, const Listening& place,
                      std::vector<CmPort*>& heard_on);
  // Calls `f(port, handle)` for the connection of `id`; EINVAL if there is
  // none.
  template <typename F>
  int CallFor(const IdPtr& id, F&& f);
  // Waits until the peers have answered every DREQ, or kLeaveTime is over.
  void AwaitFarewells();

  // Called with a token held.
  uint64_t OnRequest(CmPort& port, const CmRequest& request) override;
  bool OnEvent(CmPort& port, const CmEvent& event) override;
  void OnAnswer(Resolution& resolution, net::PathStatus status) override;

  std::vector<std::unique_ptr<CmPort>> ports_;  // fixed

  mutable std::mutex mutex_;
  std::atomic<bool> abandoned_ = false;  // BeginEnd()
  std::unordered_map<const EventChannel*, std::unique_ptr<EventChannel>>
      channels_;
  HandleTable<Id> ids_;
  HandleTable<Multicast> multicasts_;
  std::map<uint64_t, IdPtr> by_serial_;
  LocalLessor own_ports_;
  PortSpaces port_spaces_;
  const NumberKey psn_key_;
  uint64_t next_serial_ = 1;
};

}  // namespace urnic::rdmacm
