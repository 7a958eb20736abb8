#pragma once

// Parses the DEV strings that select a port: `--port DEV`,
// URNIC_PORTS="DEV|IP/LEN;..".
//
//   iface:NAME        a kernel interface, through its packet socket
//   loop              no wire: an RNIC that only talks to itself
//   ring:NAME:a|b     one end of a pair of rings inside this process
//   net_DRIVER..,K=V  a DPDK virtual device: net_virtio_user, net_vhost,
//                     net_memif, net_af_packet, net_ring, net_tap, net_null
//                     (net_memif without socket=: a file of this user's own)
//   a PCI address, xdp:NAME: known, but this build carries no driver for them
//
// A DPDK string is passed on as the user wrote it; arguments that matter are
// added if missing (see AddDefaults in the .cc). Only the number after the
// driver's name is replaced, by one that is unique in the process.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "datapath/port/port_driver.h"
#include "transport/impair/fault_spec.h"
#include "verbs/identity/device_identity.h"

namespace urnic {

struct PortSpec {
  PortKind kind = PortKind::kLoop;
  // The resource that the string means: two strings with the same identity
  // cannot be open at the same time. Also its name in messages.
  std::string identity;
  // For rte_dev_probe(): `driver` + a number, then `args` (",k=v,k=v" or "").
  std::string driver;
  std::string args;
  // kAfPacket: the kernel interface. kRing: NAME. Otherwise empty.
  std::string name;
  // kRing: 0 for a, 1 for b.
  int side = 0;
  // The unix socket of virtio_user, vhost and memif in the file system; empty
  // for an abstract one.
  std::string socket_path;
  // kMemif: the socket's name for unix_socket.h, abstract or not. Otherwise
  // empty.
  std::string socket;
  // The socket file is our choice, and only for this user: mode 0600.
  bool socket_is_private = false;
  // Our side waits for peers at a socket, and creates its file if it has one.
  bool listens = false;
  // The probe returns only when a peer has connected (virtio_user server).
  bool probe_waits = false;

  // The device may do the checksums of TCP, if it can. Not set for net_tap,
  // which computes them in software, too, or with faults of the wire, because
  // damaged frames must not get a right checksum.
  bool may_leave_tcp_checksums = false;

  // Injected faults of the device. FaultPort handles `frozen` and `stuck`.
  impair::DeviceFaults faults;

  // Slots of each ring if the arguments determine them; 0 if the peer does
  // (vhost), or if they are unknown (kOther).
  uint16_t ring_slots = 0;

  uint16_t mtu = 0;
  // The longest frame, and the room that one buffer needs for it including
  // the headroom (af_packet: also for what its ring slots can hold).
  uint16_t frame_bytes_max = 0;
  uint16_t data_room = 0;

  // The argument that probes instance `number`.
  std::string Devargs(unsigned number) const;
};

// Slots of each ring of a ring: pair.
inline constexpr uint16_t kRingPairSlots = 1024;

// The limits and defaults, which also apply to URNIC_PORTS.
inline constexpr uint16_t kMtuMin = URNIC_PORT_MTU_MIN;
inline constexpr uint16_t kMtuMax = URNIC_PORT_MTU_MAX;
inline constexpr uint16_t kVirtualMtu = URNIC_PORT_MTU_VIRTUAL;

// `mtu` 0 means kVirtualMtu, or the interface's if that is larger (at most
// kMtuMax): a smaller one may grow later. Reads the interface's MTU and the
// limit of locked memory. Changes nothing, except that it creates the directory
// of memif's own socket (urnic_owner_dir()). INVALID_ARGUMENT: malformed, or an
// MTU out of range or above the interface's, or no such directory.
// UNIMPLEMENTED: no driver in this build.
absl::StatusOr<PortSpec> ParsePortSpec(std::string_view dev, uint16_t mtu);

}  // namespace urnic
