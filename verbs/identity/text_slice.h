#pragma once

// Slices of a text that the caller owns; the text is never copied. Private to
// the parsers of this folder. Plain C11.

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
  const char* p;
  size_t len;
};

static inline int slice_starts_with(struct slice s, const char* prefix) {
  size_t n = strlen(prefix);
  return s.len >= n && memcmp(s.p, prefix, n) == 0;
}

static inline int slice_equals(struct slice s, const char* text) {
  return s.len == strlen(text) && slice_starts_with(s, text);
}

// Cuts the text before the next `separator` off `rest`.
static inline struct slice slice_take_until(struct slice* rest,
                                            char separator) {
  const char* end = memchr(rest->p, separator, rest->len);
  struct slice head = {rest->p, end ? (size_t)(end - rest->p) : rest->len};
  size_t eaten = head.len + (end != NULL);
  rest->p += eaten;
  rest->len -= eaten;
  return head;
}

// Only digits, at most nine: strtoul would also accept signs and blanks.
static inline int slice_to_number(struct slice s, uint32_t* out) {
  if (s.len == 0 || s.len > 9) return 0;
  uint32_t value = 0;
  for (size_t i = 0; i < s.len; ++i) {
    if (!isdigit((unsigned char)s.p[i])) return 0;
    value = value * 10 + (uint32_t)(s.p[i] - '0');
  }
  *out = value;
  return 1;
}
