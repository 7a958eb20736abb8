#pragma once

// QP1, the general services interface: receives and sends the management
// datagrams (MADs) of an engine. Each class has its own handler.
//= IBTA 13.5.1: QP1 is the general services interface

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "datapath/engine/transmit_queue.h"
#include "ras/metrics/counters.h"
#include "ras/metrics/rx_verdict.h"
#include "ras/trace/trace.h"
#include "transport/base/psn.h"
#include "transport/base/time.h"
#include "transport/net/host.h"
#include "transport/net/mad_handler.h"
#include "transport/wire/frame.h"
#include "transport/wire/mad.h"
#include "transport/work/types.h"

namespace urnic {

// Token holder only.
class GsiPort {
 public:
  // The number of MADs that may wait for room in the port. Beyond that MADs are
  // lost, as on the wire, and their senders repeat them after seconds.
  static constexpr size_t kWaitingMax = 8192;
  // The number of MADs that may wait for the path to their peer, and how long
  // they wait. Their sender repeats them later than that.
  static constexpr size_t kAskedMax = 1024;
  static constexpr Duration kAskTime = Duration::Seconds(3);
  // The number of peers whose paths are kept. Beyond that a path is forgotten,
  // and resolved again or learned from the peer's next MAD. Each path may keep
  // a neighbour in the host core's table, which has room for more.
  static constexpr size_t kWaysMax = net::HostConfig{}.max_neighbors / 4;

  // All arguments outlive this object. `pkeys`: the P_Key table. `salt`:
  // random, see HashKey().
  GsiPort(net::Host* host, TransmitQueue* tx, EngineCounters* counters,
          std::vector<uint16_t> pkeys, uint64_t salt)
      : host_(host),
        tx_(tx),
        counters_(counters),
        pkeys_(std::move(pkeys)),
        ways_(0, SamePeer{salt}) {}

  // From now on MADs are traced in `trace`, which outlives all use of this
  // object.
  void TraceTo(Trace* trace) { trace_ = trace; }

  // Sets the handler for MADs of this class, instead of the previous one; null:
  // none.
  //= IBTA 13.4.4: each MAD is given to the handler of its management class
  void Serve(uint8_t management_class, net::MadHandler* handler);

  // A datagram for QP1 and one of our addresses.
  RxVerdict OnPacket(const wire::FrameView& view, const RxPacket& packet,
                     Time now);

  // Sends `mad` (256 bytes) to QP1 at `to.remote`, as soon as the path is known
  // and the port has room. The path is the resolved one, which follows the
  // neighbour. If there is none, it is the reverse path of the last MAD from
  // there, which is known even without a route. A MAD that cannot be sent is
  // lost, as on the wire, and counted.
  void Send(const net::PathQuery& to, std::span<const uint8_t> mad, Time now);
  bool waiting() const { return !waiting_.empty(); }
  void SendWaiting();

  Time NextDeadline() const;
  void OnTimer(Time now);
  bool IsQpnBusy(Qpn qpn) const;

 private:
  using Mad = std::array<uint8_t, wire::kMadBytes>;
  struct Served {
    uint8_t management_class;
    net::MadHandler* handler;
  };
  struct Waiting {
    wire::HeaderTemplate headers;
    bool loopback = false;
    uint16_t pkey = 0;
    Mad mad = {};
  };
  // A MAD that waits for its path.
  struct Asked final : net::PathWaiter {
    void OnPath(net::PathStatus status, const net::Path& path) override;

    GsiPort* port = nullptr;
    std::list<Asked>::iterator self;
    net::PathQuery to;
    Mad mad = {};
  };
  // The key of the kept paths, and its hash.
  struct SamePeer {
    uint64_t salt = 0;
    bool operator()(const net::PathQuery& a, const net::PathQuery& b) const {
      return a.local == b.local && a.remote == b.remote &&
             a.roce_v1 == b.roce_v1;
    }
    size_t operator()(const net::PathQuery& query) const;
  };

  void TraceMad(TracePoint point, const uint8_t* mad, uint64_t verdict) const;
  // Null: the path is not known.
  const net::Path* FindWay(const net::PathQuery& to, Time now);
  const net::Path& Keep(const net::PathQuery& to, const net::Path& path);
  void SendAlong(const net::Path& path, uint16_t pkey, const Mad& mad);
  // False: the port has no room.
  bool TrySend(const Waiting& waiting);

  net::Host* const host_;
  TransmitQueue* const tx_;
  EngineCounters* const counters_;
  Trace* trace_ = nullptr;
  const std::vector<uint16_t> pkeys_;
  std::vector<Served> served_;
  std::unordered_map<net::PathQuery, net::Path, SamePeer, SamePeer> ways_;
  std::list<Asked> asked_;
  std::deque<Waiting> waiting_;
  Psn psn_;
};

}  // namespace urnic
