#pragma once

// The identity of the RNICs of a process: names, addresses, MACs, GUIDs, GID
// tables.
//
// The preload renders it into sysfs, the provider answers verbs queries with it
// and uses it on the wire, and the command checks it before it starts a
// program. All three parse the same text with the same code, so they cannot
// disagree. Plain C11, libc only, because the preload may link nothing else.
//
// The text (URNIC_PORTS):
//
//   PORTS  = ENTRY *( ";" ENTRY ) [ ";" ]        at most URNIC_MAX_PORTS
//   ENTRY  = DEV *( "|" FIELD )                  the n-th port has device
//                                                urnic<n>, iwurnic<n> or both
//   FIELD  = ADDR                                at most URNIC_MAX_ADDRS; one
//                                                that a host can have there
//          | "transport=" ("roce" | "iwarp" | "both")
//                                                once; which devices it has
//          | "mtu=" N                            bytes of an IP packet
//          | "mac=port"                          use the interface's own MAC
//          | "vlan=" N                           1 to 4094: frames are tagged,
//                                                both ways; others are not ours
//          | "route=" ROUTE                      verbs/identity/ip_route.h;
//                                                at most URNIC_MAX_ROUTES
//          | "pkey=" HEX                         at most URNIC_MAX_PKEYS - 1
//          | "fault=" SPEC                       once; not on loop
//          | "iwarp=" SPEC                       once; with an iWARP device
//   ADDR   = IP "/" LEN [ ",iwarp" ]             marked: for iWARP
//   DEV    = "loop"                              talks to itself only
//          | "iface:" NAME | "xdp:" NAME         a kernel interface
//          | [DOMAIN ":"] BUS ":" SLOT "." FN ["," ARGS]       a PCI device
//          | "net_" DRIVER ["," ARGS]            a DPDK virtual device
//          | "ring:" NAME (":a" | ":b")          an end of a local ring
//
// The SPEC of "fault=" describes deliberate faults of the port's wire, that of
// "iwarp=" what the iWARP device does differently. Each is parsed where it is
// used (transport/impair/fault_spec.h, transport/iwarp/options/options_spec.h)
// and contains no "|" or ";".
//
// Fields come in any order. Only a ROUTE contains white space. DPDK device
// strings contain commas and equal signs but neither "|" nor ";", hence these
// separators. Two entries may not name the same DEV, except "loop".
//
// Without "transport=", a port has a RoCE device, and an iWARP device too if an
// address is marked. Both devices have all addresses of the port. The mark only
// says which of them rdma_cm takes (urnic_rdma_cm_kind()) to connect, or to
// listen at this address alone.
//
// Thread: every function is safe from any thread and keeps no state. Nothing
// allocates. struct urnic_device_identity is about 3 KB: an array of them
// belongs in static or heap memory, because program stacks may be small.

#include <stddef.h>
#include <stdint.h>

#include "verbs/identity/device_kind.h"
#include "verbs/identity/ip_route.h"

