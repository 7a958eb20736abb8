#pragma once

// One rdma_cm id, as the kernel's struct rdma_id_private and ucma_context
// together. Plain data; service.h says who may touch it.

#include <cstdint>
#include <deque>
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
  uint32_t number = 0;  // in a number space of its own
  std::weak_ptr<Id> owner;
  uint64_t uid = 0;
  uint32_t events_reported = 0;
};

struct Id {
  static constexpr uint32_t kNoNumber = UINT32_MAX;

  // Its name in the connection manager; never reused.
  uint64_t serial = 0;
  // Its number in the program; none until the program knows the id.
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
  // Once there is a route.
  std::optional<net::PathQuery> path;
  uint8_t packet_rate = 0;
  uint8_t mtu_code = 0;
  // Of the path that was found: the largest IP packet, in bytes; 0: unknown.
  uint32_t path_mtu = 0;
  // While the address is being resolved.
  std::shared_ptr<Resolution> resolution;

  // Of the connection.
  CmHandle handle;
  uint32_t qpn = 0;
  uint32_t starting_psn = 0;
  bool srq = false;
  uint32_t qkey = 0;

  // Of a request that the program does not know yet: its listener. The request
  // is destroyed with the listener.
  Id* listener = nullptr;

  // Of a listener: how many more requests may be reported to the program, the
  // requests that wait beyond that, and the devices that listen for it.
  uint32_t backlog_left = 0;
  std::deque<QueuedEvent> parked;
  std::vector<CmPort*> heard_on;

  std::vector<std::shared_ptr<Multicast>> multicasts;

  bool is_datagram() const { return qp_type == kQpTypeUd; }
};

}  // namespace urnic::rdmacm
