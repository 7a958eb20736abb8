#include "verbs/control/rud_verbs.h"

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/rud_window.h"
#include "ras/errors/refusal.h"
#include "transport/rud/context_pool.h"
#include "transport/wire/address_text.h"
#include "verbs/control/gid_table.h"
#include "verbs/control/qp_path.h"

namespace urnic::control {
namespace {

RudWindow& WindowOf(Qp& qp) { return RudWindow::Of(*qp.posting().engine_qp); }

std::string NameOf(const Qp& qp) {
  return absl::StrCat("window ", qp.qpn(), ": ");
}

// If the window has now left the group for all peers, tells the network that it
// needs no packets of the group.
void LeaveIfLast(Qp& qp, const wire::Gid& group) {
  RudWindow& window = WindowOf(qp);
  if (window.IsInGroup(group)) return;
  Device& device = qp.device();
  device.network().LeaveGroup(window, group, device.engine().Now());
}

}  // namespace

absl::StatusOr<uint32_t> AddRudPeer(Qp& qp, const RudPeerRequest& request) {
  Device& device = qp.device();
  if (absl::Status s = device.CheckWorks(); !s.ok()) return s;
  if (request.address.dgid.is_multicast() != (request.window == 0)) {
    return Refusal(ErrorCode::kBadAttribute,
                   absl::StrCat(NameOf(qp), "add_peer: window ", request.window,
                                " of ", wire::IpText(request.address.dgid),
                                ": that of a group is 0, and of nobody else"));
  }
  const auto own = device.gids().At(request.address.sgid_index);
  if (own.has_value() && own->roce_v1) {
    return Refusal(ErrorCode::kNoGid,
                   absl::StrCat(NameOf(qp), "add_peer: GID index ",
                                request.address.sgid_index,
                                " is of RoCE v1, and RUD is UDP"));
  }
  // The UDP source port does not depend on the window, but on the path of each
  // packet.
  auto path = ResolvePath(device, request.address, 0, 0);
  if (!path.ok()) return Prefixed(NameOf(qp) + "add_peer: ", path.status());
  Engine::ControlScope scope(device.engine());
  RudWindow& window = WindowOf(qp);
  const auto peer = [&] {
    return absl::StrCat("window ", request.window, " of ",
                        wire::IpText(path->remote));
  };
  if (!path->multicast &&
      window.FindPeerBy(path->local, path->remote, request.window) != nullptr) {
    return Refusal(ErrorCode::kNumberTaken,
                   absl::StrCat(NameOf(qp), "add_peer: ", peer(),
                                " is a peer already; remove it first"));
  }
  const uint32_t number = window.AddPeer(*path, request.window, request.key);
  if (number == 0) {
    return Refusal(ErrorCode::kNoPlace,
                   absl::StrCat(NameOf(qp), "add_peer: it has ",
                                RudWindow::kMaxPeers, " peers"));
  }
  device.network().Adopt(window.FindPeer(number)->path, device.engine().Now());
  return number;
}

absl::Status RemoveRudPeer(Qp& qp, uint32_t number) {
  Engine::ControlScope scope(qp.device().engine());
  RudWindow& window = WindowOf(qp);
  const std::vector<wire::Gid> heard_in = window.GroupsWith(number);
  if (window.RemovePeer(number)) {
    for (const wire::Gid& group : heard_in) LeaveIfLast(qp, group);
    return absl::OkStatus();
  }
  return Refusal(
      ErrorCode::kBadAttribute,
      absl::StrCat(NameOf(qp), "remove_peer: ", number, " is not a peer"));
}

absl::Status JoinRudGroup(Qp& qp, const wire::Gid& group, uint32_t peer,
                          const rud::Membership& as) {
  if (absl::Status s = qp.device().CheckWorks(); !s.ok()) return s;
  const auto refuse = [&](ErrorCode code, const auto&... why) {
    return Refusal(code, absl::StrCat(NameOf(qp), "join_group: ", why...));
  };
  if (!group.is_multicast()) {
    return refuse(ErrorCode::kBadAddress, wire::IpText(group),
                  " is not the address of a group");
  }
  Engine::ControlScope scope(qp.device().engine());
  RudWindow& window = WindowOf(qp);
  Network& network = qp.device().network();
  const RudPeer* const source = window.FindPeer(peer);
  if (source == nullptr || source->path.multicast)
    return refuse(ErrorCode::kBadAttribute, peer, " is not a peer");
  // The same source may be a peer twice, at two addresses of ours.
  if (window.FindGroup(group, source->path.remote, source->window) != nullptr) {
    return refuse(ErrorCode::kNumberTaken, "it is in ", wire::IpText(group),
                  " already");
  }
  for (const rud::ContextId id : as.contexts) {
    if (network.rud_contexts().Find(id, qp.qpn()) == nullptr) {
      return refuse(ErrorCode::kBadAttribute, "context 0x",
                    absl::Hex(id.value()), " is not the window's");
    }
  }
  const Time now = qp.device().engine().Now();
  if (absl::Status s = network.JoinGroup(window, group, now); !s.ok())
    return Prefixed(NameOf(qp) + "join_group: ", s);
  if (window.JoinGroup(group, peer, as)) return absl::OkStatus();
  LeaveIfLast(qp, group);
  return refuse(ErrorCode::kNoPlace, "it is in ", RudWindow::kMaxGroups,
                " groups");
}

absl::Status LeaveRudGroup(Qp& qp, const wire::Gid& group, uint32_t peer) {
  Engine::ControlScope scope(qp.device().engine());
  if (WindowOf(qp).LeaveGroup(group, peer)) {
    LeaveIfLast(qp, group);
    return absl::OkStatus();
  }
  return Refusal(ErrorCode::kBadAttribute,
                 absl::StrCat(NameOf(qp), "leave_group: it is not in ",
                              wire::IpText(group), " for peer ", peer));
}

absl::Status AcquireRudContexts(Qp& qp, std::span<uint64_t> contexts) {
  if (absl::Status s = qp.device().CheckWorks(); !s.ok()) return s;
  Engine::ControlScope scope(qp.device().engine());
  const rud::ContextPool& pool = qp.device().network().rud_contexts();
  if (pool.free() < contexts.size()) {
    return Refusal(
        ErrorCode::kNoPlace,
        absl::StrCat(NameOf(qp), "acquire_contexts: ", contexts.size(),
                     " are wanted, but of ", pool.size(), " of the RNIC ",
                     pool.free(), " are free"));
  }
  for (uint64_t& context : contexts)
    context = WindowOf(qp).AcquireContext()->value();
  return absl::OkStatus();
}

absl::Status ReleaseRudContext(Qp& qp, uint64_t context) {
  Engine::ControlScope scope(qp.device().engine());
  if (WindowOf(qp).ReleaseContext(rud::ContextId::Of(context)))
    return absl::OkStatus();
  return Refusal(ErrorCode::kBadAttribute,
                 absl::StrCat(NameOf(qp), "release_context: 0x",
                              absl::Hex(context), " is not the window's"));
}

}  // namespace urnic::control
