#pragma once

/*
 * How the library finds the functions of the provider that has opened a device:
 * the shared object that contains the device's operations also exports a table
 * as one symbol. A forked child has a copy of the provider
 * (verbs/provider/fresh_copy.h); the devices that it opens lead to this copy.
 */

#include "verbs/direct/urnic_dv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of urnic_dv.h. New ones are added at the end, and old ones
 * stay, because a program may have been linked to another version of the
 * library. */
struct urnic_dv_table {
  uint32_t bytes; /* of the table */
  struct ibv_qp* (*create_window)(struct ibv_pd*,
                                  const struct urnic_dv_window_attr*,
                                  struct urnic_dv_window*);
  int (*add_peer)(struct ibv_qp*, const struct urnic_dv_peer_attr*, uint32_t*);
  int (*remove_peer)(struct ibv_qp*, uint32_t);
  int (*acquire_contexts)(struct ibv_qp*, uint32_t, uint64_t*);
  int (*release_context)(struct ibv_qp*, uint64_t);
  int (*register_memory)(struct ibv_context*, uint32_t job, void*,
                         uint64_t bytes, unsigned access, uint64_t* pvo);
  int (*deregister)(struct ibv_context*, uint32_t job, uint64_t pvo);
  int (*ring)(struct ibv_qp*);
  int (*progress)(struct ibv_qp*);
  int (*revoke)(struct ibv_context*, uint32_t job, uint64_t pvo);
  int (*revoke_job)(struct ibv_context*, uint32_t job);
  int (*read_snapshot)(struct ibv_context*, uint64_t*);
  struct urnic_dv_handler* (*create_handler)(
      struct ibv_context*, const struct urnic_dv_handler_attr*);
  int (*destroy_handler)(struct ibv_context*, struct urnic_dv_handler*);
  int (*arm_handler)(struct ibv_context*, struct urnic_dv_handler*);
  int (*disarm_handler)(struct ibv_context*, struct urnic_dv_handler*);
  int (*bind_handlers)(struct ibv_qp*, const struct urnic_dv_wake_attr*);
  int (*join_group)(struct ibv_qp*, const struct urnic_dv_group_attr*);
  int (*leave_group)(struct ibv_qp*, const union ibv_gid*, uint32_t peer);
};

#define URNIC_DV_TABLE "urnic_dv_table_v1"
extern const struct urnic_dv_table urnic_dv_table_v1;

#ifdef __cplusplus
}
#endif
