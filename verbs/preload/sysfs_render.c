#define _GNU_SOURCE
#include "verbs/preload/sysfs_render.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/identity/sysfs_counters.h"
#include "verbs/preload/device_node.h"

// Where the next file goes. The first failure is kept and ends all further
// writing. Paths are absolute: this library would try to resolve a relative one
// with "infiniband" in it.
struct writer {
  const char* root;
  int error;
  int replace;  // existing files
  char dir[384];
};

static void keep_errno(struct writer* w) {
  if (w->error == 0) w->error = -errno;
}

// Creates the directory w->dir, below the root, and its parents.
static void enter(struct writer* w, const char* fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void enter(struct writer* w, const char* fmt, ...) {
  size_t root_len = (size_t)snprintf(w->dir, sizeof(w->dir), "%s/", w->root);
  va_list args;
  va_start(args, fmt);
  vsnprintf(w->dir + root_len, sizeof(w->dir) - root_len, fmt, args);
  va_end(args);
  for (char* p = w->dir + root_len; w->error == 0 && p != NULL;) {
    p = strchr(p + 1, '/');
    if (p != NULL) *p = '\0';
    if (mkdir(w->dir, 0755) != 0 && errno != EEXIST) keep_errno(w);
    if (p != NULL) *p = '/';
  }
}

static void put(struct writer* w, const char* name, const char* fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void put(struct writer* w, const char* name, const char* fmt, ...) {
  if (w->error != 0) return;
  char path[sizeof(w->dir) + 32];
  char next[sizeof(w->dir) + 32];
  char text[128];
  snprintf(path, sizeof(path), "%s/%s", w->dir, name);
  snprintf(next, sizeof(next), "%s/.%s", w->dir, name);
  va_list args;
  va_start(args, fmt);
  int len = vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  int fd = open(w->replace ? next : path,
                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  if (fd < 0) keep_errno(w);
  for (ssize_t n, done = 0; fd >= 0 && done < len; done += n) {
    // A short write means that there is no more room: the next one says why.
    n = write(fd, text + done, (size_t)(len - done));
    if (n > 0) continue;
    keep_errno(w);
    break;
  }
  if (fd >= 0) close(fd);
  if (w->replace && w->error == 0 && rename(next, path) != 0) keep_errno(w);
  if (w->replace && w->error != 0) unlink(next);
}

static void put_link(struct writer* w, const char* name, const char* target) {
  if (w->error != 0) return;
  char path[sizeof(w->dir) + 32];
  snprintf(path, sizeof(path), "%s/%s", w->dir, name);
  if (symlink(target, path) != 0) keep_errno(w);
}

static void put_gid(struct writer* w, const char* name, const uint8_t* g) {
  put(w, name,
      "%02x%02x:%02x%02x:%02x%02x:%02x%02x:"
      "%02x%02x:%02x%02x:%02x%02x:%02x%02x\n",
      g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8], g[9], g[10], g[11],
      g[12], g[13], g[14], g[15]);
}

static void put_guid(struct writer* w, const char* name, const uint8_t* g) {
  put(w, name, "%02x%02x:%02x%02x:%02x%02x:%02x%02x\n", g[0], g[1], g[2], g[3],
      g[4], g[5], g[6], g[7]);
}

// An empty index has a zero GID. Its type and interface are empty files, for
// which interpose_path.c returns EINVAL on reading, as Linux does.
static void put_gid_table(struct writer* w, uint32_t count,
                          const struct urnic_device_identity* d) {
  static const char* const kTypes[] = {"", "IB/RoCE v1\n", "RoCE v2\n"};
  char index[16];
  enter(w, "sys/class/infiniband/%s/ports/1/gids", d->name);
  for (uint32_t i = 0; i < count; ++i) {
    snprintf(index, sizeof(index), "%u", i);
    put_gid(w, index, d->gids[i].gid);
  }
  enter(w, "sys/class/infiniband/%s/ports/1/gid_attrs/types", d->name);
  for (uint32_t i = 0; i < count; ++i) {
    snprintf(index, sizeof(index), "%u", i);
    put(w, index, "%s", kTypes[d->gids[i].type]);
  }
  enter(w, "sys/class/infiniband/%s/ports/1/gid_attrs/ndevs", d->name);
  for (uint32_t i = 0; i < count; ++i) {
    snprintf(index, sizeof(index), "%u", i);
    int has_interface = d->gids[i].type != 0 && d->ifname[0] != '\0';
    put(w, index, "%s%s", has_interface ? d->ifname : "",
        has_interface ? "\n" : "");
  }
}

static void put_port_state(struct writer* w, const char* device, int active) {
  enter(w, "sys/class/infiniband/%s/ports/1", device);
  put(w, "state", "%s\n", active ? "4: ACTIVE" : "1: DOWN");
  put(w, "phys_state", "%s\n", active ? "5: LinkUp" : "3: Disabled");
}

// For listings: counter_file.c answers for their content.
static void put_counters(struct writer* w,
                         const struct urnic_device_identity* d) {
#define PUT(name) put(w, #name, "%s", "");
#define PUT_IWARP(name) put(w, URNIC_SYSFS_IWARP_NAME(name), "%s", "");
  enter(w, "sys/class/infiniband/%s/ports/1/counters", d->name);
  URNIC_SYSFS_COUNTERS(PUT)
  enter(w, "sys/class/infiniband/%s/ports/1/hw_counters", d->name);
  if (d->device_kind == &urnic_device_kinds[URNIC_DEVICE_IWARP]) {
    URNIC_SYSFS_IWARP_COUNTERS(PUT_IWARP)
  } else {
    URNIC_SYSFS_ROCE_COUNTERS(PUT)
  }
#undef PUT_IWARP
#undef PUT
}

static void put_pkeys(struct writer* w, const struct urnic_device_identity* d) {
  enter(w, "sys/class/infiniband/%s/ports/1/pkeys", d->name);
  for (uint32_t i = 0; i < d->num_pkeys; ++i) {
    char index[16];
    snprintf(index, sizeof(index), "%u", i);
    put(w, index, "0x%04x\n", d->pkeys[i]);
  }
}

static void put_port(struct writer* w, const struct urnic_device_identity* d) {
  if (d->device_kind->has_pkeys) put_pkeys(w, d);
  put_port_state(w, d->name, 1);
  put(w, "link_layer", "Ethernet\n");
  put(w, "rate", "%s\n", URNIC_PORT_RATE_TEXT);
  put(w, "lid", "0x0\n");
  put(w, "sm_lid", "0x0\n");
  put(w, "lid_mask_count", "0\n");
  put(w, "sm_sl", "0\n");
  put(w, "cap_mask", "0x%08x\n", URNIC_PORT_CAP_FLAGS);
  put_gid_table(w, d->device_kind->gid_table_len, d);
  put_counters(w, d);
}

static void put_device(struct writer* w,
                       const struct urnic_device_identity* d) {
  enter(w, "sys/class/infiniband/%s/device/infiniband_verbs/uverbs%d", d->name,
        d->node);
  enter(w, "sys/class/infiniband/%s/device/infiniband/%s", d->name, d->name);
  // A device without an interface has no such directory, because programs look
  // for a name in it.
  if (d->ifname[0] != '\0') {
    enter(w, "sys/class/infiniband/%s/device/net", d->name);
    char target[64];
    snprintf(target, sizeof(target), "/sys/class/net/%s", d->ifname);
    put_link(w, d->ifname, target);
  }
  enter(w, "sys/class/infiniband/%s/device", d->name);
  put(w, "numa_node", "-1\n");
  enter(w, "sys/class/infiniband/%s", d->name);
  put(w, "node_type", "%s\n", d->device_kind->node_type);
  put_guid(w, "node_guid", d->node_guid);
  put_guid(w, "sys_image_guid", d->sys_image_guid);
  put(w, "node_desc", "%s\n", d->name);
  put(w, "fw_ver", "%s\n", URNIC_FW_VERSION);
  put(w, "hw_rev", "0x%x\n", URNIC_HW_REVISION);
  put(w, "hca_type", "uRNIC\n");
  put(w, "board_id", "uRNIC-%s\n", urnic_port_kind_name(d->port_kind));
  put_port(w, d);

  enter(w, "sys/class/infiniband_verbs/uverbs%d", d->node);
  put(w, "ibdev", "%s\n", d->name);
  put(w, "dev", "%d:%d\n", URNIC_UVERBS_MAJOR, URNIC_UVERBS_MINOR_0 + d->node);
  put(w, "abi_version", "%d\n", URNIC_PROVIDER_ABI);
  char target[64];
  snprintf(target, sizeof(target), "../../infiniband/%s/device", d->name);
  put_link(w, "device", target);
  // Only for listings of the directory; opening the node does not use this
  // file.
  enter(w, "dev/infiniband");
  char node[32];
  snprintf(node, sizeof(node), "uverbs%d", d->node);
  put(w, node, "%s", "");
}

static void put_rdma_cm(struct writer* w) {
  enter(w, "sys/class/misc/rdma_cm");
  // RDMA_USER_CM_ABI_VERSION of <rdma/rdma_user_cm.h>
  put(w, "abi_version", "4\n");
  put(w, "dev", "%d:%d\n", URNIC_RDMA_CM_MAJOR, URNIC_RDMA_CM_MINOR);
  enter(w, "dev/infiniband");
  put(w, "rdma_cm", "%s", "");
}

int urnic_sysfs_render(const char* root,
                       const struct urnic_device_identity* devices,
                       int num_devices) {
  struct writer w = {.root = root};
  enter(&w, "sys/class/infiniband_verbs");
  // IB_USER_VERBS_ABI_VERSION of <rdma/ib_user_verbs.h>
  put(&w, "abi_version", "6\n");
  enter(&w, "sys/class/infiniband");
  for (int i = 0; i < num_devices; ++i) put_device(&w, &devices[i]);
  if (num_devices > 0) put_rdma_cm(&w);
  return w.error;
}

int urnic_sysfs_set_gids(const char* root, uint32_t count,
                         const struct urnic_device_identity* device) {
  struct writer w = {.root = root, .replace = 1};
  put_gid_table(&w, count, device);
  return w.error;
}

int urnic_sysfs_set_port_active(const char* root, const char* device,
                                int active) {
  struct writer w = {.root = root, .replace = 1};
  put_port_state(&w, device, active);
  return w.error;
}
