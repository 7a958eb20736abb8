#pragma once

// Who holds the names by which RNICs claim ports and ordinals
// (datapath/port/port_claim.h): abstract unix sockets, which belong to a
// network namespace and which any user may bind. The kernel tells whose socket
// each is (sock_diag(7)), without asking the holder anything. Any thread; not
// for hot paths.

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// A port's name is this and its identity (datapath/port/port_spec.h), an
// ordinal's this and its number.
#define URNIC_CLAIM_PORT "urnic-port-"
#define URNIC_CLAIM_ORDINAL "urnic-ordinal-"
#define URNIC_CLAIM_ORDINALS 8

struct urnic_claim_holder {
  // Behind the zero that makes it abstract; may hold zeros, is not terminated,
  // valid during the call.
  const char* name;
  size_t name_bytes;
  // Whose socket it is, as this user namespace counts.
  uid_t uid;
  // As fstat(2) says of its descriptor.
  unsigned inode;
};

// Calls `visit` for each stream socket of this network namespace whose abstract
// name begins with `prefix` and that listens, or may be about to. 0, or -errno:
// this kernel or sandbox does not tell (before Linux 5.3, without unix_diag).
int urnic_claim_visit(const char* prefix,
                      void (*visit)(void* context,
                                    const struct urnic_claim_holder* holder),
                      void* context);

// Whether a process of user `uid` may hold the claim of a port: root may, and
// this process's own user; of "iface:NAME" also whoever has a packet socket on
// that interface, which takes CAP_NET_RAW. NULL for `identity`: an ordinal.
int urnic_claim_has_right(const char* identity, uid_t uid);

#ifdef __cplusplus
}
#endif
