#include "verbs/rdmacm/engine_rnic.h"

#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "datapath/engine/engine.h"
#include "transport/net/host.h"
#include "transport/wire/mad.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/errors.h"
#include "verbs/control/limits.h"
#include "verbs/control/mad_path.h"
#include "verbs/control/qp_path.h"

namespace urnic::rdmacm {

namespace {

// Beyond, some path is forgotten: it comes back with the next MAD of that peer.
// Each may keep a neighbour in the host core's table, which has room for more.
constexpr size_t kMaxPaths = net::HostConfig{}.max_neighbors / 4;
// Longer than any iteration of an engine whose holder is not preempted.
constexpr Duration kMoment = Duration::Milliseconds(10);
// Less than a trip to a peer that has to be woken up.
constexpr useconds_t kWaitUs = 50;

RnicInfo MakeInfo(const urnic_device_identity& identity) {
  RnicInfo info;
  info.name = identity.name;
  info.ack_delay_code = control::kLocalCaAckDelay;
  std::copy_n(identity.node_guid, info.node_guid.size(),
              info.node_guid.begin());
  info.pkeys.assign(identity.pkeys, identity.pkeys + identity.num_pkeys);
  if (identity.ifname[0] != '\0') {
    info.interface_index = if_nametoindex(identity.ifname);
  }
  return info;
}

}  // namespace

size_t EngineRnic::HashEnds::operator()(const Ends& ends) const {
  const uint64_t mix = ends.remote.word(0) ^
                       std::rotl(ends.remote.word(1), 17) ^
                       std::rotl(ends.local.word(1), 41);
  return static_cast<size_t>(mix * 0x9e3779b97f4a7c15);
}

EngineRnic::EngineRnic(const urnic_device_identity& identity,
                       const control::ProgramHooks& hooks)
    : identity_(identity),
      hooks_(hooks),
      info_(MakeInfo(identity)),
      gids_(control::GidTable::Of(identity)) {}

std::vector<LocalAddress> EngineRnic::Addresses() const {
  std::vector<LocalAddress> addresses;
  for (const control::GidPair& pair : gids_->Pairs()) {
    addresses.push_back({.gid = pair.gid,
                         .gid_index = static_cast<uint8_t>(pair.index + 1),
                         .prefix_bits = pair.prefix_bits,
                         .gid_index_v1 = static_cast<uint8_t>(pair.index)});
  }
  return addresses;
}

uint8_t EngineRnic::MtuCode() const {
  const control::Device* const device = opened_.load();
  const uint32_t bytes =
      device != nullptr ? device->mtu_max() : urnic_ib_mtu(identity_.mtu);
  return static_cast<uint8_t>(std::bit_width(bytes / 256));
}

int EngineRnic::Open(MadHandler& handler) {
  auto device = control::Device::Open(identity_, hooks_);
  if (!device.ok()) {
    control::ComplainLoudly(std::string(device.status().message()));
    return control::ErrnoOf(device.status());
  }
  handler_ = &handler;
  device_ = *std::move(device);
  opened_.store(device_.get());
  Engine::ControlScope scope(device_->engine());
  device_->network().gsi().Serve(wire::kMadClassCm, this);
  return 0;
}

int EngineRnic::ResolvePath(const PathQuery& query, Duration timeout) {
  net::PathQuery request;
  request.local = query.local;
  request.remote = query.remote;
  request.udp_src_port =
      control::UdpSourcePort(0, wire::kGsiQpn, wire::kGsiQpn);
  const auto path = device_->nic().ResolvePath(request, timeout);
  if (!path.ok()) return control::ErrnoOf(path.status());
  Engine::ControlScope scope(device_->engine());
  Keep(*path);
  return 0;
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

EngineRnic::Ends EngineRnic::EndsOf(const net::Path& path) {
  return {path.local, path.remote,
          path.headers.framing() == wire::Framing::kGrh};
}

void EngineRnic::Keep(const net::Path& path) {
  const Ends ends = EndsOf(path);
  if (paths_.size() >= kMaxPaths && !paths_.contains(ends)) {
    paths_.erase(paths_.begin());
  }
  paths_.insert_or_assign(ends, path);
}

void EngineRnic::SendMad(std::span<const uint8_t, 256> mad,
                         const cm::MadPath& to) {
  const auto it = paths_.find({to.local_gid, to.remote_gid, to.roce_v1});
  if (it != paths_.end())
    device_->network().gsi().Send(it->second, to.pkey, mad);
}

RxVerdict EngineRnic::OnMad(std::span<const uint8_t> mad, const MadSource& from,
                            Time now) {
  // What was resolved follows the neighbour; the way back along a frame does
  // not.
  const auto known = paths_.find(EndsOf(from.reply));
  if (known == paths_.end() || known->second.adjacency == nullptr) {
    Keep(from.reply);
  }
  return handler_->OnMad(mad, control::MadPathOf(from), now);
}

Time EngineRnic::NextDeadline() const { return handler_->NextDeadline(); }

void EngineRnic::OnTimer(Time now) { handler_->OnTimer(now); }

bool EngineRnic::IsQpnBusy(uint32_t qpn) const {
  return handler_->IsQpnBusy(Qpn{qpn});
}

}  // namespace urnic::rdmacm
