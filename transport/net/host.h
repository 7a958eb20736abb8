#pragma once

// What a host must do besides RDMA, for one network. It has addresses and
// routes, finds its neighbours and lets them find it, reports its multicast
// groups, answers pings of any length, and learns of smaller path MTUs. Sans-IO
// (docs/design/0001-sans-io.md): received frames and the time go in, frames to
// send go into a FrameSink, and the caller takes answers.
//
// Thread: one at a time, the holder of the engine's token. Off the packet path,
// except IsLocal(), Path::IsCurrent() and Adjacency::Confirm().
//
// Memory: grows with neighbours, questions, groups and routes, each up to its
// limit; nothing grows per frame beyond that.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/frame_keeper.h"
#include "transport/base/permutation.h"
#include "transport/base/time.h"
#include "transport/net/addresses.h"
#include "transport/net/adjacency.h"
#include "transport/net/frame_sink.h"
#include "transport/net/membership.h"
#include "transport/net/neighbor_cache.h"
#include "transport/net/path.h"
#include "transport/net/path_mtu.h"
#include "transport/net/questions.h"
#include "transport/net/reassembly.h"
#include "transport/net/route_table.h"
#include "transport/net/tcp_reports.h"
#include "transport/net/vlan.h"
#include "transport/wire/address.h"
#include "transport/wire/echo.h"
#include "transport/wire/frame.h"
#include "transport/wire/neighbor.h"

namespace urnic::net {

struct HostConfig {
  wire::MacAddress mac;
  uint16_t vlan = 0;    // 1..4094: frames of this VLAN only; 0: untagged
  uint32_t mtu = 1500;  // of the link: the largest IP packet, in bytes
  std::vector<LocalAddress> addresses;
  uint32_t max_neighbors = 4096;
  uint32_t max_questions = 1u << 16;
  uint32_t max_groups = 1u << 13;
  uint32_t max_path_mtus = 1024;
  // Random: delays of reports, places in hash tables.
  uint64_t seed = 0;
  // Keeps the frames of packets that come in fragments, and outlives all use
  // of the host. Null: such packets are dropped.
  FrameKeeper* keeper = nullptr;
};

class Host {
 public:
  explicit Host(const HostConfig& config);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // --- Received frames -------------------------------------------------------

  // Handles a frame that ParseFrame() has parsed into `view` without accepting
  // it; `shape` is its verdict. Returns the verdict to count.
  RxVerdict OnFrame(const wire::FrameView& view, RxVerdict shape,
                    const ReceivedFrame& frame, Time now, FrameSink& sink);

  // Call this for an accepted datagram. We are about to answer its sender, so
  // its MAC is remembered as if it had asked for ours.
  void OnDatagram(const wire::FrameView& view, Time now, FrameSink& sink);

  const wire::MacAddress& mac() const { return config_.mac; }
  // False: the frame belongs to another VLAN, or to none, and is not for us
  // (kForeignVlan).
  bool IsOurVlan(const wire::FrameView& view) const {
    return net::IsOurVlan(view.vlan, config_.vlan);
  }

  // --- Addresses and routes --------------------------------------------------

  bool IsLocal(const wire::Gid& gid) const { return addresses_.Contains(gid); }
  const LocalAddresses& addresses() const { return addresses_; }
  // Sets our addresses. Groups stay joined. For paths see CheckSource().
  void SetAddresses(std::vector<LocalAddress> addresses);
  // Announces our addresses to all neighbours, after a move or when the port
  // comes up.
  void Announce(FrameSink& sink) const;

  const RouteTable& routes() const { return routes_; }
  // The calls of RouteTable. Questions under way keep the route that they
  // started with. For paths see LeadsStill().
  bool SetRoutes(std::span<const Route> routes) {
    return routes_.Replace(routes);
  }
  bool AddRoute(const Route& route) { return routes_.Add(route); }
  bool RemoveRoute(const Route& route) { return routes_.Remove(route); }
  // The neighbour that takes packets to `remote`: `remote` itself or a router.
  // None: no route leads there. REQUIRES: `remote` is neither ours nor a group
  std::optional<wire::Gid> NextHop(const wire::Gid& remote) const;
  // Our preferred source address for packets to `remote`; null: we have none of
  // its family.
  const wire::Gid* SourceFor(const wire::Gid& remote) const {
    return routes_.SourceFor(remote, addresses_);
  }

  uint32_t mtu() const { return config_.mtu; }

  // --- Paths -----------------------------------------------------------------

  // The path, if it is known now. kNoAnswer: Ask() is needed. Some paths are
  // always known: those to a group, to ourselves, and those of RoCE v1 to a
  // link-local GID that contains the MAC.
  PathStatus Find(const PathQuery& query, Time now, Path& out);

  // Asks until `deadline`. TakeAnswer() will give one answer: immediately if
  // the path is known now, or kNoAnswer when the deadline has passed. 0: there
  // are max_questions already, and nothing was asked.
  QuestionId Ask(const PathQuery& query, uint64_t user, Time now, Time deadline,
                 FrameSink& sink);
  // Withdraws the question: there will be no answer.
  void Cancel(QuestionId id);

