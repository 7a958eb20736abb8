#include "verbs/rdmacm/commands.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace urnic::rdmacm {

namespace {

// Options are small; a list of path records is the longest.
constexpr size_t kMaxOptionBytes = 64 * sizeof(ib_path_rec_data);

struct Call {
  Service& service;
  EventChannel& channel;
  UserMemory& memory;
  ChannelFinder& channels;
  size_t out_bytes;  // room for the answer

  template <typename T>
  int Answer(uint64_t address, const T& response) const {
    const size_t bytes = std::min(sizeof(response), out_bytes);
    return memory.Write(address, &response, bytes) ? 0 : EFAULT;
  }
};

template <typename T>
SocketAddress AddressIn(const T& sockaddr) {
  return SocketAddress::FromBytes(
      {reinterpret_cast<const uint8_t*>(&sockaddr), sizeof(sockaddr)});
}

// An address that the program passes together with its size.
template <typename T>
bool SizedAddress(const T& sockaddr, size_t size, SocketAddress* out) {
  *out = AddressIn(sockaddr);
  return size != 0 && size == out->size();
}

int CreateId(const Call& call, const rdma_ucm_create_id& in) {
  rdma_ucm_create_id_resp out = {};
  const int error =
      call.service.CreateId(call.channel, in.uid, in.ps, in.qp_type, &out.id);
  if (error != 0) return error;
  if (call.Answer(in.response, out) == 0) return 0;
  uint32_t events = 0;
  call.service.DestroyId(call.channel, out.id, &events);
  return EFAULT;
}

int DestroyId(const Call& call, const rdma_ucm_destroy_id& in) {
  rdma_ucm_destroy_id_resp out = {};
  const int error =
      call.service.DestroyId(call.channel, in.id, &out.events_reported);
  return error != 0 ? error : call.Answer(in.response, out);
}

int BindIp(const Call& call, const rdma_ucm_bind_ip& in) {
  const SocketAddress address = AddressIn(in.addr);
  if (!address.is_ip()) return EINVAL;
  return call.service.Bind(call.channel, in.id, address);
}

int Bind(const Call& call, const rdma_ucm_bind& in) {
  SocketAddress address;
  if (in.reserved != 0 || !SizedAddress(in.addr, in.addr_size, &address)) {
    return EINVAL;
  }
  return call.service.Bind(call.channel, in.id, address);
}

int ResolveIp(const Call& call, const rdma_ucm_resolve_ip& in) {
  const SocketAddress source = AddressIn(in.src_addr);
  const SocketAddress destination = AddressIn(in.dst_addr);
  if ((source.family() != 0 && !source.is_ip()) || !destination.is_ip()) {
    return EINVAL;
  }
  return call.service.ResolveAddress(call.channel, in.id, source, destination,
                                     in.timeout_ms);
}

int ResolveAddress(const Call& call, const rdma_ucm_resolve_addr& in) {
  SocketAddress source;
  SocketAddress destination;
  if (in.reserved != 0 ||
      !SizedAddress(in.dst_addr, in.dst_size, &destination) ||
      (in.src_size != 0 && !SizedAddress(in.src_addr, in.src_size, &source))) {
    return EINVAL;
  }
  return call.service.ResolveAddress(call.channel, in.id, source, destination,
                                     in.timeout_ms);
}

int ResolveRoute(const Call& call, const rdma_ucm_resolve_route& in) {
  return call.service.ResolveRoute(call.channel, in.id, in.timeout_ms);
}

int QueryRoute(const Call& call, const rdma_ucm_query& in) {
  rdma_ucm_query_route_resp out = {};
  const int error = call.service.QueryRoute(call.channel, in.id, out);
  return error != 0 ? error : call.Answer(in.response, out);
}

int QueryPath(const Call& call, const rdma_ucm_query& in) {
  // struct rdma_ucm_query_path_resp, with one path.
  struct {
    uint32_t header[sizeof(rdma_ucm_query_path_resp) / 4];
    ib_path_rec_data path;
  } out = {};
  static_assert(sizeof(out.header) == offsetof(decltype(out), path));
  if (call.out_bytes < sizeof(out.header)) return ENOSPC;
  bool found = false;
  const int error =
      call.service.QueryPath(call.channel, in.id, &found, out.path);
  if (error != 0) return error;
  out.header[0] = found ? 1 : 0;  // num_paths
  // As in Linux: the whole path or none.
  const bool fits = call.out_bytes >= sizeof(out);
  if (found && fits) return call.Answer(in.response, out);
  return call.Answer(in.response, out.header);
}

int Query(const Call& call, const rdma_ucm_query& in) {
  rdma_ucm_query_addr_resp out = {};
  int error = ENOSYS;
  switch (in.option) {
    case RDMA_USER_CM_QUERY_PATH:
      return QueryPath(call, in);
    case RDMA_USER_CM_QUERY_ADDR:
    case RDMA_USER_CM_QUERY_GID:
      // Older programs have room for the members before the device index only.
      if (call.out_bytes < offsetof(rdma_ucm_query_addr_resp, ibdev_index)) {
        return ENOSPC;
      }
      error = in.option == RDMA_USER_CM_QUERY_ADDR
                  ? call.service.QueryAddress(call.channel, in.id, out)
                  : call.service.QueryGids(call.channel, in.id, out);
      return error != 0 ? error : call.Answer(in.response, out);
    default:
      return error;
  }
}

int Connect(const Call& call, const rdma_ucm_connect& in) {
  if (in.conn_param.valid == 0) return EINVAL;
  return call.service.Connect(call.channel, in.id, in.conn_param, in.ece);
}

int Listen(const Call& call, const rdma_ucm_listen& in) {
  return call.service.Listen(call.channel, in.id, in.backlog);
}

int Accept(const Call& call, const rdma_ucm_accept& in) {
  return call.service.Accept(
      call.channel, in.id, in.uid,
      in.conn_param.valid != 0 ? &in.conn_param : nullptr, in.ece);
}

int Reject(const Call& call, const rdma_ucm_reject& in) {
  return call.service.Reject(call.channel, in.id, in.reason,
                             {in.private_data, in.private_data_len});
}

int Disconnect(const Call& call, const rdma_ucm_disconnect& in) {
  return call.service.Disconnect(call.channel, in.id);
}

int InitQpAttributes(const Call& call, const rdma_ucm_init_qp_attr& in) {
  ib_uverbs_qp_attr out = {};
  const int error =
      call.service.InitQpAttributes(call.channel, in.id, in.qp_state, out);
  return error != 0 ? error : call.Answer(in.response, out);
}

int GetEvent(const Call& call, const rdma_ucm_get_event& in) {
  return call.service.GetEvent(call.channel,
                               [&](const rdma_ucm_event_resp& event) {
                                 return call.Answer(in.response, event) == 0;
                               });
}

int SetOption(const Call& call, const rdma_ucm_set_option& in) {
  if (in.optlen > kMaxOptionBytes) return EINVAL;
  std::vector<uint8_t> value(in.optlen);
  // The pointer to an empty option may be anything.
  if (!value.empty() &&
      !call.memory.Read(value.data(), in.optval, value.size())) {
    return EFAULT;
  }
  return call.service.SetOption(call.channel, in.id, in.level, in.optname,
                                value);
}

int Notify(const Call& call, const rdma_ucm_notify& in) {
  return call.service.Notify(call.channel, in.id, in.event);
}

int Join(const Call& call, uint32_t id, uint64_t uid, uint64_t response,
         const SocketAddress& group) {
  rdma_ucm_create_id_resp out = {};
  const int error =
      call.service.JoinMulticast(call.channel, id, uid, group, &out.id);
  if (error != 0) return error;
  if (call.Answer(response, out) == 0) return 0;
  uint32_t events = 0;
  call.service.LeaveMulticast(call.channel, out.id, &events);
  return EFAULT;
}

int JoinIpMulticast(const Call& call, const rdma_ucm_join_ip_mcast& in) {
  return Join(call, in.id, in.uid, in.response, AddressIn(in.addr));
}

int JoinMulticast(const Call& call, const rdma_ucm_join_mcast& in) {
  SocketAddress group;
  if (!SizedAddress(in.addr, in.addr_size, &group) ||
      in.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) {
    return EINVAL;
  }
  return Join(call, in.id, in.uid, in.response, group);
}

int LeaveMulticast(const Call& call, const rdma_ucm_destroy_id& in) {
  rdma_ucm_destroy_id_resp out = {};
  const int error =
      call.service.LeaveMulticast(call.channel, in.id, &out.events_reported);
  return error != 0 ? error : call.Answer(in.response, out);
}

int MigrateId(const Call& call, const rdma_ucm_migrate_id& in) {
  EventChannel* const from = call.channels.Find(in.fd);
  if (from == nullptr) return ENOENT;
  rdma_ucm_migrate_resp out = {};
  const int error =
      call.service.MigrateId(*from, call.channel, in.id, &out.events_reported);
  return error != 0 ? error : call.Answer(in.response, out);
}

// ------------------------------------------------------------------- the table

struct Row {
  const char* name = nullptr;  // the call of the program
  size_t in_min = 0;           // bytes of the command that must be there
  size_t out_min = 0;          // room for the answer that it needs
  // `refused`: id and address of the command.
  int (*run)(const Call& call, std::span<const uint8_t> in,
             RefusedCall& refused) = nullptr;
};

// The command's id and address, if it has them.
template <typename T>
void NameObjects(const T& command, int error, RefusedCall& refused) {
  // This command also leaves a group, whose number does not name an id.
  constexpr bool kIsId = !std::is_same_v<T, rdma_ucm_destroy_id>;
  if constexpr (kIsId && requires { command.id; }) refused.id = command.id;
  if constexpr (requires { command.dst_addr; }) {
    // It also binds the id to the source.
    refused.address = AddressIn(command.dst_addr);
    if (error == EADDRNOTAVAIL || error == EADDRINUSE)
      refused.address = AddressIn(command.src_addr);
  } else if constexpr (requires { command.addr; }) {
    refused.address = AddressIn(command.addr);
  }
}

// Makes a handler of bytes from a handler of one command's struct. `in` has at
// least the row's in_min bytes; members beyond its end read as zero.
template <typename T, int (*kHandler)(const Call&, const T&)>
int Run(const Call& call, std::span<const uint8_t> in, RefusedCall& refused) {
  T command = {};
  std::copy_n(in.data(), std::min(in.size(), sizeof(command)),
              reinterpret_cast<uint8_t*>(&command));
  const int error = kHandler(call, command);
  if (error != 0) NameObjects(command, error, refused);
  return error;
}

template <typename T, int (*kHandler)(const Call&, const T&)>
constexpr Row Command(const char* name, size_t out_min = 0,
                      size_t in_min = sizeof(T)) {
  return {.name = name,
          .in_min = in_min,
          .out_min = out_min,
          .run = Run<T, kHandler>};
}

// Older programs leave out the last members (ECE, device index).
constexpr size_t kConnectMin = offsetof(rdma_ucm_connect, ece);
constexpr size_t kAcceptMin = offsetof(rdma_ucm_accept, ece);
constexpr size_t kRouteMin = offsetof(rdma_ucm_query_route_resp, ibdev_index);
constexpr size_t kEventMin = offsetof(rdma_ucm_event_resp, reserved);

constexpr auto kRows = [] {
  std::array<Row, RDMA_USER_CM_CMD_JOIN_MCAST + 1> rows = {};
  rows[RDMA_USER_CM_CMD_CREATE_ID] = Command<rdma_ucm_create_id, CreateId>(
      "rdma_create_id", sizeof(rdma_ucm_create_id_resp));
  rows[RDMA_USER_CM_CMD_DESTROY_ID] = Command<rdma_ucm_destroy_id, DestroyId>(
      "rdma_destroy_id", sizeof(rdma_ucm_destroy_id_resp));
  rows[RDMA_USER_CM_CMD_BIND_IP] =
      Command<rdma_ucm_bind_ip, BindIp>("rdma_bind_addr");
  rows[RDMA_USER_CM_CMD_RESOLVE_IP] =
      Command<rdma_ucm_resolve_ip, ResolveIp>("rdma_resolve_addr");
  rows[RDMA_USER_CM_CMD_RESOLVE_ROUTE] =
      Command<rdma_ucm_resolve_route, ResolveRoute>("rdma_resolve_route");
  rows[RDMA_USER_CM_CMD_QUERY_ROUTE] = Command<rdma_ucm_query, QueryRoute>(
      "the query of an rdma_cm route", kRouteMin);
  rows[RDMA_USER_CM_CMD_CONNECT] =
      Command<rdma_ucm_connect, Connect>("rdma_connect", 0, kConnectMin);
  rows[RDMA_USER_CM_CMD_LISTEN] =
      Command<rdma_ucm_listen, Listen>("rdma_listen");
  rows[RDMA_USER_CM_CMD_ACCEPT] =
      Command<rdma_ucm_accept, Accept>("rdma_accept", 0, kAcceptMin);
  rows[RDMA_USER_CM_CMD_REJECT] =
      Command<rdma_ucm_reject, Reject>("rdma_reject");
  rows[RDMA_USER_CM_CMD_DISCONNECT] =
      Command<rdma_ucm_disconnect, Disconnect>("rdma_disconnect");
  rows[RDMA_USER_CM_CMD_INIT_QP_ATTR] =
      Command<rdma_ucm_init_qp_attr, InitQpAttributes>(
          "rdma_init_qp_attr", sizeof(ib_uverbs_qp_attr));
  rows[RDMA_USER_CM_CMD_GET_EVENT] =
      Command<rdma_ucm_get_event, GetEvent>("rdma_get_cm_event", kEventMin);
  rows[RDMA_USER_CM_CMD_SET_OPTION] =
      Command<rdma_ucm_set_option, SetOption>("rdma_set_option");
  rows[RDMA_USER_CM_CMD_NOTIFY] =
      Command<rdma_ucm_notify, Notify>("rdma_notify");
  rows[RDMA_USER_CM_CMD_JOIN_IP_MCAST] =
      Command<rdma_ucm_join_ip_mcast, JoinIpMulticast>(
          "rdma_join_multicast", sizeof(rdma_ucm_create_id_resp));
  rows[RDMA_USER_CM_CMD_LEAVE_MCAST] =
      Command<rdma_ucm_destroy_id, LeaveMulticast>(
          "rdma_leave_multicast", sizeof(rdma_ucm_destroy_id_resp));
  rows[RDMA_USER_CM_CMD_MIGRATE_ID] = Command<rdma_ucm_migrate_id, MigrateId>(
      "rdma_migrate_id", sizeof(rdma_ucm_migrate_resp));
  rows[RDMA_USER_CM_CMD_QUERY] =
      Command<rdma_ucm_query, Query>("the query of an rdma_cm id");
  rows[RDMA_USER_CM_CMD_BIND] = Command<rdma_ucm_bind, Bind>("rdma_bind_addr");
  rows[RDMA_USER_CM_CMD_RESOLVE_ADDR] =
      Command<rdma_ucm_resolve_addr, ResolveAddress>("rdma_resolve_addr");
  rows[RDMA_USER_CM_CMD_JOIN_MCAST] =
      Command<rdma_ucm_join_mcast, JoinMulticast>(
          "rdma_join_multicast", sizeof(rdma_ucm_create_id_resp));
  return rows;
}();

// The longest command. The rest of a longer one belongs to a later version.
constexpr size_t kLongest = sizeof(rdma_ucm_accept);
static_assert([] {
  for (const Row& row : kRows) {
    if (row.in_min > kLongest) return false;
  }
  return true;
}());

int Parse(Service& service, EventChannel& channel, UserMemory& memory,
          ChannelFinder& channels, uint64_t address, size_t bytes,
          RefusedCall& refused) {
  rdma_ucm_cmd_hdr header;
  if (bytes < sizeof(header)) return EINVAL;
  if (!memory.Read(&header, address, sizeof(header))) return EFAULT;
  if (header.cmd >= kRows.size()) return EINVAL;
  const Row& row = kRows[header.cmd];
  if (row.name != nullptr) refused.name = row.name;
  if (header.in + sizeof(header) > bytes) return EINVAL;
  if (row.run == nullptr) return ENOSYS;
  if (header.out < row.out_min) return ENOSPC;
  if (header.in < row.in_min) return EINVAL;
  std::array<uint8_t, kLongest> in;
  const size_t in_bytes = std::min<size_t>(header.in, in.size());
  if (!memory.Read(in.data(), address + sizeof(header), in_bytes)) {
    return EFAULT;
  }
  const Call call = {.service = service,
                     .channel = channel,
                     .memory = memory,
                     .channels = channels,
                     .out_bytes = header.out};
  return row.run(call, {in.data(), in_bytes}, refused);
}

}  // namespace

int RunCommand(Service& service, EventChannel& channel, UserMemory& memory,
               ChannelFinder& channels, uint64_t address, size_t bytes) {
  RefusedCall refused;
  const int error =
      Parse(service, channel, memory, channels, address, bytes, refused);
  // EAGAIN: there is no event yet.
  if (error != 0 && error != EAGAIN) {
    service.NoteRefusal(channel, refused, error);
  }
  return error;
}

}  // namespace urnic::rdmacm
