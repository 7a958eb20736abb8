// Queries about an id, and the attributes that its queue pair needs.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/net/pkeys.h"
#include "transport/wire/be.h"
#include "transport/wire/header_template.h"
#include "verbs/rdmacm/qp_attributes.h"
#include "verbs/rdmacm/service.h"

namespace urnic::rdmacm {

namespace {

using wire::Be;

constexpr uint8_t kPortNumber = 1;
constexpr uint8_t kRate100Gbps = 16;     // IBV_RATE_100_GBPS
constexpr uint8_t kPacketLifeTime = 16;  // CMA_IBOE_PACKET_LIFETIME
constexpr uint8_t kExactly = 2;          // IB_SA_EQ
// librdmacm then looks for the GUID.
constexpr uint32_t kNoDeviceIndex = UINT32_MAX;

//= IBTA 15.2.5.16: the format of a path record, as a subnet administrator sends
//= it
struct WirePathRecord {
  Be<uint64_t> service_id;
  wire::Gid dgid;
  wire::Gid sgid;
  Be<uint16_t> dlid;
  Be<uint16_t> slid;
  Be<uint32_t> flow_hop;  // raw (1), reserved (3), flow label (20), hop (8)
  uint8_t traffic_class = 0;
  uint8_t reversible_paths = 0;  // reversible (1), number of paths (7)
  Be<uint16_t> pkey;
  Be<uint16_t> qos_sl;  // QoS class (12), SL (4)
  uint8_t mtu = 0;      // selector (2), value (6)
  uint8_t rate = 0;
  uint8_t packet_life_time = 0;
  uint8_t preference = 0;
  uint8_t reserved[6] = {};
};
static_assert(sizeof(WirePathRecord) == sizeof(ib_path_rec_data::path_rec));
static_assert(alignof(WirePathRecord) == 1);

constexpr uint32_t kPrimaryPath =
    IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;

// What programs see of an id in addition to its addresses. RoCE: GIDs that are
// made from them, and the default partition. iWARP: the GID of the device.
struct LinkView {
  wire::Gid source;
  wire::Gid destination;
  uint16_t pkey = 0;
};

LinkView ViewOf(const Id& id) {
  if (!id.port->has_path_records()) {
    return {id.port->rnic().info().mac_gid, {}, 0};
  }
  return {id.source.gid(), id.destination.gid(), 0xffff};
}

uint8_t Exactly(uint8_t value) {
  return static_cast<uint8_t>(kExactly << 6 | value);
}

void SetRecord(const Id& id, ib_user_path_rec& out) {
  const net::PathQuery& path = *id.path;
  std::memcpy(out.dgid, path.remote.bytes.data(), sizeof(out.dgid));
  std::memcpy(out.sgid, path.local.bytes.data(), sizeof(out.sgid));
  out.flow_label = htonl(path.flow_label);
  out.reversible = 1;
  out.mtu = id.mtu_code;
  out.pkey = htons(path.pkey);
  out.hop_limit = path.hop_limit;
  out.traffic_class = path.traffic_class;
  out.sl = path.service_level;
  out.mtu_selector = kExactly;
  out.rate_selector = kExactly;
  out.rate = id.packet_rate;
  out.packet_life_time_selector = kExactly;
  out.packet_life_time = kPacketLifeTime;
}

}  // namespace

// ------------------------------------------------------------------- routes

void Service::SetRoute(Id& id) {
  net::PathQuery path;
  path.local = id.source.gid();
  path.remote = id.destination.gid();
  path.traffic_class = id.tos.value_or(0);
  path.hop_limit = wire::kDefaultHopLimit;
  id.path = path;
  id.packet_rate = kRate100Gbps;
  id.mtu_code = id.port->rnic().MtuCode(id.path_mtu);
}

// RDMA_OPTION_IB_PATH: the program gives the route itself.
int Service::SetPath(const IdPtr& id, std::span<const uint8_t> value) {
  ib_path_rec_data data;
  if (value.empty() || value.size() % sizeof(data) != 0) return EINVAL;
  bool found = false;
  for (size_t at = 0; at < value.size() && !found; at += sizeof(data)) {
    std::memcpy(&data, value.data() + at, sizeof(data));
    found = data.flags == kPrimaryPath;
  }
  if (!found || id->state != IdState::kAddrResolved) return EINVAL;
  WirePathRecord record;
  std::memcpy(&record, data.path_rec, sizeof(record));
  SetRoute(*id);
  // The destination is already known; the record only has the route to it.
  id->path->flow_label = record.flow_hop.value() >> 8 & 0xfffff;
  id->path->hop_limit = static_cast<uint8_t>(record.flow_hop.value());
  id->path->traffic_class = record.traffic_class;
  id->path->service_level = record.qos_sl.value() & 0xf;
  id->path->pkey = record.pkey.value();
  const uint8_t mtu = record.mtu & 0x3f;
  if (mtu > 0 && mtu < id->mtu_code) id->mtu_code = mtu;
  id->state = IdState::kRouteResolved;
  PushEvent(id, EventType::kRouteResolved, 0);
  return 0;
}

// ------------------------------------------------------------------- queries

//= Linux ucma_copy_iw_route(): the route of iWARP has no path record, only the
//= GIDs of the link
int Service::QueryRoute(EventChannel& channel, uint32_t number,
                        rdma_ucm_query_route_resp& out) {
  std::lock_guard lock(mutex_);
  IdPtr id;
  const int error = Find(channel, number, id);
  if (error != 0) return error;
  out = {};
  out.ibdev_index = kNoDeviceIndex;
  std::memcpy(&out.src_addr, id->source.data(),
              std::min(id->source.size(), sizeof(out.src_addr)));
  std::memcpy(&out.dst_addr, id->destination.data(),
              std::min(id->destination.size(), sizeof(out.dst_addr)));
  if (id->port == nullptr) return 0;
  const RnicInfo& info = id->port->rnic().info();
  std::memcpy(&out.node_guid, info.node_guid.data(), sizeof(out.node_guid));
  out.port_num = kPortNumber;
  if (ShowsPath(*id)) {
    out.num_paths = 1;
    SetRecord(*id, out.ib_route[0]);
    return 0;
  }
  ib_user_path_rec& record = out.ib_route[0];
  const LinkView view = ViewOf(*id);
  std::memcpy(record.dgid, view.destination.bytes.data(), 16);
  std::memcpy(record.sgid, view.source.bytes.data(), 16);
  record.pkey = htons(view.pkey);
  return 0;
}

bool Service::ShowsPath(const Id& id) {
  return id.path.has_value() && id.port->has_path_records();
}

void Service::FillDevice(const Id& id, rdma_ucm_query_addr_resp& out) const {
  out.ibdev_index = kNoDeviceIndex;
  if (id.port == nullptr) return;
  const RnicInfo& info = id.port->rnic().info();
  std::memcpy(&out.node_guid, info.node_guid.data(), sizeof(out.node_guid));
  out.port_num = kPortNumber;
  out.pkey = htons(ViewOf(id).pkey);
}

int Service::QueryAddress(EventChannel& channel, uint32_t number,
                          rdma_ucm_query_addr_resp& out) {
  std::lock_guard lock(mutex_);
  IdPtr id;
  const int error = Find(channel, number, id);
  if (error != 0) return error;
  out = {};
  out.src_size = static_cast<uint16_t>(id->source.size());
  std::memcpy(&out.src_addr, id->source.data(), out.src_size);
  out.dst_size = static_cast<uint16_t>(id->destination.size());
  std::memcpy(&out.dst_addr, id->destination.data(), out.dst_size);
  FillDevice(*id, out);
  return 0;
}

int Service::QueryGids(EventChannel& channel, uint32_t number,
                       rdma_ucm_query_addr_resp& out) {
  std::lock_guard lock(mutex_);
  IdPtr id;
  const int error = Find(channel, number, id);
  if (error != 0) return error;
  out = {};
  FillDevice(*id, out);
  // An id without a device has no GIDs yet.
  const LinkView view = id->port != nullptr ? ViewOf(*id) : LinkView();
  const auto set = [&](const SocketAddress& address, const wire::Gid& gid,
                       uint16_t* size, __kernel_sockaddr_storage& to) {
    SockaddrIb ib = {};
    if (address.family() == kAfIb) {
      ib = address.ib();
    } else {
      ib.family = kAfIb;
      ib.pkey = Be<uint16_t>(view.pkey);
      ib.address = gid;
      ib.service_id = Be<uint64_t>(ServiceId(id->port_space, address.port()));
    }
    *size = sizeof(ib);
    std::memcpy(&to, &ib, sizeof(ib));
  };
  set(id->source, view.source, &out.src_size, out.src_addr);
  set(id->destination, view.destination, &out.dst_size, out.dst_addr);
  return 0;
}

int Service::QueryPath(EventChannel& channel, uint32_t number, bool* found,
                       ib_path_rec_data& out) {
  std::lock_guard lock(mutex_);
  IdPtr id;
  const int error = Find(channel, number, id);
  if (error != 0) return error;
  out = {};
  *found = ShowsPath(*id);
  if (!*found) return 0;
  const net::PathQuery& path = *id->path;
  WirePathRecord record;
  record.service_id =
      Be<uint64_t>(ServiceId(id->port_space, id->destination.port()));
  record.dgid = path.remote;
  record.sgid = path.local;
  record.flow_hop = Be<uint32_t>(path.flow_label << 8 | path.hop_limit);
  record.traffic_class = path.traffic_class;
  record.reversible_paths = 0x80;
  record.pkey = Be<uint16_t>(path.pkey);
  record.qos_sl = Be<uint16_t>(path.service_level);
  record.mtu = Exactly(id->mtu_code);
  record.rate = Exactly(id->packet_rate);
  record.packet_life_time = Exactly(kPacketLifeTime);
  out.flags = kPrimaryPath;
  std::memcpy(out.path_rec, &record, sizeof(record));
  return 0;
}

// ---------------------------------------------------------------- attributes

std::optional<uint8_t> Service::GidIndex(const Id& id) const {
  for (const RnicAddress& local : id.port->rnic().Addresses()) {
    if (local.gid == id.source.gid()) {
      return id.roce_v1 ? local.gid_index_v1 : local.gid_index;
    }
  }
  return std::nullopt;
}

void Service::FillAhAttributes(const Id& id, const wire::Gid& remote,
                               uint8_t hop_limit,
                               ib_uverbs_ah_attr& out) const {
  std::memcpy(out.grh.dgid, remote.bytes.data(), sizeof(out.grh.dgid));
  // If the address is gone, the index is invalid: no GID table is that long.
  out.grh.sgid_index = GidIndex(id).value_or(UINT8_MAX);
  out.grh.hop_limit = hop_limit;
  if (id.path.has_value()) {
    out.grh.flow_label = id.path->flow_label;
    out.grh.traffic_class = id.path->traffic_class;
    out.sl = id.path->service_level;
  } else {
    out.grh.traffic_class = id.tos.value_or(0);
  }
  out.is_global = 1;
  out.port_num = kPortNumber;
}

//= Linux rdma_init_qp_attr(): the attributes come from the connection manager,
//= and the id's own ones precede
int Service::InitQpAttributes(EventChannel& channel, uint32_t number,
                              uint32_t qp_state, ib_uverbs_qp_attr& out) {
  if (qp_state > kError) return EINVAL;
  IdPtr id;
  CmHandle handle;
  out = {};
  out.qp_state = qp_state;
  out.port_num = kPortNumber;
  {
    std::lock_guard lock(mutex_);
    const int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
    handle = id->handle;
    if (id->is_datagram() || !handle.valid()) {
      id->port->GetInitialAttributes(id->is_datagram(), out);
      if ((out.qp_attr_mask & kQkey) != 0) {
        if (id->qkey == 0) id->qkey = kUdpQkey;
        out.qkey = id->qkey;
      }
      if (qp_state == kReadyToReceive) out.rq_psn = id->starting_psn;
      return 0;
    }
  }
  const int error =
      id->port->Call([&] { return id->port->GetQpAttributes(handle, out); });
  if (error != 0) return EINVAL;
  std::lock_guard lock(mutex_);
  return SetOwnAttributes(*id, out);
}

int Service::SetOwnAttributes(const Id& id, ib_uverbs_qp_attr& out) const {
  const uint32_t mask = out.qp_attr_mask;
  if ((mask & kPkeyIndex) != 0) {
    const RnicInfo& info = id.port->rnic().info();
    const auto index = net::FindPkey(info.pkeys, id.path->pkey);
    // The program gave a path record with a partition that we are not in.
    if (!index.has_value()) return EINVAL;
    out.pkey_index = *index;
  }
  if ((mask & kAddressVector) != 0) {
    FillAhAttributes(id, id.path->remote, id.path->hop_limit, out.ah_attr);
  }
  // Our PSN. On the accepting side the manager learns it only from Accept().
  if ((mask & kReceivePsn) != 0) out.rq_psn = id.starting_psn;
  if ((mask & kTimeout) != 0 && id.ack_timeout.has_value()) {
    out.timeout = *id.ack_timeout;
  }
  return 0;
}

}  // namespace urnic::rdmacm