  struct Answer {
    QuestionId id = 0;
    uint64_t user = 0;  // as given to Ask()
    PathStatus status = PathStatus::kNoAnswer;
    Path path;  // kFound
  };
  // Takes the next answer; false: there is none. Call it after each call that
  // takes a FrameSink.
  bool TakeAnswer(Time now, Answer& out);

  // The path back along a received frame. It needs no neighbour, and does not
  // follow one that moves.
  Path ReplyPath(const wire::FrameView& view) const;

  // Updates `local` and `source_gone` of a path when our addresses may have
  // changed.
  void CheckSource(Path& path) const;
  // False: after a change of routes or addresses another neighbour takes the
  // packets of this path. Ask again.
  bool LeadsStill(const Path& path) const;

  // Packets along a path of this adjacency were not answered in time.
  void Suspect(const Adjacency& adjacency, Time now, FrameSink& sink) {
    neighbors_.Suspect(adjacency, now, sink);
  }

  // Takes the next destination in use whose path MTU has shrunk.
  bool TakeMtuChange(PathMtuCache::Change& out) {
    return path_mtus_.TakeChange(out);
  }
  // A connection has found that larger packets to `remote` do not arrive. New
  // paths get this MTU, unless a smaller one is known.
  void LearnPathMtu(const wire::Gid& remote, uint32_t mtu, Time now) {
    if (mtu < config_.mtu) (void)path_mtus_.Learn(remote, mtu, now);
  }
  // Takes what the last frame said about a TCP segment of ours. False: it said
  // nothing. Call it after OnFrame().
  bool TakeTcpReport(TcpTooBig& out) {
    if (!tcp_too_big_.has_value()) return false;
    out = *tcp_too_big_;
    tcp_too_big_.reset();
    return true;
  }

  // The number of packets dropped incomplete since the last call.
  uint64_t TakeIncomplete() { return reassembly_.TakeIncomplete(); }

  // --- Datagrams of RUD in fragments -----------------------------------------

  // Whether OnFrame() keeps their fragments, also those to groups. Without it
  // they are dropped as kIpFragment.
  void KeepDatagrams(bool keep) { keeps_datagrams_ = keep; }
  struct Datagram {
    uint32_t bytes = 0;
    bool marked = false;  // by ECN
  };
  // When OnFrame() has returned kRudFragments, before anything else: copies
  // what follows the UDP header. REQUIRES: out.size() >= wire::kRoceMaxBytes
  Datagram TakeDatagram(std::span<uint8_t> out);
  // For the fragments of a packet. Nobody can predict it, and it comes again
  // only after 2^16 others.
  uint32_t DrawIdentification();

  // --- Multicast groups: net/membership.h ------------------------------------

  bool JoinGroup(const wire::Gid& group, Time now, FrameSink& sink) {
    return membership_.Join(group, now, sink);
  }
  void LeaveGroup(const wire::Gid& group, Time now, FrameSink& sink) {
    membership_.Leave(group, now, sink);
  }

  // --- Time ------------------------------------------------------------------

  void OnTimer(Time now, FrameSink& sink);
  // When OnTimer() is due. May change in every call.
  Time NextDeadline() const;

  const NeighborCache& neighbors() const { return neighbors_; }

 private:
  RxVerdict OnMessage(const wire::FrameView& view,
                      const wire::NeighborInfo& info, RxVerdict verdict,
                      Time now, FrameSink& sink);
  RxVerdict OnSolicit(const wire::FrameView& view,
                      const wire::NeighborInfo& info, RxVerdict verdict,
                      Time now, FrameSink& sink);
  RxVerdict OnFragment(const wire::FrameView& view, const ReceivedFrame& frame,
                       Time now, FrameSink& sink);
  // All of a UDP packet: kRudFragments, or why it is dropped.
  RxVerdict CheckDatagram() const;
  // `request`: a frame of it; `message`: all of it.
  void AnswerEcho(const wire::FrameView& request, wire::MessagePieces message,
                  Time now, FrameSink& sink);
  void OnTooBig(const wire::FrameView& view, Time now);
  // Also handles answers.
  void OnClaim(const NeighborClaim& claim, Time now, FrameSink& sink);

  wire::NeighborSelf Self(const wire::Gid& gid) const;
  // kFound: no neighbour has to be asked, and `mac` and the flags of the path
  // are set. kNoAnswer: `next_hop` takes the packets.
  PathStatus Route(const PathQuery& query, Path& path, wire::MacAddress& mac,
                   wire::Gid& next_hop) const;
  // Everything but the flags.
  void Fill(const PathQuery& query, const wire::MacAddress& mac, Time now,
            Path& path) const;
  void FillFrom(const PathQuery& query, AdjacencyPtr adjacency, Time now,
                Path& path) const;

  HostConfig config_;
  LocalAddresses addresses_;
  RouteTable routes_;
  NeighborCache neighbors_;
  QuestionTable questions_;
  PathMtuCache path_mtus_;
  std::optional<TcpTooBig> tcp_too_big_;
  Membership membership_;
  Reassembly reassembly_;
  uint32_t identifications_ = 0;  // drawn so far
  const Permutation identification_order_;
  bool keeps_datagrams_ = false;
};

}  // namespace urnic::net
