#define _GNU_SOURCE
#include "verbs/identity/device_identity.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/identity/text_slice.h"

struct parser {
  char* error;
  size_t error_size;
  int entry;         // 1 based, for messages; 0: an address alone
  struct slice dev;  // of this entry, for messages
};

static int fail(const struct parser* at, int err, const char* fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int fail(const struct parser* at, int err, const char* fmt, ...) {
  if (at->error_size == 0) return -err;
  int used = 0;
  if (at->entry > 0)
    used =
        snprintf(at->error, at->error_size, "port %d (\"%.*s\"): ", at->entry,
                 (int)at->dev.len, at->dev.p);
  if (used < 0 || (size_t)used >= at->error_size) return -err;
  va_list args;
  va_start(args, fmt);
  vsnprintf(at->error + used, at->error_size - (size_t)used, fmt, args);
  va_end(args);
  return -err;
}

// Takes `digits` (at most) hexadecimal digits and then `end` off `s`.
static int take_hex(struct slice* s, size_t digits, char end) {
  size_t n = 0;
  while (n < s->len && isxdigit((unsigned char)s->p[n])) ++n;
  if (n == 0 || n > digits) return 0;
  if (end != '\0' && (n == s->len || s->p[n] != end)) return 0;
  s->p += n + (end != '\0');
  s->len -= n + (end != '\0');
  return 1;
}

// [DOMAIN:]BUS:SLOT.FUNCTION, then nothing or ",ARGS".
static int is_pci_address(struct slice s) {
  struct slice with_domain = s;
  if (take_hex(&with_domain, 8, ':') && take_hex(&with_domain, 2, ':')) {
    s = with_domain;
  } else if (!take_hex(&s, 2, ':')) {
    return 0;
  }
  return take_hex(&s, 2, '.') && take_hex(&s, 1, '\0') &&
         (s.len == 0 || s.p[0] == ',');
}

static int parse_ifname(struct parser* at, struct slice name,
                        struct urnic_device_identity* d) {
  if (name.len == 0 || name.len >= IFNAMSIZ)
    return fail(at, EINVAL, "an interface name has 1 to %d characters",
                IFNAMSIZ - 1);
  memcpy(d->ifname, name.p, name.len);
  return 0;
}

static int parse_dev(struct parser* at, struct urnic_device_identity* d) {
  struct slice dev = at->dev;
  if (dev.len == 0)
    return fail(at, EINVAL,
                "no device; write DEV|IP/LEN, and \";\" between entries");
  if (dev.len >= sizeof(d->dev))
    return fail(at, E2BIG, "its text has %zu characters; the limit is %zu",
                dev.len, sizeof(d->dev) - 1);
  memcpy(d->dev, dev.p, dev.len);
  if (slice_equals(dev, "loop")) {
    d->port_kind = URNIC_PORT_LOOP;
  } else if (slice_starts_with(dev, "iface:")) {
    d->port_kind = URNIC_PORT_IFACE;
    return parse_ifname(at, (struct slice){dev.p + 6, dev.len - 6}, d);
  } else if (slice_starts_with(dev, "xdp:")) {
    d->port_kind = URNIC_PORT_XDP;
    return parse_ifname(at, (struct slice){dev.p + 4, dev.len - 4}, d);
  } else if (is_pci_address(dev)) {
    d->port_kind = URNIC_PORT_PCI;
  } else if ((slice_starts_with(dev, "net_") && dev.len > 4) ||
             (slice_starts_with(dev, "ring:") && dev.len > 5)) {
    d->port_kind = URNIC_PORT_VDEV;
  } else {
    return fail(
        at, EINVAL,
        "not a port; if it is a network interface, write iface:%.*s, else use "
        "loop or a DPDK device net_...",
        (int)dev.len, dev.p);
  }
  return 0;
}

static int is_usable_ipv4(const uint8_t* a) {
  // Neither "this host", nor a loopback address, nor a group.
  return a[0] != 0 && a[0] != 127 && a[0] < 224;
}

//= RFC 1122 3.2.1.3: no host has an address whose host part is all 0 or all 1
//= RFC 3021 2.1: in a network with a 31-bit prefix, both addresses belong to
//= hosts
static const char* kind_of_network_wide(const uint8_t* a, uint32_t prefix_len) {
  uint32_t ip =
      (uint32_t)a[0] << 24 | (uint32_t)a[1] << 16 | (uint32_t)a[2] << 8 | a[3];
  if (prefix_len > 30) return NULL;
  uint32_t host_bits = UINT32_MAX >> prefix_len;
  if ((ip & host_bits) == 0) return "";
  return (ip & host_bits) == host_bits ? "broadcast " : NULL;
}

static int is_usable_ipv6(const uint8_t* a) {
  static const uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  struct in6_addr in6;
  memcpy(&in6, a, sizeof(in6));
  return a[0] != 0xff && !IN6_IS_ADDR_UNSPECIFIED(&in6) &&
         !IN6_IS_ADDR_LOOPBACK(&in6) &&
         memcmp(a, kMapped, sizeof(kMapped)) != 0;
}

// "IP/LEN"; `text` gets the IP alone, for messages.
static int parse_ip(const struct parser* at, struct slice field,
                    struct urnic_ip_address* out,
                    char text[static INET6_ADDRSTRLEN]) {
  struct slice rest = field;
  struct slice ip = slice_take_until(&rest, '/');
  struct urnic_ip_address address = {0};
  memset(text, 0, INET6_ADDRSTRLEN);
  if (ip.len < INET6_ADDRSTRLEN) memcpy(text, ip.p, ip.len);
  if (inet_pton(AF_INET, text, address.bytes) != 1) {
    address.is_ipv6 = 1;
    if (inet_pton(AF_INET6, text, address.bytes) != 1)
      return fail(at, EINVAL,
                  at->entry > 0 ? "\"%.*s\" is not IP/LEN, mtu=N, vlan=N, "
                                  "route=.., pkey=N, mac=port or fault=SPEC"
                                : "\"%.*s\" is not IP/LEN",
                  (int)field.len, field.p);
  }
  uint32_t max_len = address.is_ipv6 ? 128 : 32;
  uint32_t len;
  if (!slice_to_number(rest, &len) || len < 1 || len > max_len)
    return fail(
        at, EINVAL, "\"%.*s\" needs a prefix length of 1 to %u, as in %s/%u",
        (int)field.len, field.p, max_len, text, address.is_ipv6 ? 64 : 24);
  address.prefix_len = (uint8_t)len;
  if (!(address.is_ipv6 ? is_usable_ipv6(address.bytes)
                        : is_usable_ipv4(address.bytes)))
    return fail(at, EINVAL, "%s is not the address of a host on a network",
                text);
  const char* kind =
      address.is_ipv6 ? NULL : kind_of_network_wide(address.bytes, len);
  if (kind != NULL)
    return fail(at, EINVAL,
                "\"%.*s\" is the %saddress of its network, not of a host",
                (int)field.len, field.p, kind);
  *out = address;
  return 0;
}

static int parse_address(struct parser* at, struct slice field,
                         struct urnic_device_identity* d) {
  struct urnic_ip_address address;
  char text[INET6_ADDRSTRLEN];
  int rc = parse_ip(at, field, &address, text);
  if (rc != 0) return rc;
  for (uint32_t i = 0; i < d->num_addresses; ++i)
    if (d->addresses[i].is_ipv6 == address.is_ipv6 &&
        memcmp(d->addresses[i].bytes, address.bytes, 16) == 0)
      return fail(at, EEXIST, "address %s is given twice", text);
  if (d->num_addresses == URNIC_MAX_ADDRS)
    return fail(at, E2BIG, "address %s is one too many; the limit is %d", text,
                URNIC_MAX_ADDRS);
  d->addresses[d->num_addresses++] = address;
  return 0;
}

// "0x8001".
//= IBTA 10.9.1.1: bit 15 of a P_Key is the membership; the other bits are not
//= all zero
static int parse_pkey(struct parser* at, struct slice field,
                      struct urnic_device_identity* d) {
  struct slice digits = {field.p + 5, field.len - 5};
  const struct slice number = digits;
  uint32_t value = 0;
  if (slice_starts_with(digits, "0x")) {
    digits.p += 2;
    digits.len -= 2;
  }
  struct slice rest = digits;
  if (!take_hex(&rest, 4, '\0') || rest.len != 0)
    return fail(at, EINVAL, "pkey=%.*s is not a 16-bit hexadecimal number",
                (int)number.len, number.p);
  for (size_t i = 0; i < digits.len; ++i) {
    const uint8_t c = (uint8_t)digits.p[i];
    value = value * 16 + (uint32_t)(isdigit(c) ? c - '0' : (c | 32) - 'a' + 10);
  }
  if ((value & 0x7fff) == 0)
    return fail(at, EINVAL, "pkey=%.*s is invalid: its low 15 bits are 0",
                (int)number.len, number.p);
  for (uint32_t i = 0; i < d->num_pkeys; ++i)
    if (d->pkeys[i] == value)
      return fail(at, EEXIST, "pkey=%.*s is in the table already",
                  (int)number.len, number.p);
  if (d->num_pkeys == URNIC_MAX_PKEYS)
    return fail(at, E2BIG, "pkey=%.*s is one too many; the limit is %d",
                (int)number.len, number.p, URNIC_MAX_PKEYS - 1);
  d->pkeys[d->num_pkeys++] = (uint16_t)value;
  return 0;
}

static int parse_fault(struct parser* at, struct slice field,
                       struct urnic_device_identity* d) {
  const struct slice spec = {field.p + 6, field.len - 6};
  // Frames to our own addresses never leave the engine.
  if (d->port_kind == URNIC_PORT_LOOP)
    return fail(at, EINVAL,
                "fault=%.*s: this port has no wire; use a pair of ports",
                (int)spec.len, spec.p);
  if (d->fault[0] != '\0')
    return fail(at, EEXIST, "fault=%.*s: the port has fault=%s already",
                (int)spec.len, spec.p, d->fault);
  if (spec.len == 0 || spec.len >= sizeof(d->fault))
    return fail(at, spec.len == 0 ? EINVAL : E2BIG,
                "fault= needs 1 to %zu characters, not %zu",
                sizeof(d->fault) - 1, spec.len);
  memcpy(d->fault, spec.p, spec.len);
  return 0;
}

static int parse_vlan(struct parser* at, struct slice field,
                      struct urnic_device_identity* d) {
  const struct slice number = {field.p + 5, field.len - 5};
  uint32_t vlan;
  if (d->vlan != 0)
    return fail(at, EEXIST, "vlan=%.*s: the port has vlan=%u already",
                (int)number.len, number.p, d->vlan);
  if (!slice_to_number(number, &vlan) || vlan < 1 || vlan > URNIC_MAX_VLAN)
    return fail(at, ERANGE, "vlan=%.*s is out of range: 1 to %d",
                (int)number.len, number.p, URNIC_MAX_VLAN);
  d->vlan = vlan;
  return 0;
}

static int parse_route(struct parser* at, struct slice field,
                       struct urnic_device_identity* d) {
  const struct slice text = {field.p + 6, field.len - 6};
  if (d->num_routes == URNIC_MAX_ROUTES)
    return fail(at, E2BIG, "route=%.*s is one too many; the limit is %d",
                (int)text.len, text.p, URNIC_MAX_ROUTES);
  char error[160];
  if (urnic_ip_route_parse(text.p, text.len, &d->routes[d->num_routes], error,
                           sizeof(error)) != 0)
    return fail(at, EINVAL, "%s", error);
  ++d->num_routes;
  return 0;
}

static int parse_field(struct parser* at, struct slice field,
                       struct urnic_device_identity* d) {
  if (slice_starts_with(field, "mtu=")) {
    struct slice number = {field.p + 4, field.len - 4};
    if (!slice_to_number(number, &d->mtu) || d->mtu < URNIC_PORT_MTU_MIN ||
        d->mtu > URNIC_PORT_MTU_MAX)
      return fail(at, ERANGE, "mtu=%.*s is out of range: %d to %d",
                  (int)number.len, number.p, URNIC_PORT_MTU_MIN,
                  URNIC_PORT_MTU_MAX);
    d->mtu_is_given = 1;
    return 0;
  }
  if (slice_equals(field, "mac=port")) {
    if (d->ifname[0] == '\0')
      return fail(at, EINVAL,
                  "mac=port needs iface: or xdp:; other ports have no MAC "
                  "before they start");
    d->mac_is_port = 1;
    return 0;
  }
  if (slice_starts_with(field, "vlan=")) return parse_vlan(at, field, d);
  if (slice_starts_with(field, "route=")) return parse_route(at, field, d);
  if (slice_starts_with(field, "pkey=")) return parse_pkey(at, field, d);
  if (slice_starts_with(field, "fault=")) return parse_fault(at, field, d);
  return parse_address(at, field, d);
}

// Fills in what only the kernel knows about the interface.
static int ask_kernel(struct parser* at, struct urnic_device_identity* d) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    int err = errno;
    return fail(at, err, "no socket to ask for the MTU: %s", strerror(err));
  }
  struct ifreq mtu = {0};
  struct ifreq mac = {0};
  memcpy(mtu.ifr_name, d->ifname, sizeof(mtu.ifr_name));
  memcpy(mac.ifr_name, d->ifname, sizeof(mac.ifr_name));
  int err = 0;
  if (ioctl(fd, SIOCGIFMTU, &mtu) != 0 || ioctl(fd, SIOCGIFHWADDR, &mac) != 0)
    err = errno;
  close(fd);
  if (err == ENODEV)
    return fail(at, err, "no interface \"%s\" in this network namespace",
                d->ifname);
  if (err != 0)
    return fail(at, err, "interface \"%s\": %s", d->ifname, strerror(err));
  uint32_t kernel_mtu = mtu.ifr_mtu > 0 ? (uint32_t)mtu.ifr_mtu : 0;
  if (d->mtu > kernel_mtu)
    return fail(at, ERANGE, "mtu=%u is more than the interface's %u", d->mtu,
                kernel_mtu);
  if (d->mtu == 0)
    d->mtu = kernel_mtu < URNIC_PORT_MTU_MAX ? kernel_mtu : URNIC_PORT_MTU_MAX;
  if (d->mtu < URNIC_PORT_MTU_MIN)
    return fail(at, ERANGE, "the interface's MTU %u is less than %d", d->mtu,
                URNIC_PORT_MTU_MIN);
  if (d->mac_is_port) memcpy(d->mac, mac.ifr_hwaddr.sa_data, 6);
  return 0;
}

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

