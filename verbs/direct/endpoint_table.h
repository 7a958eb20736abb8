#pragma once

/*
 * How the library finds the functions of endpoints: as in provider_table.h.
 * They are in the provider because it is in C++ and has its own run-time
 * library. They use only the functions of provider_table.h, so any other
 * library could contain them.
 */

#include "verbs/direct/urnic_ep.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each endpoint begins with a pointer to this table, so that calls on an open
 * endpoint need no search. */
struct urnic_ep_table {
  uint32_t bytes; /* of the table */
  struct urnic_ep* (*open)(const struct urnic_ep_nic* nics, uint32_t count,
                           const struct urnic_ep_attr* attr);
  int (*close)(struct urnic_ep* endpoint);
  int (*address)(struct urnic_ep* endpoint, void* address, size_t* bytes);
  int (*add_peer)(struct urnic_ep* endpoint, const void* address, size_t bytes,
                  uint32_t* peer);
  int (*remove_peer)(struct urnic_ep* endpoint, uint32_t peer);
  int (*register_memory)(struct urnic_ep* endpoint, void* addr, uint64_t bytes,
                         unsigned access, uint64_t* pvo);
  int (*deregister)(struct urnic_ep* endpoint, uint64_t pvo);
  int (*write)(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
               uint64_t remote_pvo, uint64_t bytes, uint64_t user);
  int (*read)(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
              uint64_t remote_pvo, uint64_t bytes, uint64_t user);
  int (*send)(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
              uint64_t bytes, uint64_t user);
  int (*write_inline)(struct urnic_ep* endpoint, uint32_t peer,
                      const void* data, uint32_t bytes, uint64_t remote_pvo,
                      uint64_t user);
  int (*send_inline)(struct urnic_ep* endpoint, uint32_t peer, const void* data,
                     uint32_t bytes, uint64_t user);
  int (*flush)(struct urnic_ep* endpoint);
  uint32_t (*poll)(struct urnic_ep* endpoint, struct urnic_ep_event* events,
                   uint32_t most);
  int (*query_paths)(struct urnic_ep* endpoint, uint32_t peer,
                     struct urnic_ep_path* paths, uint32_t* count);
  int (*query_stats)(struct urnic_ep* endpoint, struct urnic_ep_stats* stats);
  int (*wait)(struct urnic_ep* endpoint, int timeout_ms);
};
struct urnic_ep {
  const struct urnic_ep_table* table;
};

#define URNIC_EP_TABLE "urnic_ep_table_v1"
extern const struct urnic_ep_table urnic_ep_table_v1;

#ifdef __cplusplus
}
#endif
