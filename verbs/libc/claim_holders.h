#pragma once

// Finds the holders of the names by which RNICs claim ports and ordinals
// (datapath/port/port_claim.h). The names are abstract unix sockets, which
// belong to a network namespace and which any user may bind. The kernel reports
// the owner of each (sock_diag(7)) without asking the holder. Any thread; not
// for hot paths.

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// The name of a port is this prefix and the port's identity
// (datapath/port/port_spec.h). The name of an ordinal is this prefix and its
// number.
#define URNIC_CLAIM_PORT "urnic-port-"
#define URNIC_CLAIM_ORDINAL "urnic-ordinal-"
#define URNIC_CLAIM_ORDINALS 8

struct urnic_claim_holder {
  // The name after the zero byte that makes it abstract. It may contain zeros,
  // is not terminated, and is valid during the call.
  const char* name;
  size_t name_bytes;
  // The owner's user id, in this user namespace.
  uid_t uid;
  // As fstat(2) reports for its descriptor.
  unsigned inode;
};

// Calls `visit` for each stream socket of this network namespace whose abstract
// name begins with `prefix` and that listens, or may be about to. Returns 0, or
// -errno if this kernel or sandbox has no such list (before Linux 5.3, without
// unix_diag).
int urnic_claim_visit(const char* prefix,
                      void (*visit)(void* context,
                                    const struct urnic_claim_holder* holder),
                      void* context);

// Whether a process of user `uid` may hold the claim of a port. Root and this
// process's user may. The claim of "iface:NAME" may also be held by a user with
// a packet socket on that interface, which takes CAP_NET_RAW. `identity` is
// NULL for an ordinal.
int urnic_claim_has_right(const char* identity, uid_t uid);

#ifdef __cplusplus
}
#endif
