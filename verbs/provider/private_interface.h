#pragma once

// The private interface between libibverbs and its providers, as of rdma-core
// 36 to 65 (file suffixes "-rdmav34" to "-rdmav65"). rdma-core ships no header
// for it, so the parts that this provider uses are declared here, from their
// binary layout.
//
// Within that range three things have changed: the operations, which are sorted
// by name and so move with each new one (kAddedOperations); the size of struct
// verbs_context (VerbsContextBytes()); and that of struct ibv_qp_ex
// (kQpExBytesMax). Releases are identified by their newest public symbols,
// IBVERBS_1.<minor>; loaded_library.h refuses others, because a wrong layout
// would silently corrupt memory.

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>

// The data of libibverbs about a device in sysfs. We do not use it.
struct verbs_sysfs_dev;
struct verbs_device_ops;

// Allocated by us, zeroed, filled in by libibverbs.
struct verbs_device {
  ibv_device device;
  const verbs_device_ops* ops;
  int refcount;
  void* list_links[2];
  verbs_sysfs_dev* sysfs;
  uint64_t core_support;  // IB_UVERBS_CORE_SUPPORT_*
};

// With this bit, the flags of IBV_ACCESS_OPTIONAL_RANGE reach the device.
// Without it, libibverbs clears them.
inline constexpr uint64_t kCoreSupportOptionalMrAccess = 1;

// An entry of the table in which a provider lists its devices; the table ends
// with an entry of kind 0.
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
  // Owns cmd_fd from now on, even if it fails.
  verbs_context* (*alloc_context)(ibv_device* device, int cmd_fd,
                                  void* private_data);
  verbs_context* (*import_context)(ibv_device* device, int cmd_fd);
  // Called with a lock held that every list of devices needs.
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

// libibverbs does not track the memory of this type (ibv_fork_init).
inline constexpr int kVerbsMrNull = 1;

// libibverbs recognizes an extended queue pair by a mark at the end of struct
// ibv_qp_ex, whose size depends on the release. If all bytes up to this size
// are zero, no release finds the mark.
inline constexpr size_t kQpExBytesMax = 384;
inline constexpr uint32_t kVerbsQpEx = 2;

// The sizes of struct ibv_qp_ex in the releases; each has appended a pointer.
// The header that we are built with may have another size.
inline constexpr size_t kQpExBytes43 = 344;
inline constexpr size_t kQpExBytes44 = 352;  // wr_atomic_write
inline constexpr size_t kQpExBytes45 = 360;  // wr_flush

// The operations of the newest release, sorted by name. For a null operation,
// libibverbs returns EOPNOTSUPP. Operations that we do not have are Unused.
struct verbs_context_ops {
  using Unused = void (*)();
  int (*advise_mr)(ibv_pd*, ibv_advise_mr_advice, uint32_t flags, ibv_sge*,
                   uint32_t num_sge);
  Unused alloc_buf, alloc_dm, alloc_dmah;
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
  Unused create_comp_cntr, create_counters;
  ibv_cq* (*create_cq)(ibv_context*, int cqe, ibv_comp_channel*,
                       int comp_vector);
  ibv_cq_ex* (*create_cq_ex)(ibv_context*, ibv_cq_init_attr_ex*);
  Unused create_flow, create_flow_action_esp;
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*);
  ibv_qp* (*create_qp_ex)(ibv_context*, ibv_qp_init_attr_ex*);
  Unused create_rwq_ind_table;
  ibv_srq* (*create_srq)(ibv_pd*, ibv_srq_init_attr*);
  ibv_srq* (*create_srq_ex)(ibv_context*, ibv_srq_init_attr_ex*);
  Unused create_wq, dealloc_dmah;
  int (*dealloc_mw)(ibv_mw*);
  int (*dealloc_pd)(ibv_pd*);
  int (*dealloc_td)(ibv_td*);
  int (*dereg_mr)(verbs_mr*);
  int (*destroy_ah)(ibv_ah*);
  Unused destroy_comp_cntr, destroy_counters;
  int (*destroy_cq)(ibv_cq*);
  Unused destroy_flow, destroy_flow_action;
  int (*destroy_qp)(ibv_qp*);
  Unused destroy_rwq_ind_table;
  int (*destroy_srq)(ibv_srq*);
  Unused destroy_wq;
  int (*detach_mcast)(ibv_qp*, const ibv_gid*, uint16_t lid);
  Unused dm_export_dmabuf_fd, free_buf;
  void (*free_context)(ibv_context*);
  Unused free_dm;
  int (*get_srq_num)(ibv_srq*, uint32_t* number);
  Unused import_dm, import_mr, import_pd, inc_comp_cntr, inc_err_comp_cntr;
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
  Unused qp_attach_comp_cntr, query_comp_cntr_caps;
  int (*query_device_ex)(ibv_context*, const ibv_query_device_ex_input*,
                         ibv_device_attr_ex*, size_t bytes);
  int (*query_ece)(ibv_qp*, ibv_ece*);
  int (*query_port)(ibv_context*, uint8_t port, ibv_port_attr*);
  int (*query_port_speed)(ibv_context*, uint32_t port, uint64_t* speed);
  int (*query_qp)(ibv_qp*, ibv_qp_attr*, int mask, ibv_qp_init_attr*);
  Unused query_qp_data_in_order;
  int (*query_rt_values)(ibv_context*, ibv_values_ex*);
  int (*query_srq)(ibv_srq*, ibv_srq_attr*);
  Unused read_comp_cntr, read_counters, read_err_comp_cntr;
  Unused reg_dm_mr, reg_dmabuf_mr;
  ibv_mr* (*reg_mr)(ibv_pd*, void* address, size_t bytes, uint64_t iova,
                    int access);
  Unused reg_mr_ex;
  int (*req_notify_cq)(ibv_cq*, int solicited_only);
  int (*rereg_mr)(verbs_mr*, int flags, ibv_pd*, void* address, size_t bytes,
                  int access);
  int (*resize_cq)(ibv_cq*, int cqe);
  Unused set_comp_cntr;
  int (*set_ece)(ibv_qp*, ibv_ece*);
  Unused set_err_comp_cntr;
  Unused unimport_dm, unimport_mr, unimport_pd;
};
inline constexpr size_t kOperations =
    sizeof(verbs_context_ops) / sizeof(verbs_context_ops::Unused);

