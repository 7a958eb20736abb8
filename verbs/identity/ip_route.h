#pragma once

// A route in the syntax of ip-route(8):
//
//   ROUTE  = PREFIX *( "via" IP | "metric" N | "src" IP )
//   PREFIX = IP "/" LEN | IP | "default"
//
// with one blank between two words, and each word at most once. PREFIX has no
// bits set beyond LEN; without LEN it is one host. "via": the router, which may
// be of the other family. Without it, the destinations are on the link.
// "default" has the family of the router, or else of "src". "metric": 0 to
// 999999999, default 0; of routes with equal prefixes, the one with the
// smallest metric is used. "src": the preferred local address.
//
// Plain C11. Any thread; keeps no state and allocates nothing.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Addresses as GIDs.
struct urnic_ip_route {
  uint8_t prefix[16];
  uint8_t gateway[16];  // zero: none
  uint8_t source[16];   // zero: none preferred
  uint32_t metric;
  uint8_t prefix_bits;  // of 128: of IPv4 at least 96
};

// Parses `len` bytes. On a mistake returns -EINVAL, describes the mistake in
// `error` (`error_size` bytes, terminated), and does not change `out`.
int urnic_ip_route_parse(const char* text, size_t len,
                         struct urnic_ip_route* out, char* error,
                         size_t error_size);

#ifdef __cplusplus
}
#endif
