#pragma once

// What a host must do besides RDMA, for one network: it has addresses and
// routes, finds its neighbours and is found, reports its multicast groups,
// answers pings, hears of smaller path MTUs. Sans-IO (docs/design/
// 0001-sans-io.md): received frames and the time go in, frames to send are
// written into a FrameSink, answers are taken.
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
#include "transport/base/time.h"
#include "transport/net/addresses.h"
#include "transport/net/adjacency.h"
#include "transport/net/frame_sink.h"
#include "transport/net/membership.h"
#include "transport/net/neighbor_cache.h"
#include "transport/net/path.h"
#include "transport/net/path_mtu.h"
#include "transport/net/questions.h"
#include "transport/net/route_table.h"
#include "transport/net/vlan.h"
#include "transport/wire/address.h"
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
};

class Host {
 public:
  explicit Host(const HostConfig& config);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // --- Received frames -------------------------------------------------------

  // A frame that ParseFrame() has taken apart into `view` and not called
  // kAccept: `shape` is what it has said. Returns what became of it, to be
  // counted.
  RxVerdict OnFrame(const wire::FrameView& view, RxVerdict shape,
                    std::span<const uint8_t> frame, Time now, FrameSink& sink);

  // Who has sent this frame is about to hear from us: its MAC is remembered
  // as if it had asked for us. For a datagram that was let in.
  void OnDatagram(const wire::FrameView& view, Time now, FrameSink& sink);

  // A tagged or untagged frame of another VLAN is none of ours (kForeignVlan).
  bool IsOurVlan(const wire::FrameView& view) const {
    return net::IsOurVlan(view.vlan, config_.vlan);
  }

  // --- Addresses and routes --------------------------------------------------

  bool IsLocal(const wire::Gid& gid) const { return addresses_.Contains(gid); }
  const LocalAddresses& addresses() const { return addresses_; }
  // From now on. Groups stay joined; of paths see CheckSource().
  void SetAddresses(std::vector<LocalAddress> addresses);
  // Says to all that our addresses are here: after having moved, or come up.
  void Announce(FrameSink& sink) const;

  const RouteTable& routes() const { return routes_; }
  // As RouteTable has them; questions under way keep the way that they began
  // with, paths see LeadsStill().
  bool SetRoutes(std::span<const Route> routes) {
    return routes_.Replace(routes);
  }
  bool AddRoute(const Route& route) { return routes_.Add(route); }
  bool RemoveRoute(const Route& route) { return routes_.Remove(route); }
  // Which neighbour takes packets to `remote`: itself, or a router. None:
  // there is no way. REQUIRES: it is neither ours nor a group
  std::optional<wire::Gid> NextHop(const wire::Gid& remote) const;
  // The address of ours that packets to `remote` prefer; null: we have none of
  // its family.
  const wire::Gid* SourceFor(const wire::Gid& remote) const {
    return routes_.SourceFor(remote, addresses_);
  }

  uint32_t mtu() const { return config_.mtu; }
  void set_mtu(uint32_t mtu) { config_.mtu = mtu; }

  // --- Paths -----------------------------------------------------------------

  // The path, if it is known now. kNoAnswer: Ask() would have to ask. The path
  // to a group, to ourselves, and that of RoCE v1 to a link-local GID that is
  // made of the MAC are always known.
  PathStatus Find(const PathQuery& query, Time now, Path& out);

  // Asks until `deadline`. There will be one answer, by TakeAnswer(): at once
  // if it is known now, kNoAnswer when the deadline has passed. 0: there are
  // max_questions, and nothing was asked.
  QuestionId Ask(const PathQuery& query, uint64_t user, Time now, Time deadline,
                 FrameSink& sink);
  // There will be no answer (any more).
  void Cancel(QuestionId id);

  struct Answer {
    QuestionId id = 0;
    uint64_t user = 0;  // as given to Ask()
    PathStatus status = PathStatus::kNoAnswer;
    Path path;  // kFound
  };
  // The next answer; false: there is none. To be asked after each call that
  // takes a FrameSink.
  bool TakeAnswer(Time now, Answer& out);

  // The way back along a received frame, without asking or following anybody.
  Path ReplyPath(const wire::FrameView& view) const;

  // Sets `local` and `source_gone` of a path, after our addresses may have
  // changed.
  void CheckSource(Path& path) const;
  // False: another neighbour takes packets of this path since routes or
  // addresses have changed; ask anew.
  bool LeadsStill(const Path& path) const;

  // What was sent along a path of this adjacency was not answered in time.
  void Suspect(const Adjacency& adjacency, Time now, FrameSink& sink) {
    neighbors_.Suspect(adjacency, now, sink);
  }

  // A destination whose path MTU has shrunk while paths lead there.
  bool TakeMtuChange(PathMtuCache::Change& out) {
    return path_mtus_.TakeChange(out);
  }

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
  void OnTooBig(const wire::FrameView& view, Time now);
  // Also what it answers.
  void OnClaim(const NeighborClaim& claim, Time now, FrameSink& sink);

  wire::NeighborSelf Self(const wire::Gid& gid) const;
  // kFound: nobody is to be asked, and `mac` and `flags` of the path are known.
  // kNoAnswer: `next_hop` takes its packets.
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
  Membership membership_;
};

}  // namespace urnic::net
