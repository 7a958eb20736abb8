// A minimal provider for libibverbs 44: enough to list and query devices and to
// wait on a completion channel, so that the preload can be tested without the
// engine. It declares only those parts of the private ABI 34 that it fills in.
// Indices into the table of operations are those of v36 to v56.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "verbs/identity/device_identity.h"

struct match_entry {
  void* driver_data;
  const char* modalias;
  uint16_t vendor, device;
  uint8_t kind;  // 2: by modalias
};

struct verbs_device {
  struct ibv_device device;
  char rest[64];  // filled in by libibverbs
};

struct verbs_device_ops {
  const char* name;
  uint32_t min_abi, max_abi;
  const struct match_entry* match_table;
  const void* static_providers;
  void* match_device;
  struct verbs_context* (*alloc_context)(struct ibv_device*, int cmd_fd, void*);
  void* import_context;
  struct verbs_device* (*alloc_device)(void* sysfs_device);
  void (*uninit_device)(struct verbs_device*);
};

void verbs_register_driver_34(const struct verbs_device_ops* ops);
void* _verbs_init_and_alloc_context(struct ibv_device* device, int cmd_fd,
                                    size_t size, size_t context_offset,
                                    uint32_t driver_id);
void verbs_uninit_context(struct verbs_context* context);
void verbs_set_ops(struct verbs_context* context, void* const* ops);

enum {
  SLOT_COUNT = 76,
  SLOT_CREATE_CQ = 15,
  SLOT_DESTROY_CQ = 31,
  SLOT_FREE_CONTEXT = 39,
  SLOT_QUERY_DEVICE_EX = 58,
  SLOT_QUERY_PORT = 60,
};

static int query_device(struct ibv_context* context,
                        const struct ibv_query_device_ex_input* input,
                        struct ibv_device_attr_ex* attr, size_t size) {
  (void)context;
  (void)input;
  memset(attr, 0, size);
  strcpy(attr->orig_attr.fw_ver, URNIC_FW_VERSION);
  attr->orig_attr.phys_port_cnt = 1;
  attr->orig_attr.max_pkeys = 1;
  return 0;
}

static int query_port(struct ibv_context* context, uint8_t port,
                      struct ibv_port_attr* attr) {
  (void)context;
  if (port != 1) return EINVAL;
  attr->state = IBV_PORT_ACTIVE;
  attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
  attr->gid_tbl_len = URNIC_GID_TABLE_LEN;
  attr->pkey_tbl_len = 1;
  attr->phys_state = 5;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

static struct ibv_cq* create_cq(struct ibv_context* context, int cqe,
                                struct ibv_comp_channel* channel, int vector) {
  (void)context;
  (void)channel;
  (void)vector;
  struct ibv_cq* cq = calloc(1, sizeof(*cq));
  if (cq != NULL) cq->cqe = cqe;
  return cq;
}

static int destroy_cq(struct ibv_cq* cq) {
  free(cq);
  return 0;
}

static void free_context(struct ibv_context* context) {
  struct verbs_context* v = verbs_get_ctx(context);
  close(context->async_fd);
  verbs_uninit_context(v);
  free(v);
}

static struct verbs_context* alloc_context(struct ibv_device* device,
                                           int cmd_fd, void* unused) {
  (void)unused;
  struct stat node;
  if (fstat(cmd_fd, &node) != 0 || !S_ISCHR(node.st_mode) ||
      minor(node.st_rdev) != 192u + (unsigned)(device->name[5] - '0'))
    return NULL;
  struct verbs_context* v = _verbs_init_and_alloc_context(
      device, cmd_fd, sizeof(struct verbs_context), 0, 0);
  if (v == NULL) return NULL;
  static void* ops[SLOT_COUNT];
  ops[SLOT_CREATE_CQ] = create_cq;
  ops[SLOT_DESTROY_CQ] = destroy_cq;
  ops[SLOT_FREE_CONTEXT] = free_context;
  ops[SLOT_QUERY_DEVICE_EX] = query_device;
  ops[SLOT_QUERY_PORT] = query_port;
  verbs_set_ops(v, ops);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return NULL;
  close(ends[1]);
  v->context.async_fd = ends[0];
  v->context.num_comp_vectors = 1;
  return v;
}

static struct verbs_device* alloc_device(void* sysfs_device) {
  (void)sysfs_device;
  return calloc(1, sizeof(struct verbs_device));
}

static void uninit_device(struct verbs_device* device) { free(device); }

static const struct match_entry match_table[] = {
    {.modalias = "rdma_device:*Nurnic*", .kind = 2}, {0}};

static const struct verbs_device_ops device_ops = {
    .name = "urnic",
    .min_abi = URNIC_PROVIDER_ABI,
    .max_abi = URNIC_PROVIDER_ABI,
    .match_table = match_table,
    .alloc_context = alloc_context,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

static __attribute__((constructor)) void register_driver(void) {
  verbs_register_driver_34(&device_ops);
}