int urnic_ip_address_parse(const char* text, struct urnic_ip_address* out,
                           char* error, size_t error_size) {
  const struct parser at = {.error = error, .error_size = error_size};
  if (error_size > 0) error[0] = '\0';
  char ip[INET6_ADDRSTRLEN];
  return parse_ip(&at, (struct slice){text, strlen(text)}, out, ip);
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

static void derive_gids(struct urnic_device_identity* d) {
  //= RFC 4291 A: an interface identifier is the MAC with ff:fe in the middle
  //= and the U/L bit inverted (EUI-64)
  const uint8_t* m = d->mac;
  const uint8_t eui[8] = {
      (uint8_t)(m[0] ^ 2), m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
  memcpy(d->node_guid, eui, sizeof(eui));
  uint8_t gid[16] = {0xfe, 0x80};
  memcpy(gid + 8, eui, sizeof(eui));
  urnic_device_identity_set_gid(d, 0, gid);
  for (uint32_t i = 0; i < d->num_addresses; ++i) {
    urnic_ip_address_gid(&d->addresses[i], gid);
    urnic_device_identity_set_gid(d, 1 + i, gid);
  }
}

static int parse_entry(struct parser* at, struct slice entry, uint64_t host,
                       struct urnic_device_identity* devices, int ordinal) {
  struct urnic_device_identity* d = &devices[ordinal];
  memset(d, 0, sizeof(*d));
  d->ordinal = ordinal;
  d->pkeys[d->num_pkeys++] = URNIC_PKEY_DEFAULT;
  d->device_kind = &urnic_device_kinds[URNIC_DEVICE_ROCE];
  snprintf(d->name, sizeof(d->name), "%s%d", d->device_kind->name_prefix,
           ordinal);
  int dangling = entry.len > 0 && entry.p[entry.len - 1] == '|';
  at->entry = ordinal + 1;
  at->dev = slice_take_until(&entry, '|');
  int rc = parse_dev(at, d);
  if (rc != 0) return rc;
  for (int i = 0; i < ordinal; ++i)
    if (d->port_kind != URNIC_PORT_LOOP && strcmp(devices[i].dev, d->dev) == 0)
      return fail(at, EEXIST, "the same device as port %d", i + 1);
  if (dangling) return fail(at, EINVAL, "the last \"|\" has nothing after it");
  while (entry.len > 0) {
    rc = parse_field(at, slice_take_until(&entry, '|'), d);
    if (rc != 0) return rc;
  }
  if (d->ifname[0] != '\0') {
    rc = ask_kernel(at, d);
    if (rc != 0) return rc;
  } else if (d->mtu == 0) {
    d->mtu = d->port_kind == URNIC_PORT_PCI ? URNIC_PORT_MTU_PHYSICAL
                                            : URNIC_PORT_MTU_VIRTUAL;
  }
  if (!d->mac_is_port)
    urnic_derive_mac(host, d->dev, ordinal,
                     d->num_addresses > 0 ? d->addresses[0].bytes : NULL,
                     d->mac);
  derive_gids(d);
  return 0;
}

int urnic_device_identity_parse(const char* ports, uint64_t host,
                                struct urnic_device_identity* devices,
                                char* error, size_t error_size) {
  struct parser at = {.error = error, .error_size = error_size};
  if (error_size > 0) error[0] = '\0';
  struct slice rest = {ports, ports ? strlen(ports) : 0};
  int count = 0;
  while (rest.len > 0) {
    struct slice entry = slice_take_until(&rest, ';');
    if (count == URNIC_MAX_PORTS) {
      at.entry = count + 1;
      at.dev = slice_take_until(&entry, '|');
      return fail(&at, E2BIG, "one port too many; the limit is %d",
                  URNIC_MAX_PORTS);
    }
    int rc = parse_entry(&at, entry, host, devices, count);
    if (rc != 0) return rc;
    ++count;
  }
  return count;
}

int urnic_device_identity_from_env(struct urnic_device_identity* devices,
                                   char* error, size_t error_size) {
  return urnic_device_identity_parse(
      getenv("URNIC_PORTS"), urnic_host_identity(), devices, error, error_size);
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