inline constexpr int kOldestMinor = 14;
// Which operations later releases have added to those of kOldestMinor.
struct AddedOperation {
  int minor;
  size_t offset;
};
inline constexpr AddedOperation kAddedOperations[] = {
    {15, offsetof(verbs_context_ops, alloc_dmah)},
    {15, offsetof(verbs_context_ops, dealloc_dmah)},
    {15, offsetof(verbs_context_ops, reg_mr_ex)},
    {16, offsetof(verbs_context_ops, dm_export_dmabuf_fd)},
    {16, offsetof(verbs_context_ops, query_port_speed)},
    {17, offsetof(verbs_context_ops, alloc_buf)},
    {17, offsetof(verbs_context_ops, free_buf)},
    {18, offsetof(verbs_context_ops, create_comp_cntr)},
    {18, offsetof(verbs_context_ops, destroy_comp_cntr)},
    {18, offsetof(verbs_context_ops, inc_comp_cntr)},
    {18, offsetof(verbs_context_ops, inc_err_comp_cntr)},
    {18, offsetof(verbs_context_ops, qp_attach_comp_cntr)},
    {18, offsetof(verbs_context_ops, query_comp_cntr_caps)},
    {18, offsetof(verbs_context_ops, read_comp_cntr)},
    {18, offsetof(verbs_context_ops, read_err_comp_cntr)},
    {18, offsetof(verbs_context_ops, set_comp_cntr)},
    {18, offsetof(verbs_context_ops, set_err_comp_cntr)},
};

// For each operation of `minor`, in its order, the index in verbs_context_ops;
// after the last one, kOperations.
constexpr std::array<size_t, kOperations> OperationsOf(int minor) {
  std::array<size_t, kOperations> result;
  result.fill(kOperations);
  size_t count = 0;
  for (size_t i = 0; i < kOperations; ++i) {
    const bool later = std::any_of(
        std::begin(kAddedOperations), std::end(kAddedOperations),
        [&](const AddedOperation& added) {
          return added.offset == i * sizeof(void*) && added.minor > minor;
        });
    if (!later) result[count++] = i;
  }
  return result;
}

// The number of operations of `minor`, and the position of one of them.
constexpr size_t CountOperations(int minor) {
  const auto all = OperationsOf(minor);
  return static_cast<size_t>(std::find(all.begin(), all.end(), kOperations) -
                             all.begin());
}
constexpr size_t PlaceOf(int minor, size_t offset) {
  const auto all = OperationsOf(minor);
  return static_cast<size_t>(
      std::find(all.begin(), all.end(), offset / sizeof(void*)) - all.begin());
}
static_assert(CountOperations(14) == 76 && CountOperations(15) == 79 &&
              CountOperations(16) == 81 && CountOperations(17) == 83 &&
              CountOperations(18) == 93 && kOperations == 93);
static_assert(PlaceOf(14, offsetof(verbs_context_ops, create_cq)) == 15 &&
              PlaceOf(14, offsetof(verbs_context_ops, destroy_cq)) == 31 &&
              PlaceOf(14, offsetof(verbs_context_ops, free_context)) == 39 &&
              PlaceOf(14, offsetof(verbs_context_ops, query_port)) == 60);

// sizeof(verbs_context). Its public part, struct ibv_context, is at its end,
// right after a size_t with this number. New members are added at the front.
constexpr size_t VerbsContextBytes(int minor) {
  constexpr size_t kBytes[] = {648, 672, 680, 696, 696};
  return kBytes[minor - kOldestMinor];
}
