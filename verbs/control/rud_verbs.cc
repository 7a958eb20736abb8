#include "verbs/control/rud_verbs.h"

#include "absl/strings/str_cat.h"
#include "datapath/engine/rud_window.h"
#include "ras/errors/refusal.h"
#include "transport/wire/address_text.h"
#include "verbs/control/gid_table.h"
#include "verbs/control/qp_path.h"

namespace urnic::control {
namespace {

RudWindow& WindowOf(Qp& qp) { return RudWindow::Of(*qp.posting().engine_qp); }

std::string NameOf(const Qp& qp) {
  return absl::StrCat("window ", qp.qpn(), ": ");
}

}  // namespace

absl::StatusOr<uint32_t> AddRudPeer(Qp& qp, const RudPeerRequest& request) {
  Device& device = qp.device();
  if (absl::Status s = device.CheckWorks(); !s.ok()) return s;
  if (request.address.dgid.is_multicast()) {
    return Refusal(ErrorCode::kBadAttribute,
                   NameOf(qp) + "add_peer: a group has no window");
  }
  const auto own = device.gids().At(request.address.sgid_index);
  if (own.has_value() && own->roce_v1) {
    return Refusal(ErrorCode::kNoGid,
                   absl::StrCat(NameOf(qp), "add_peer: GID index ",
                                request.address.sgid_index,
                                " is of RoCE v1, and RUD is UDP"));
  }
  // No window goes into the UDP port: the path of each packet does.
  auto path = ResolvePath(device, request.address, 0, 0);
  if (!path.ok()) return Prefixed(NameOf(qp) + "add_peer: ", path.status());
  Engine::ControlScope scope(device.engine());
  RudWindow& window = WindowOf(qp);
  const auto peer = [&] {
    return absl::StrCat("window ", request.window, " of ",
                        wire::IpText(path->remote));
  };
  if (window.FindPeerBy(path->local, path->remote, request.window) != nullptr) {
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
  if (WindowOf(qp).RemovePeer(number)) return absl::OkStatus();
  return Refusal(
      ErrorCode::kBadAttribute,
      absl::StrCat(NameOf(qp), "remove_peer: ", number, " is not a peer"));
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
