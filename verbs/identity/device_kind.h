#pragma once

// The kinds of device. A row holds what differs between kinds. What all kinds
// share is a constant where it is used (verbs/control/limits.h,
// device_identity.h). Sysfs, the matching of devices to the provider, queries,
// and the checks of create calls all read the row, so they agree.
// docs/design/0005 says how a kind is added.
//
// Plain C11, libc only, because the preload reads it.
//
// Thread: constants.

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Bits of `services`: bit n is QpService n (transport/work/types.h). Which
// requests a service has is in transport/work/request.h.
enum {
  URNIC_SERVICE_RC = 1 << 0,
  URNIC_SERVICE_UC = 1 << 1,
  URNIC_SERVICE_UD = 1 << 2,
  URNIC_SERVICE_XRC_INITIATOR = 1 << 3,
  URNIC_SERVICE_XRC_TARGET = 1 << 4,
  URNIC_SERVICE_IWARP = 1 << 5,
  URNIC_SERVICE_RUD = 1 << 6,
};

// Where the GIDs of a device come from.
enum urnic_gid_source {
  // Two for the link-local address and for each address of the port.
  URNIC_GIDS_OF_ADDRESSES,
  // One, made of the port's MAC. It says nothing about addresses.
  URNIC_GID_OF_MAC,
};

// The maximum numbers of objects of a device. Queries report them; creating one
// more fails with ENOMEM. Of max_mrs they report half as regions and half as
// windows.
struct urnic_device_limits {
  uint32_t max_qps;  // at most kMaxQueuePairs (transport/base/numbers.h)
  uint32_t max_cqs;
  uint32_t max_pds;
  uint32_t max_mrs;  // regions and windows together; a power of two
  uint32_t max_srqs;
  uint32_t max_ahs;
};

struct urnic_device_kind {
  // "urnic" in "urnic0": at most 14 letters, unique among the kinds.
  const char* name_prefix;
  // As users name it: "roce" in --transport roce. "both" means every kind.
  const char* transport;
  // As the kernel shows it: "1: CA" for the transports of IBTA, "4: RNIC" for
  // iWARP. libibverbs derives ibv_device::transport_type from it.
  const char* node_type;
  enum urnic_gid_source gid_source;
  uint32_t gid_table_len;  // at most URNIC_GID_TABLE_LEN
  int needs_grh;           // addresses are GIDs (IBV_QPF_GRH_REQUIRED)
  int has_pkeys;           // a table of P_Keys
  uint32_t services;       // of its queue pairs, URNIC_SERVICE_..
  struct urnic_device_limits limits;
};

// In the order in which the devices of a port are listed. rdma_cm prefers the
// first (urnic_rdma_cm_kind()).
enum {
  URNIC_DEVICE_ROCE,
  URNIC_DEVICE_IWARP,
  URNIC_DEVICE_KINDS,
};

extern const struct urnic_device_kind urnic_device_kinds[URNIC_DEVICE_KINDS];

#ifdef __cplusplus
}
#endif
