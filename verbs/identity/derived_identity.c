// What follows from the configuration of a port: names, MAC, GUIDs and GIDs of
// its devices, and a few other facts. The parser is in device_identity.c.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/identity/device_identity.h"

// FNV-1a with a final mix, because FNV hardly changes the high bits for short
// texts, and the MAC takes 46 bits.
static uint64_t hash_bytes(uint64_t h, const void* data, size_t len) {
  const uint8_t* p = data;
  for (size_t i = 0; i < len; ++i) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
  return h;
}

static uint64_t hash_finish(uint64_t h) {
  h = (h ^ (h >> 33)) * UINT64_C(0xff51afd7ed558ccd);
  h = (h ^ (h >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
  return h ^ (h >> 33);
}

void urnic_derive_mac(uint64_t host, const char* dev, int ordinal,
                      const uint8_t* address, uint8_t* mac) {
  uint64_t h = hash_bytes(UINT64_C(0xcbf29ce484222325), &host, sizeof(host));
  const uint8_t place = (uint8_t)ordinal;
  h = hash_bytes(h, dev, strlen(dev));
  h = hash_bytes(h, &place, 1);
  if (address != NULL) h = hash_bytes(h, address, 16);
  h = hash_finish(h);
  for (int i = 0; i < 6; ++i) mac[i] = (uint8_t)(h >> (8 * i));
  // Locally administered, not a group: IEEE 802 bits of the first byte.
  mac[0] = (uint8_t)((mac[0] & 0xfc) | 0x02);
}

uint64_t urnic_host_identity(void) {
  char text[256] = "";
  ssize_t len = -1;
  int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    len = read(fd, text, sizeof(text));
    close(fd);
  }
  if (len <= 0) {  // containers may have none, or an empty one
    if (gethostname(text, sizeof(text) - 1) != 0) text[0] = '\0';
    len = (ssize_t)strlen(text);
  }
  uint64_t h = hash_bytes(UINT64_C(0xcbf29ce484222325), text, (size_t)len);
  struct stat ns;
  // The main thread's while it runs: all threads must get the same one.
  if (stat("/proc/self/ns/net", &ns) == 0 ||
      stat("/proc/thread-self/ns/net", &ns) == 0)
    h = hash_bytes(h, &ns.st_ino, sizeof(ns.st_ino));
  return hash_finish(h);
}

void urnic_ip_address_gid(const struct urnic_ip_address* address,
                          uint8_t* gid) {
  static const uint8_t kMapped[12] = {[10] = 0xff, [11] = 0xff};
  if (address->is_ipv6) {
    memcpy(gid, address->bytes, 16);
    return;
  }
  memcpy(gid, kMapped, sizeof(kMapped));
  memcpy(gid + sizeof(kMapped), address->bytes, 4);
}

// Linux's order: each GID as RoCE v1, then as v2.
void urnic_device_identity_set_gid(struct urnic_device_identity* device,
                                   uint32_t pair, const uint8_t* gid) {
  struct urnic_gid_entry* entry = &device->gids[2 * pair];
  memset(entry, 0, 2 * sizeof(*entry));
  if (gid == NULL) return;
  memcpy(entry[0].gid, gid, 16);
  memcpy(entry[1].gid, gid, 16);
  entry[0].type = URNIC_GID_ROCE_V1;
  entry[1].type = URNIC_GID_ROCE_V2;
}

void urnic_device_name(int kind, int ordinal,
                       char name[URNIC_DEVICE_NAME_SIZE]) {
  snprintf(name, URNIC_DEVICE_NAME_SIZE, "%s%d",
           urnic_device_kinds[kind].name_prefix, ordinal);
}

int urnic_rdma_cm_kind(uint32_t kinds, int is_marked) {
  const int has_roce = (kinds & 1u << URNIC_DEVICE_ROCE) != 0;
  return is_marked || !has_roce ? URNIC_DEVICE_IWARP : URNIC_DEVICE_ROCE;
}

//= RFC 4291 A: an interface identifier is the MAC with ff:fe in the middle
//= and the U/L bit inverted (EUI-64)
static void make_eui64(const uint8_t* m, uint8_t* eui) {
  const uint8_t bytes[8] = {
      (uint8_t)(m[0] ^ 2), m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
  memcpy(eui, bytes, sizeof(bytes));
}

static void derive_gids(struct urnic_device_identity* d) {
  memset(d->gids, 0, sizeof(d->gids));
  make_eui64(d->mac, d->sys_image_guid);
  if (d->device_kind->gid_source == URNIC_GID_OF_MAC) {
    memset(d->node_guid, 0, sizeof(d->node_guid));
    memcpy(d->node_guid, d->mac, sizeof(d->mac));
    memcpy(d->gids[0].gid, d->mac, sizeof(d->mac));
    d->gids[0].type = URNIC_GID_ROCE_V1;  // Linux: IB_GID_TYPE_IB, the same
    return;
  }
  memcpy(d->node_guid, d->sys_image_guid, sizeof(d->node_guid));
  uint8_t gid[16] = {0xfe, 0x80};
  memcpy(gid + 8, d->node_guid, sizeof(d->node_guid));
  urnic_device_identity_set_gid(d, 0, gid);
  for (uint32_t i = 0; i < d->num_addresses; ++i) {
    urnic_ip_address_gid(&d->addresses[i], gid);
    urnic_device_identity_set_gid(d, 1 + i, gid);
  }
}

void urnic_device_identity_become(struct urnic_device_identity* device,
                                  int kind) {
  device->device_kind = &urnic_device_kinds[kind];
  urnic_device_name(kind, device->ordinal, device->name);
  derive_gids(device);
}

uint32_t urnic_ib_mtu(uint32_t port_mtu) {
  // IPv6 or GRH, UDP, BTH, XRCETH, AtomicETH, ICRC: iboe_get_mtu()'s sum.
  const uint32_t headers = 40 + 8 + 12 + 4 + 28 + 4;
  for (uint32_t mtu = 4096; mtu >= 256; mtu /= 2)
    if (port_mtu >= mtu + headers) return mtu;
  return 0;
}

const char* urnic_port_kind_name(int kind) {
  switch (kind) {
    case URNIC_PORT_LOOP:
      return "loop";
    case URNIC_PORT_IFACE:
      return "iface";
    case URNIC_PORT_XDP:
      return "xdp";
    case URNIC_PORT_PCI:
      return "pci";
    case URNIC_PORT_VDEV:
      return "vdev";
  }
  return "unknown";
}