#ifdef __cplusplus
extern "C" {
#endif

// As many as there are NIC ordinals (transport/base/numbers.h).
#define URNIC_MAX_PORTS 8
// A port has at most one device of each kind.
#define URNIC_MAX_DEVICES (URNIC_MAX_PORTS * URNIC_DEVICE_KINDS)
#define URNIC_DEVICE_NAME_SIZE 16
#define URNIC_MAX_ADDRS 16
//= IEEE 802.1Q 9.6: VLAN ID 0 means no VLAN, and VLAN ID 4095 is reserved
#define URNIC_MAX_VLAN 4094
// In the configuration; `urnic route` can add more.
#define URNIC_MAX_ROUTES 16
// Sizes of a SPEC in bytes, with the terminator.
#define URNIC_MAX_FAULT 256
#define URNIC_MAX_IWARP 128
// Size of the P_Key table: the default one and those of the fields.
#define URNIC_MAX_PKEYS 16
#define URNIC_PKEY_DEFAULT 0xffff
// Linux's order: the link-local GID, then the addresses, each as RoCE v1 and
// then as RoCE v2. So the first address is RoCE v2 at index 3, on every host.
#define URNIC_GID_TABLE_LEN (2 * (1 + URNIC_MAX_ADDRS))

// IP packet sizes in bytes. The minimum carries an IB MTU of 256. The default
// of virtual ports is the smallest round figure that carries IB MTU 4096
// (4096 + 96 of headers): both ends must agree without negotiating, and a
// larger one would only cost buffer memory.
#define URNIC_PORT_MTU_MIN 352
#define URNIC_PORT_MTU_MAX 9000
#define URNIC_PORT_MTU_VIRTUAL 4200
// For a physical network whose MTU is unknown: a switch drops larger frames
// silently.
#define URNIC_PORT_MTU_PHYSICAL 1500

// Values that both sysfs and the verbs queries report. The rate is IBV_SPEED 32
// (EDR), IBV_WIDTH 4X. A software port has no speed; the figure is for programs
// that want one.
#define URNIC_FW_VERSION "0.1.0"
#define URNIC_HW_REVISION 1
#define URNIC_PORT_RATE_TEXT "100 Gb/sec (4X EDR)"
#define URNIC_PORT_ACTIVE_SPEED 32
#define URNIC_PORT_ACTIVE_WIDTH 2
#define URNIC_PORT_CAP_FLAGS 0x00010000u  // IBV_PORT_CM_SUP
#define URNIC_PROVIDER_ABI 1  // uverbsN/abi_version, match_*_abi_version

enum urnic_port_kind {
  URNIC_PORT_LOOP,
  URNIC_PORT_IFACE,
  URNIC_PORT_XDP,
  URNIC_PORT_PCI,
  URNIC_PORT_VDEV,
};

enum urnic_gid_type {
  URNIC_GID_NONE = 0,
  URNIC_GID_ROCE_V1 = 1,
  URNIC_GID_ROCE_V2 = 2,
};

// All address bytes are in network order.
struct urnic_gid_entry {
  uint8_t gid[16];
  int type;  // enum urnic_gid_type; NONE: the index is valid but empty
};

struct urnic_ip_address {
  uint8_t bytes[16];   // IPv4 uses the first four
  uint8_t is_ipv6;     // 0 or 1
  uint8_t prefix_len;  // 1 to 32, 1 to 128
  uint8_t is_iwarp;    // 0 or 1: marked
};

struct urnic_device_identity {
  char name[URNIC_DEVICE_NAME_SIZE];  // "urnic0"
  // Of the first device of its port: the name of the port in messages and for
  // `urnic`.
  char port_name[URNIC_DEVICE_NAME_SIZE];
  char dev[512];                // DEV as given
  char ifname[16];              // kernel interface of IFACE and XDP, else ""
  char fault[URNIC_MAX_FAULT];  // SPEC as given, else ""
  char iwarp[URNIC_MAX_IWARP];  // the same
  int port_kind;                // enum urnic_port_kind
  int ordinal;                  // of its port in URNIC_PORTS, 0 based
  int node;                     // its uverbs node: position among all devices
  uint32_t kinds;               // of the port's devices: 1 << URNIC_DEVICE_..
  int mac_is_port;              // "mac=port" was given
  uint32_t vlan;                // of its frames; 0: they are untagged
  uint32_t mtu;                 // bytes of an IP packet on this port, now
  int mtu_is_given;             // "mtu=" was given: the MTU never exceeds it
  uint32_t num_addresses;
  struct urnic_ip_address addresses[URNIC_MAX_ADDRS];
  uint32_t num_routes;
  struct urnic_ip_route routes[URNIC_MAX_ROUTES];
  uint8_t mac[6];
  // RoCE: EUI-64 of the MAC. iWARP: the MAC and two zeros, because librdmacm
  // tells devices apart by this number.
  uint8_t node_guid[8];
  uint8_t sys_image_guid[8];  // EUI-64 of the MAC: the same for its port
  struct urnic_gid_entry gids[URNIC_GID_TABLE_LEN];
  uint32_t num_pkeys;  // at least 1
  // The default P_Key, then as given. Bit 15: full member.
  uint16_t pkeys[URNIC_MAX_PKEYS];
  // A row of urnic_device_kinds[] in the library that parsed this. Last, and
  // not valid in another library: the preload and the provider exchange this
  // struct (preload_api.h).
  const struct urnic_device_kind* device_kind;
};

// A number for this host and network namespace, from /etc/machine-id (or the
// host name) and the namespace's inode. Stable as long as both exist.
uint64_t urnic_host_identity(void);

// The MAC of an RNIC, 6 bytes: locally administered, and a hash of the host,
// the device's text, its ordinal and its first address (16 bytes as in struct
// urnic_ip_address; NULL: no address).
void urnic_derive_mac(uint64_t host, const char* dev, int ordinal,
                      const uint8_t* address, uint8_t* mac);

// Parses one ADDR. On a mistake returns -EINVAL, sets `error` as below, and
// does not change `out`.
int urnic_ip_address_parse(const char* text, struct urnic_ip_address* out,
                           char* error, size_t error_size);

//= IBTA A17.4.1: the GID of an IPv6 address is the address, that of an IPv4
//= address its IPv4-mapped form
void urnic_ip_address_gid(const struct urnic_ip_address* address, uint8_t* gid);

// The name of the device of this kind on this port: "urnic0".
void urnic_device_name(int kind, int ordinal,
                       char name[URNIC_DEVICE_NAME_SIZE]);

// Makes `device`, a device of any kind on a port, the device of this kind on
// the same port: its name, kind, node GUID and GIDs (of the configured
// addresses). `node` does not change.
void urnic_device_identity_become(struct urnic_device_identity* device,
                                  int kind);

// The rule for an address that several devices of a port (`kinds`) could serve:
// the kind of the device that rdma_cm takes. iWARP if the address is marked, or
// if the port has no RoCE device; else RoCE. The link-local address has no
// mark.
int urnic_rdma_cm_kind(uint32_t kinds, int is_marked);

// For devices with GIDs of addresses: puts `gid` at indices 2 * pair (RoCE v1)
// and 2 * pair + 1 (v2) of the table, or empties both (NULL). Pair 0 is the
// link-local one.
void urnic_device_identity_set_gid(struct urnic_device_identity* device,
                                   uint32_t pair, const uint8_t* gid);

// Reads `ports` into `devices`, which has room for URNIC_MAX_DEVICES, and
// returns how many there are (0 for NULL or ""). They are in the order of the
// ports, and those of one port in the order of their kinds. For IFACE and XDP
// it asks the kernel for the interface's MTU, through a socket that is closed
// again. MACs are derived from `host`, DEV, the ordinal and the first address:
// the same on every run, and different at the two ends of a virtual cable, even
// in one namespace.
//
// On a mistake returns -errno, and `error` (of `error_size` bytes, always
// terminated) names the entry, the value and the limit:
//   EINVAL        not of the grammar, an unusable value, or an address
//                 that is marked for iWARP, or iwarp=, on a port without it
//   E2BIG         more ports, addresses, routes or P_Keys than the limit, or
//                 too long a text
//   EEXIST        an address, a P_Key, a VLAN or a DEV given twice
//   ENODEV        no such kernel interface
//   ERANGE        MTU or VLAN out of range, or an MTU above the interface's
//   another errno from the kernel when the interface could not be asked
int urnic_device_identity_parse(const char* ports, uint64_t host,
                                struct urnic_device_identity* devices,
                                char* error, size_t error_size);

// The same, with the environment variable URNIC_PORTS and this host.
int urnic_device_identity_from_env(struct urnic_device_identity* devices,
                                   char* error, size_t error_size);

// The largest IB MTU (256, 512, 1024, 2048 or 4096 bytes) whose packets fit the
// port MTU with the largest headers of any transport; 0 if none fits. The rule
// is that of Linux's iboe_get_mtu(), so that the peers of a network agree.
uint32_t urnic_ib_mtu(uint32_t port_mtu);

// "loop", "iface", "xdp", "pci", "vdev".
const char* urnic_port_kind_name(int kind);

#ifdef __cplusplus
}
#endif
