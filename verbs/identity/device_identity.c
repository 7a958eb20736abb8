#define _GNU_SOURCE
#include "verbs/identity/device_identity.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
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
  struct slice mark = field;
  struct slice rest = slice_take_until(&mark, ',');
  struct slice ip = slice_take_until(&rest, '/');
  struct urnic_ip_address address = {0};
  memset(text, 0, INET6_ADDRSTRLEN);
  if (ip.len < INET6_ADDRSTRLEN) memcpy(text, ip.p, ip.len);
  if (inet_pton(AF_INET, text, address.bytes) != 1) {
    address.is_ipv6 = 1;
    if (inet_pton(AF_INET6, text, address.bytes) != 1)
      return fail(at, EINVAL,
                  at->entry > 0 ? "\"%.*s\" is not IP/LEN, mtu=N, vlan=N, "
                                  "route=.., pkey=N, mac=port, transport=T, "
                                  "iwarp=SPEC or fault=SPEC"
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
  address.is_iwarp = slice_equals(mark, "iwarp");
  if (field.p[field.len - 1] == ',' || (mark.len != 0 && !address.is_iwarp))
    return fail(at, EINVAL, "\"%.*s\": only \",iwarp\" may follow an address",
                (int)field.len, field.p);
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

static int parse_iwarp(struct parser* at, struct slice field,
                       struct urnic_device_identity* d) {
  const struct slice spec = {field.p + 6, field.len - 6};
  if (d->iwarp[0] != '\0')
    return fail(at, EEXIST, "iwarp=%.*s: the port has iwarp=%s already",
                (int)spec.len, spec.p, d->iwarp);
  if (spec.len == 0 || spec.len >= sizeof(d->iwarp))
    return fail(at, spec.len == 0 ? EINVAL : E2BIG,
                "iwarp= needs 1 to %zu characters, not %zu",
                sizeof(d->iwarp) - 1, spec.len);
  memcpy(d->iwarp, spec.p, spec.len);
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

// "roce", "iwarp" or "both".
static int parse_transport(struct parser* at, struct slice field,
                           struct urnic_device_identity* d) {
  const struct slice text = {field.p + 10, field.len - 10};
  const int both = slice_equals(text, "both");
  if (d->kinds != 0)
    return fail(at, EEXIST, "transport=%.*s: it is given twice", (int)text.len,
                text.p);
  for (int kind = 0; kind < URNIC_DEVICE_KINDS; ++kind)
    if (both || slice_equals(text, urnic_device_kinds[kind].transport))
      d->kinds |= 1u << kind;
  if (d->kinds == 0)
    return fail(at, EINVAL, "transport=%.*s is not roce, iwarp or both",
                (int)text.len, text.p);
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
  if (slice_starts_with(field, "iwarp=")) return parse_iwarp(at, field, d);
  if (slice_starts_with(field, "transport="))
    return parse_transport(at, field, d);
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

int urnic_ip_address_parse(const char* text, struct urnic_ip_address* out,
                           char* error, size_t error_size) {
  const struct parser at = {.error = error, .error_size = error_size};
  if (error_size > 0) error[0] = '\0';
  char ip[INET6_ADDRSTRLEN];
  return parse_ip(&at, (struct slice){text, strlen(text)}, out, ip);
}

// Which devices the port has.
static int choose_kinds(struct parser* at, struct urnic_device_identity* d) {
  const int is_given = d->kinds != 0;
  if (!is_given) d->kinds = 1u << URNIC_DEVICE_ROCE;
  for (uint32_t i = 0; i < d->num_addresses; ++i) {
    if (!d->addresses[i].is_iwarp) continue;
    if (!is_given) d->kinds |= 1u << URNIC_DEVICE_IWARP;
    if ((d->kinds & 1u << URNIC_DEVICE_IWARP) == 0) {
      char text[INET6_ADDRSTRLEN];
      inet_ntop(d->addresses[i].is_ipv6 ? AF_INET6 : AF_INET,
                d->addresses[i].bytes, text, sizeof(text));
      return fail(at, EINVAL,
                  "%s is marked iwarp, but with transport roce the port has no "
                  "iWARP device; use transport both, or leave out the mark",
                  text);
    }
  }
  if (d->iwarp[0] != '\0' && (d->kinds & 1u << URNIC_DEVICE_IWARP) == 0)
    return fail(at, EINVAL,
                "iwarp=%s: this port has no iWARP device; use transport=iwarp "
                "or transport=both, or mark an address",
                d->iwarp);
  return 0;
}

// Reads the port that all of its devices share.
static int parse_port(struct parser* at, struct slice entry, uint64_t host,
                      struct urnic_device_identity* d) {
  int dangling = entry.len > 0 && entry.p[entry.len - 1] == '|';
  d->pkeys[d->num_pkeys++] = URNIC_PKEY_DEFAULT;
  at->dev = slice_take_until(&entry, '|');
  int rc = parse_dev(at, d);
  if (rc != 0) return rc;
  for (const struct urnic_device_identity* other = d - d->node; other < d;
       ++other)
    if (d->port_kind != URNIC_PORT_LOOP && strcmp(other->dev, d->dev) == 0)
      return fail(at, EEXIST, "the same device as port %d", other->ordinal + 1);
  if (dangling) return fail(at, EINVAL, "the last \"|\" has nothing after it");
  while (entry.len > 0) {
    rc = parse_field(at, slice_take_until(&entry, '|'), d);
    if (rc != 0) return rc;
  }
  rc = choose_kinds(at, d);
  if (rc == 0 && d->ifname[0] != '\0') rc = ask_kernel(at, d);
  if (rc != 0) return rc;
  if (d->mtu == 0)
    d->mtu = d->port_kind == URNIC_PORT_PCI ? URNIC_PORT_MTU_PHYSICAL
                                            : URNIC_PORT_MTU_VIRTUAL;
  if (!d->mac_is_port)
    urnic_derive_mac(host, d->dev, d->ordinal,
                     d->num_addresses > 0 ? d->addresses[0].bytes : NULL,
                     d->mac);
  return 0;
}

// Adds the devices of an entry after the first `count`. Returns how many there
// are then, or an error.
static int parse_entry(struct parser* at, struct slice entry, uint64_t host,
                       struct urnic_device_identity* devices, int count) {
  struct urnic_device_identity* d = &devices[count];
  memset(d, 0, sizeof(*d));
  d->ordinal = at->entry - 1;
  d->node = count;
  const int rc = parse_port(at, entry, host, d);
  if (rc != 0) return rc;
  for (int kind = 0; kind < URNIC_DEVICE_KINDS; ++kind) {
    if ((d->kinds & 1u << kind) == 0) continue;
    struct urnic_device_identity* next = &devices[count];
    if (next == d)
      urnic_device_name(kind, d->ordinal, d->port_name);
    else
      *next = *d;
    next->node = count++;
    urnic_device_identity_become(next, kind);
  }
  return count;
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
    if (++at.entry > URNIC_MAX_PORTS) {
      at.dev = slice_take_until(&entry, '|');
      return fail(&at, E2BIG, "one port too many; the limit is %d",
                  URNIC_MAX_PORTS);
    }
    count = parse_entry(&at, entry, host, devices, count);
    if (count < 0) return count;
  }
  return count;
}

int urnic_device_identity_from_env(struct urnic_device_identity* devices,
                                   char* error, size_t error_size) {
  return urnic_device_identity_parse(
      getenv("URNIC_PORTS"), urnic_host_identity(), devices, error, error_size);
}
