#pragma once

// The private interface between libibverbs and its providers, as of rdma-core
// 36 to 56 (file suffix "-rdmav34"). rdma-core ships no header for it, so it is
// declared here, as far as this provider uses it, from its binary layout.
//
// What changed within that range is only the size of struct ibv_qp_ex (344,
// 352, 360 bytes), see kQpExBytesMax. library_version.h keeps other releases
// away: a wrong layout would corrupt memory without a word.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <ctime>

// What libibverbs knows of a device that it found in sysfs; we only pass it by.
struct verbs_sysfs_dev;
struct verbs_device_ops;

// Allocated by us, zeroed, filled in by libibverbs.
struct verbs_device {
  ibv_device device;
  const verbs_device_ops* ops;
  int refcount;
  void* list_links[2];
  verbs_sysfs_dev* sysfs;
  uint64_t core_support;
};

// How a provider says which devices are its own; the table ends with an entry
// of kind 0.
struct verbs_match_ent {
  void* driver_data;
  const char* modalias;  // glob over "rdma_device:N" + the device's name
  uint16_t vendor;
  uint16_t device;
  uint8_t kind;
};
inline constexpr uint8_t kVerbsMatchModalias = 2;

struct verbs_device_ops {
  const char* name;
  uint32_t match_min_abi_version;
  uint32_t match_max_abi_version;
  const verbs_match_ent* match_table;
  const verbs_device_ops** static_providers;
  bool (*match_device)(verbs_sysfs_dev* sysfs);
  // Owns cmd_fd from here on, also when it fails.
  verbs_context* (*alloc_context)(ibv_device* device, int cmd_fd,
                                  void* private_data);
  verbs_context* (*import_context)(ibv_device* device, int cmd_fd);
  // Called with a lock held that every listing of devices needs.
  verbs_device* (*alloc_device)(verbs_sysfs_dev* sysfs);
  void (*uninit_device)(verbs_device* device);
};
static_assert(offsetof(verbs_device_ops, alloc_context) == 40);
static_assert(offsetof(verbs_device_ops, uninit_device) == 64);

struct verbs_mr {
  ibv_mr mr;
  int mr_type;  // an enum of libibverbs, kVerbsMr..
  int access;
};

// Only of plain ones libibverbs counts the memory (ibv_fork_init).
inline constexpr int kVerbsMrNull = 1;

// An ibv_qp may be asked whether it is an extended one: libibverbs looks behind
// the place of struct ibv_qp_ex, wherever its own release has that end, for a
// mark. Zeros up to here say no to all of them.
inline constexpr size_t kQpExBytesMax = 384;
inline constexpr uint32_t kVerbsQpEx = 2;

// Where the releases have that end, and the mark; with each, struct ibv_qp_ex
// got another pointer. It may differ from that of the header that we are built
// with.
inline constexpr size_t kQpExBytes43 = 344;
inline constexpr size_t kQpExBytes44 = 352;  // wr_atomic_write
inline constexpr size_t kQpExBytes45 = 360;  // wr_flush

