#pragma once

// The arguments and events between the rdma_cm device and the connection
// managers of its RNICs (cm_port.h). All are values, in the terms of rdma_cm,
// not of MADs or TCP.

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <optional>

#include "transport/net/path.h"
#include "verbs/rdmacm/address.h"

namespace urnic::rdmacm {

// enum rdma_ucm_port_space.
//= IBTA A11.2: bytes 4 and 5 of a service ID are the port space
enum class PortSpace : uint16_t {
  kIb = 0x013f,
  kTcp = 0x0106,
  kUdp = 0x0111,
};

// The number by which a peer finds a listener on this port.
inline uint64_t ServiceId(PortSpace space, uint16_t port) {
  return uint64_t{static_cast<uint16_t>(space)} << 16 | port;
}

// Values of enum ib_qp_type: the queue pairs that can be connected.
inline constexpr uint8_t kQpTypeRc = 2;
inline constexpr uint8_t kQpTypeUc = 3;
inline constexpr uint8_t kQpTypeUd = 4;
inline constexpr uint8_t kQpTypeXrcInitiator = 9;
inline constexpr uint8_t kQpTypeXrcTarget = 10;

// The values of enum rdma_cm_event_type of <rdma/rdma_cma.h> that occur.
enum class EventType : uint32_t {
  kAddrResolved = 0,
  kAddrError = 1,
  kRouteResolved = 2,
  kConnectRequest = 4,
  kConnectResponse = 5,
  kConnectError = 6,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kDeviceRemoval = 11,
  kMulticastJoin = 12,
  kTimewaitExit = 15,
};

// A connection or a datagram resolution of a manager, until Destroy(). 0 is
// invalid.
struct CmHandle {
  uint32_t value = 0;
  bool valid() const { return value != 0; }
};

// The place of a listener.
struct Listening {
  PortSpace space = PortSpace::kTcp;
  SocketAddress address;  // with its port; may be "any"
};

// rdma_connect().
struct ConnectRequest {
  PortSpace space = PortSpace::kTcp;
  uint8_t qp_type = kQpTypeRc;
  SocketAddress source;  // with their ports
  SocketAddress destination;
  net::PathQuery path;
  uint8_t packet_rate = 0;
  uint8_t mtu_code = 0;
  std::optional<uint8_t> ack_timeout;
  uint32_t starting_psn = 0;
  rdma_ucm_conn_param params = {};
  rdma_ucm_ece ece = {};
};

// rdma_accept() of a request.
struct AcceptRequest {
  uint32_t qpn = 0;
  uint32_t starting_psn = 0;
  uint32_t qkey = 0;  // of datagrams
  rdma_ucm_conn_param params = {};
  rdma_ucm_ece ece = {};
};

// A peer asks for a connection.
struct CmRequest {
  CmHandle handle;
  PortSpace space = PortSpace::kTcp;
  uint8_t qp_type = kQpTypeRc;  // of the queue pair that answers
  SocketAddress called;         // ours; with their ports
  SocketAddress caller;
  bool roce_v1 = false;
  std::optional<net::PathQuery> path;
  uint8_t packet_rate = 0;
  uint8_t mtu_code = 0;
  // Parameters and private data.
  rdma_ucm_event_resp response = {};
};

// An event of a connection. Only type, status, parameters, private data and ECE
// are set in the response.
struct CmEvent {
  CmHandle handle;
  uint64_t user = 0;
  rdma_ucm_event_resp response = {};

  EventType type() const { return static_cast<EventType>(response.event); }
  void set_type(EventType type, int status = 0) {
    response.event = static_cast<uint32_t>(type);
    response.status = static_cast<uint32_t>(status);
  }
};

}  // namespace urnic::rdmacm
