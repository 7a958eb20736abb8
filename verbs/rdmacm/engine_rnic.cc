#include "verbs/rdmacm/engine_rnic.h"

#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "datapath/engine/engine.h"
#include "datapath/engine/failures.h"
#include "datapath/engine/network.h"
#include "transport/wire/mad.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/device_routes.h"
#include "verbs/control/errors.h"
#include "verbs/control/limits.h"
#include "verbs/control/qp_path.h"

namespace urnic::rdmacm {

namespace {

// Longer than any iteration of an engine whose holder is not preempted.
constexpr Duration kMoment = Duration::Milliseconds(10);
// Shorter than a round trip to a peer that has to be woken up.
constexpr useconds_t kWaitUs = 50;

RnicInfo MakeInfo(const urnic_device_identity& identity) {
  RnicInfo info;
  info.name = identity.name;
  info.ack_delay_code = control::kLocalCaAckDelay;
  std::copy_n(identity.node_guid, info.node_guid.size(),
              info.node_guid.begin());
  info.pkeys.assign(identity.pkeys, identity.pkeys + identity.num_pkeys);
  if (identity.device_kind->gid_source == URNIC_GID_OF_MAC) {
    info.mac_gid = wire::Gid::FromIpv6(identity.gids[0].gid);
  }
  if (identity.ifname[0] != '\0') {
    info.interface_index = if_nametoindex(identity.ifname);
  }
  return info;
}

Failure FailureOf(const Notice& notice) {
  return {.code = notice.code,
          .qpn = notice.qpn,
          .text = notice.text,
          .has_peer = notice.has_peer,
          .remote = notice.remote,
          .remote_port = notice.remote_port};
}

}  // namespace

EngineRnic::EngineRnic(const urnic_device_identity& identity,
                       const control::ProgramHooks& hooks)
    : identity_(identity),
      hooks_(hooks),
      info_(MakeInfo(identity)),
      gids_(control::GidTable::Of(identity)) {}

std::vector<RnicAddress> EngineRnic::Addresses() const {
  std::vector<RnicAddress> addresses;
  for (const control::GidPair& pair : gids_->Pairs()) {
    const int kind = urnic_rdma_cm_kind(identity_.kinds, pair.is_iwarp);
    addresses.push_back(
        {.gid = pair.gid,
         .gid_index = static_cast<uint8_t>(pair.index + 1),
         .prefix_bits = pair.prefix_bits,
         .gid_index_v1 = static_cast<uint8_t>(pair.index),
         .is_chosen = identity_.device_kind == &urnic_device_kinds[kind]});
  }
  return addresses;
}

std::optional<Rnic::Route> EngineRnic::RouteTo(const wire::Gid& remote) const {
  const control::Device* const device = opened_.load();
  const std::vector<control::GidPair> pairs = gids_->Pairs();
  net::RouteTable routes;
  (void)routes.Replace(device != nullptr
                           ? device->routes().For(pairs)
                           : control::DeviceRoutes(identity_).For(pairs));
  const net::Route* route = routes.Find(remote);
  if (route == nullptr) return std::nullopt;
  std::vector<net::LocalAddress> list;
  for (const control::GidPair& pair : pairs) {
    list.push_back({pair.gid, pair.prefix_bits});
  }
  net::LocalAddresses addresses;
  addresses.Set(std::move(list));
  const wire::Gid* source = routes.SourceFor(remote, addresses);
  if (source == nullptr) return std::nullopt;
  return Route{.source = *source, .prefix_bits = route->prefix_bits};
}

uint8_t EngineRnic::MtuCode(uint32_t path_mtu) const {
  const control::Device* const device = opened_.load();
  uint32_t bytes =
      device != nullptr ? device->mtu_max() : urnic_ib_mtu(identity_.mtu);
  if (path_mtu != 0) bytes = std::min(bytes, urnic_ib_mtu(path_mtu));
  return static_cast<uint8_t>(std::bit_width(bytes / 256));
}

int EngineRnic::Open() {
  auto device = control::Device::Open(identity_, hooks_);
  if (!device.ok()) {
    control::ComplainLoudly(std::string(device.status().message()));
    return control::ErrnoOf(device.status());
  }
  device_ = *std::move(device);
  opened_.store(device_.get());
  if (is_iwarp()) tcp_.Open(device_->engine(), device_->network());
  return 0;
}

// The program's verbs may have opened the device before rdma_cm has.
bool EngineRnic::NoteRefusal(const Notice& notice) {
  const auto device = control::Device::FindOpen(identity_);
  if (device == nullptr) return false;
  device->NoteMisuse(FailureOf(notice));
  return true;
}

void EngineRnic::NoteFailure(const Notice& notice) {
  control::DebugLog(ErrorName(notice.code) + ": " + notice.text);
  Failure failure = FailureOf(notice);
  failure.iwarp = is_iwarp();
  device_->engine().failures().Add(std::move(failure));
}

void EngineRnic::WithToken(void (*action)(void* context, Time now),
                           void* context) {
  Engine::ControlScope scope(device_->engine());
  action(context, Environment::Now());
}

bool EngineRnic::TryWithToken(void (*action)(void* context, Time now),
                              void* context) {
  Engine::ControlScope scope(device_->engine(), kMoment);
  if (!scope.entered()) return false;
  action(context, Environment::Now());
  return true;
}

void EngineRnic::Wait() {
  device_->engine().Progress();
  usleep(kWaitUs);
}

net::QuestionId EngineRnic::AskPath(const net::PathQuery& query,
                                    net::PathWaiter* waiter, Duration timeout) {
  return device_->network().Ask(query, waiter, Now(), timeout);
}

void EngineRnic::CancelPath(net::QuestionId id) {
  device_->network().Cancel(id);
}

void EngineRnic::ServeMads(net::MadHandler& handler) {
  device_->network().gsi().Serve(wire::kMadClassCm, &handler);
}

void EngineRnic::SendMad(std::span<const uint8_t, 256> mad,
                         const net::PathQuery& to) {
  net::PathQuery query = to;
  // An answer is sent from the UDP port that the request was sent from.
  if (query.udp_src_port == 0) {
    query.udp_src_port =
        control::UdpSourcePort(0, wire::kGsiQpn, wire::kGsiQpn);
  }
  device_->network().gsi().Send(query, mad, Now());
}

}  // namespace urnic::rdmacm