// The operations, sorted by name; a null one is answered by libibverbs with
// EOPNOTSUPP. Those that are not written here are Unused.
struct verbs_context_ops {
  using Unused = void (*)();
  int (*advise_mr)(ibv_pd*, ibv_advise_mr_advice, uint32_t flags, ibv_sge*,
                   uint32_t num_sge);
  Unused alloc_dm;
  ibv_mw* (*alloc_mw)(ibv_pd*, ibv_mw_type);
  ibv_mr* (*alloc_null_mr)(ibv_pd*);
  ibv_pd* (*alloc_parent_domain)(ibv_context*, ibv_parent_domain_init_attr*);
  ibv_pd* (*alloc_pd)(ibv_context*);
  ibv_td* (*alloc_td)(ibv_context*, ibv_td_init_attr*);
  Unused async_event, attach_counters_point_flow;
  int (*attach_mcast)(ibv_qp*, const ibv_gid*, uint16_t lid);
  int (*bind_mw)(ibv_qp*, ibv_mw*, ibv_mw_bind*);
  int (*close_xrcd)(ibv_xrcd*);
  Unused cq_event;
  ibv_ah* (*create_ah)(ibv_pd*, ibv_ah_attr*);
  Unused create_counters;
  ibv_cq* (*create_cq)(ibv_context*, int cqe, ibv_comp_channel*,
                       int comp_vector);
  ibv_cq_ex* (*create_cq_ex)(ibv_context*, ibv_cq_init_attr_ex*);
  Unused create_flow, create_flow_action_esp;
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*);
  ibv_qp* (*create_qp_ex)(ibv_context*, ibv_qp_init_attr_ex*);
  Unused create_rwq_ind_table;
  ibv_srq* (*create_srq)(ibv_pd*, ibv_srq_init_attr*);
  ibv_srq* (*create_srq_ex)(ibv_context*, ibv_srq_init_attr_ex*);
  Unused create_wq;
  int (*dealloc_mw)(ibv_mw*);
  int (*dealloc_pd)(ibv_pd*);
  int (*dealloc_td)(ibv_td*);
  int (*dereg_mr)(verbs_mr*);
  int (*destroy_ah)(ibv_ah*);
  Unused destroy_counters;
  int (*destroy_cq)(ibv_cq*);
  Unused destroy_flow, destroy_flow_action;
  int (*destroy_qp)(ibv_qp*);
  Unused destroy_rwq_ind_table;
  int (*destroy_srq)(ibv_srq*);
  Unused destroy_wq;
  int (*detach_mcast)(ibv_qp*, const ibv_gid*, uint16_t lid);
  void (*free_context)(ibv_context*);
  Unused free_dm;
  int (*get_srq_num)(ibv_srq*, uint32_t* number);
  Unused import_dm, import_mr, import_pd;
  int (*modify_cq)(ibv_cq*, ibv_modify_cq_attr*);
  Unused modify_flow_action_esp;
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int mask);
  Unused modify_qp_rate_limit;
  int (*modify_srq)(ibv_srq*, ibv_srq_attr*, int mask);
  Unused modify_wq;
  ibv_qp* (*open_qp)(ibv_context*, ibv_qp_open_attr*);
  ibv_xrcd* (*open_xrcd)(ibv_context*, ibv_xrcd_init_attr*);
  int (*poll_cq)(ibv_cq*, int entries, ibv_wc*);
  int (*post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad);
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad);
  Unused post_srq_ops;
  int (*post_srq_recv)(ibv_srq*, ibv_recv_wr*, ibv_recv_wr** bad);
  int (*query_device_ex)(ibv_context*, const ibv_query_device_ex_input*,
                         ibv_device_attr_ex*, size_t bytes);
  int (*query_ece)(ibv_qp*, ibv_ece*);
  int (*query_port)(ibv_context*, uint8_t port, ibv_port_attr*);
  int (*query_qp)(ibv_qp*, ibv_qp_attr*, int mask, ibv_qp_init_attr*);
  Unused query_qp_data_in_order;
  int (*query_rt_values)(ibv_context*, ibv_values_ex*);
  int (*query_srq)(ibv_srq*, ibv_srq_attr*);
  Unused read_counters;
  Unused reg_dm_mr, reg_dmabuf_mr;
  ibv_mr* (*reg_mr)(ibv_pd*, void* address, size_t bytes, uint64_t iova,
                    int access);
  int (*req_notify_cq)(ibv_cq*, int solicited_only);
  int (*rereg_mr)(verbs_mr*, int flags, ibv_pd*, void* address, size_t bytes,
                  int access);
  int (*resize_cq)(ibv_cq*, int cqe);
  int (*set_ece)(ibv_qp*, ibv_ece*);
  Unused unimport_dm, unimport_mr, unimport_pd;
};
static_assert(sizeof(verbs_context_ops) == 76 * sizeof(void*));
static_assert(offsetof(verbs_context_ops, create_cq) == 15 * sizeof(void*));
static_assert(offsetof(verbs_context_ops, create_cq_ex) == 16 * sizeof(void*));
static_assert(offsetof(verbs_context_ops, destroy_cq) == 31 * sizeof(void*));
static_assert(offsetof(verbs_context_ops, free_context) == 39 * sizeof(void*));
static_assert(offsetof(verbs_context_ops, query_port) == 60 * sizeof(void*));

extern "C" {

void verbs_register_driver_34(const verbs_device_ops* ops);

// A zeroed structure of `bytes` from malloc, with a verbs_context at `offset`
// that has been set up. Owns cmd_fd, also when it fails.
void* _verbs_init_and_alloc_context(ibv_device* device, int cmd_fd,
                                    size_t bytes, verbs_context* offset,
                                    uint32_t driver_id);
// Closes cmd_fd and async_fd; the structure stays the caller's.
void verbs_uninit_context(verbs_context* context);
// Copies what is not null.
void verbs_set_ops(verbs_context* context, const verbs_context_ops* ops);

}  // extern "C"
