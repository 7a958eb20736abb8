#pragma once

// One rdma_cm id: the kernel's struct rdma_id_private and ucma_context
// together. Plain data; service.h says which thread may access it.

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "transport/net/path.h"
#include "verbs/rdmacm/address.h"
#include "verbs/rdmacm/cm_types.h"
#include "verbs/rdmacm/event_channel.h"

namespace urnic::rdmacm {

class CmPort;
class Resolution;

// enum rdma_cm_state of Linux. The checks of each state follow Linux.
enum class IdState : uint8_t {
  kIdle,
  kAddrBound,
  kAddrQuery,
  kAddrResolved,
  kRouteResolved,
  kConnect,
  kDisconnect,
  kListen,
  kDestroying,
};

struct Id;

struct Multicast {
  uint32_t number = 0;  // groups have their own numbers
  std::weak_ptr<Id> owner;
  uint64_t uid = 0;
  uint32_t events_reported = 0;
};

struct Id {
  static constexpr uint32_t kNoNumber = UINT32_MAX;

  // Identifies it to the connection manager; never reused.
  uint64_t serial = 0;
  // Its number in the program; kNoNumber until the program knows the id.
  uint32_t number = kNoNumber;
  uint64_t uid = 0;
  EventChannel* channel = nullptr;
  uint32_t events_reported = 0;

  PortSpace port_space = PortSpace::kTcp;
  uint8_t qp_type = kQpTypeRc;
  IdState state = IdState::kIdle;

  // Options.
  bool reuse_address = false;
  bool family_only = false;
  bool family_only_set = false;
  std::optional<uint8_t> tos;
  std::optional<uint8_t> ack_timeout;

  SocketAddress source;
  SocketAddress destination;
  // The space of the port that it holds; not always the id's own (AF_IB).
  std::optional<PortSpace> bound_space;
  // The device, once it is known. Null for ids that are bound to all devices.
  CmPort* port = nullptr;
  // The peer's request came over RoCE v1, so the answer uses v1.
  bool roce_v1 = false;
  // Set when the route is resolved.
  std::optional<net::PathQuery> path;
  uint8_t packet_rate = 0;
  uint8_t mtu_code = 0;
  // The largest IP packet on the resolved path, in bytes; 0: unknown.
  uint32_t path_mtu = 0;
  // Set while the address is being resolved.
  std::shared_ptr<Resolution> resolution;

  // The connection and its queue pair.
  CmHandle handle;
  uint32_t qpn = 0;
  uint32_t starting_psn = 0;
  bool srq = false;
  uint32_t qkey = 0;

  // For a request that the program does not know yet: its listener. The request
  // is destroyed with the listener.
  Id* listener = nullptr;

  // For a listener: how many more requests may be reported to the program, the
  // requests that wait beyond that, and the devices that listen for it.
  uint32_t backlog_left = 0;
  std::list<QueuedEvent> parked;  // a deque would take 448 bytes of every id
  std::vector<CmPort*> heard_on;

  std::vector<std::shared_ptr<Multicast>> multicasts;

  bool is_datagram() const { return qp_type == kQpTypeUd; }
};

}  // namespace urnic::rdmacm
