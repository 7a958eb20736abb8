#include "verbs/identity/ip_route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "verbs/identity/text_slice.h"

static const uint8_t kMapped[12] = {[10] = 0xff, [11] = 0xff};
static const uint8_t kNone[16];

struct complaint {
  char* error;
  size_t size;
  struct slice route;
};

static int fail(const struct complaint* at, const char* fmt, ...)
    __attribute__((format(printf, 2, 3)));

static int fail(const struct complaint* at, const char* fmt, ...) {
  if (at->size == 0) return -EINVAL;
  const int used = snprintf(
      at->error, at->size, "route \"%.*s\": ", (int)at->route.len, at->route.p);
  if (used < 0 || (size_t)used >= at->size) return -EINVAL;
  va_list args;
  va_start(args, fmt);
  vsnprintf(at->error + used, at->size - (size_t)used, fmt, args);
  va_end(args);
  return -EINVAL;
}

static int is_ipv4(const uint8_t* gid) {
  return memcmp(gid, kMapped, sizeof(kMapped)) == 0;
}

static int is_none(const uint8_t* gid) {
  return memcmp(gid, kNone, sizeof(kNone)) == 0;
}

static int parse_ip(struct slice ip, uint8_t* gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (ip.len >= sizeof(text)) return 0;
  memcpy(text, ip.p, ip.len);
  memcpy(gid, kMapped, sizeof(kMapped));
  if (inet_pton(AF_INET, text, gid + sizeof(kMapped)) == 1) return 1;
  // An IPv4 address must be written as such, not in mapped form.
  return inet_pton(AF_INET6, text, gid) == 1 && !is_ipv4(gid);
}

// An address that one host can have.
static int parse_host(const struct complaint* at, struct slice ip,
                      uint8_t* gid) {
  if (!parse_ip(ip, gid))
    return fail(at, "\"%.*s\" is not an IP address", (int)ip.len, ip.p);
  const int group = is_ipv4(gid) ? gid[12] >= 224 : gid[0] == 0xff;
  const int unspecified =
      is_ipv4(gid) ? memcmp(gid + 12, kNone, 4) == 0 : is_none(gid);
  if (group || unspecified)
    return fail(at, "%.*s is not the address of a host", (int)ip.len, ip.p);
  return 0;
}

static int has_bits_beyond(const uint8_t* gid, uint32_t bits) {
  for (uint32_t i = bits; i < 128; ++i)
    if (gid[i / 8] & 0x80 >> i % 8) return 1;
  return 0;
}

static int parse_prefix(const struct complaint* at, struct slice word,
                        struct urnic_ip_route* route) {
  struct slice len = word;
  const struct slice ip = slice_take_until(&len, '/');
  if (!parse_ip(ip, route->prefix))
    return fail(at, "\"%.*s\" is not IP/LEN or \"default\"", (int)word.len,
                word.p);
  const uint32_t max = is_ipv4(route->prefix) ? 32 : 128;
  uint32_t bits = max;
  if (ip.len != word.len && (!slice_to_number(len, &bits) || bits > max))
    return fail(at, "\"%.*s\" needs a prefix length of 0 to %u", (int)word.len,
                word.p, max);
  bits += 128 - max;
  if (has_bits_beyond(route->prefix, bits))
    return fail(at, "\"%.*s\" has bits set beyond its prefix length",
                (int)word.len, word.p);
  route->prefix_bits = (uint8_t)bits;
  return 0;
}

// Parses the value of one of the words.
static int parse_clause(const struct complaint* at, struct slice word,
                        struct slice value, struct urnic_ip_route* route,
                        int* has_metric) {
  const int via = slice_equals(word, "via");
  const int is_address = via || slice_equals(word, "src");
  if (!is_address && !slice_equals(word, "metric"))
    return fail(at, "\"%.*s\" is not via, metric or src", (int)word.len,
                word.p);
  if (value.len == 0)
    return fail(at, "%.*s needs %s after it", (int)word.len, word.p,
                is_address ? "an IP address" : "a number");
  if (is_address) {
    uint8_t* gid = via ? route->gateway : route->source;
    if (!is_none(gid))
      return fail(at, "%s is given twice", via ? "via" : "src");
    return parse_host(at, value, gid);
  }
  if (*has_metric) return fail(at, "metric is given twice");
  *has_metric = 1;
  if (!slice_to_number(value, &route->metric))
    return fail(at, "metric %.*s is out of range: 0 to 999999999",
                (int)value.len, value.p);
  return 0;
}

int urnic_ip_route_parse(const char* text, size_t len,
                         struct urnic_ip_route* out, char* error,
                         size_t error_size) {
  struct slice rest = {text, len};
  const struct complaint at = {error, error_size, rest};
  if (error_size > 0) error[0] = '\0';
  struct urnic_ip_route route = {0};
  const struct slice prefix = slice_take_until(&rest, ' ');
  const int is_default = slice_equals(prefix, "default");
  if (!is_default) {
    const int rc = parse_prefix(&at, prefix, &route);
    if (rc != 0) return rc;
  }
  int has_metric = 0;
  while (rest.len > 0) {
    const struct slice word = slice_take_until(&rest, ' ');
    const struct slice value = slice_take_until(&rest, ' ');
    const int rc = parse_clause(&at, word, value, &route, &has_metric);
    if (rc != 0) return rc;
  }
  if (is_default) {
    const uint8_t* of = is_none(route.gateway) ? route.source : route.gateway;
    if (is_none(of))
      return fail(&at,
                  "\"default\" alone has no address family; write \"default "
                  "via GATEWAY\"");
    if (is_ipv4(of)) {
      memcpy(route.prefix, kMapped, sizeof(kMapped));
      route.prefix_bits = 96;
    }
  }
  if (!is_none(route.source) && is_ipv4(route.source) != is_ipv4(route.prefix))
    return fail(&at, "src is an address of the other family");
  *out = route;
  return 0;
}
