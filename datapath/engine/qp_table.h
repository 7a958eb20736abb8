#pragma once

// The queue pairs of an engine: makes, changes, moves and destroys them. The
// tables of their numbers belong to the network (Network::qps(), iwarp_qps()),
// because numbers are the network's.
//
// Thread: the holder of the engine's token; control calls are made inside an
// Engine::ControlScope.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "datapath/engine/engine_qp.h"
#include "datapath/engine/number_table.h"
#include "datapath/engine/pending_set.h"
#include "datapath/engine/qp_places.h"
#include "datapath/engine/roce_qp.h"
#include "ras/history/history.h"
#include "ras/metrics/counters.h"
#include "ras/trace/trace.h"
#include "transport/base/time.h"

namespace urnic {

class ConnectionTable;
class FlowScheduler;
class FlowSink;
class IwarpQp;
class Network;
class Port;
class Transmitter;
struct ConnectConfig;

class QpTable {
 public:
  // The parts of the engine that the table uses. All outlive it.
  struct Parts {
    const Port* port;
    FlowScheduler* flows;
    FlowSink* sink;
    Transmitter* transmitter;
    PendingSet<std::atomic>* pending;
    rc::RecoveryPool* recovery;
    EngineCounters* counters;
    History* history;
    Trace* trace;
    const Time* now;  // the current time of the engine
  };
  explicit QpTable(const Parts& parts) : parts_(parts) {}
  // REQUIRES: no queue pair is left.
  ~QpTable();
  QpTable(const QpTable&) = delete;
  QpTable& operator=(const QpTable&) = delete;

  // Call this before anything else. The network outlives all queue pairs.
  void Serve(Network* network) { network_ = network; }

  // `config.limits.qpn` is ignored: the network draws the number. The table
  // owns the queue pair. RESOURCE_EXHAUSTED: the network has max_qps queue
  // pairs, or the connection manager holds all remaining numbers.
  // UNIMPLEMENTED: the service is kIwarp, which the network does not serve.
  absl::StatusOr<EngineQp*> Create(EngineQpConfig config);
  // What a queue pair of these sizes needs in EngineQpConfig::place.
  static EngineQpBytes BytesOf(QpService service, uint32_t sq_entries,
                               uint32_t max_sge_recv);
  // Deletes the queue pair.
  void Destroy(EngineQp* qp);

  // Moves the queue pair to `target` and completes the requests that this
  // flushes. REQUIRES: the transition is allowed (verbs/control checks). RoCE:
  // SetPath() comes before RTR.
  void Modify(EngineQp& qp, QpState target, const QpConfig& config);

  // From now on the queue pair sends along `path`. In a state that sends, this
  // also takes over what has changed since the path was found
  // (Network::Adopt()).
  void SetPath(RoceQp& qp, const net::Path& path);

  // Removes the queue pair from this engine, deletes it and returns its image
  // (transport/work/image.h), so that it can continue elsewhere. Frames that
  // are already built are sent from here; the next engine sends what the queue
  // pair still owes its peer. The queue pair leaves its multicast groups.
  std::string Extract(RoceQp* qp);
  // Makes a queue pair from an image and `path`. Its number is that of
  // `config.limits`, which the caller has drawn and leased elsewhere. The rings
  // of `config` are those that the queue pair had. `config.srq` of an XRC
  // target is the shared queue that its current receive comes from, if it has
  // one. REQUIRES: what the image does not carry exists: keys with their
  // numbers, and shared queues at the position that they had. ALREADY_EXISTS:
  // the number is in use; RESOURCE_EXHAUSTED: the network has max_qps queue
  // pairs, or the number has no free place in the table; INVALID_ARGUMENT: the
  // image is refused, with the reason.
  absl::StatusOr<RoceQp*> Insert(EngineQpConfig config, const net::Path& path,
                                 std::span<const uint8_t> image);

  // The same for a queue pair of iWARP and its connection, if it has one. The
  // connection is deleted, and its peer is not told. FAILED_PRECONDITION, and
  // nothing has changed: see ConnectionTable::Extract().
  absl::StatusOr<std::string> Extract(IwarpQp* qp);
  // `connection` has the new path, ports and owner of the connection, if the
  // image has one. Reconfigure() sets the attributes for later connections. Has
  // the errors of ConnectionTable::Insert(), too.
  absl::StatusOr<IwarpQp*> Insert(EngineQpConfig config,
                                  ConnectionTable& connections,
                                  const ConnectConfig& connection,
                                  std::span<const uint8_t> image);

  // Appends images of queue pairs (transport/work/image.h), from `place` on,
  // until there are `enough` bytes. Returns the place to continue from; none:
  // there are no more. A queue pair that is created between two calls may be
  // left out.
  std::optional<uint32_t> AppendImages(uint32_t place, size_t enough,
                                       std::string& out) const;

  // Adds the counters of existing queue pairs.
  void AddRequesters(RequesterCounters& to) const;

  //= IBTA 11.6.3.3: if a completion queue overflows, its queue pairs go to ERR,
  //= and peers can no longer use its XRC shared receive queues
  void FailUsersOfFullQueues();

  // The queue pair of a place in the pending set; null: the place is free.
  EngineQp* At(uint32_t place) const { return places_.At(place); }

 private:
  absl::StatusOr<EngineQp*> CreateIwarp(EngineQpConfig config);
  absl::StatusOr<EngineQp*> CreateRud(EngineQpConfig config);
  // The counter of created queue pairs of its service.
  uint64_t& CreatedLike(const EngineQp& qp) const;
  absl::Status InsertIwarp(IwarpQp& qp, ConnectionTable& connections,
                           const ConnectConfig& connection,
                           std::span<const uint8_t> image);
  // Adds a new queue pair to the tables. REQUIRES: its number has a place in
  // `numbers`.
  template <typename Qp>
  Qp* Enlist(QpPtr<Qp> qp, NumberTable<Qp>& numbers);
  // Removes `qp` from all tables, and deletes it.
  void Remove(EngineQp* qp);
  // RoCE: sends the responses that it owes its peer, before it stops answering.
  void SendOwed(EngineQp& qp);
  void AdoptPath(RoceQp& qp);

  const Parts parts_;
  Network* network_ = nullptr;
  QpPlaces places_;
};

}  // namespace urnic
