/* What allreduce.c reduces: element types, reductions of them, and values with
 * which each element of the result can be checked. */

#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Period of the values: a prime, so that no two chunks are alike. */
enum { kPeriod = 9973 };

enum { kSum, kMin, kMax, kOps };
static const char* const kOpNames[kOps] = {"sum", "min", "max"};

/* Small integers, which a float adds exactly. Those of 64-bit types are
 * multiplied, so that the check also covers their upper half. */
static int64_t base_value(int rank, uint64_t index) {
  return (int64_t)((index + 613 * (uint64_t)rank) % kPeriod) - kPeriod / 2;
}
#define SCALE(type) (sizeof(type) == 8 ? (int64_t)1 << 33 : 1)

/* The expected result, before it is scaled. */
static int64_t expected[kPeriod];

static void expect(int op, int ranks) {
  for (uint64_t i = 0; i < kPeriod; ++i) {
    int64_t value = base_value(0, i);
    for (int rank = 1; rank < ranks; ++rank) {
      const int64_t next = base_value(rank, i);
      if (op == kSum) value += next;
      if ((op == kMin && next < value) || (op == kMax && next > value))
        value = next;
    }
    expected[i] = value;
  }
}

/* memcpy(), so the code does not depend on how a message is aligned. */
#define REDUCTION(name, type, op, expression)                         \
  static void op##_##name(void* to, const void* own, const void* got, \
                          uint32_t count) {                           \
    for (size_t i = 0; i < count; ++i) {                              \
      type a, b;                                                      \
      memcpy(&a, (const char*)own + i * sizeof(type), sizeof(type));  \
      memcpy(&b, (const char*)got + i * sizeof(type), sizeof(type));  \
      a = (expression);                                               \
      memcpy((char*)to + i * sizeof(type), &a, sizeof(type));         \
    }                                                                 \
  }
#define TYPE(name, type)                                                  \
  REDUCTION(name, type, sum, a + b)                                       \
  REDUCTION(name, type, min, a < b ? a : b)                               \
  REDUCTION(name, type, max, a > b ? a : b)                               \
  static void fill_##name(void* to, int rank, uint64_t index,             \
                          uint32_t count) {                               \
    for (uint32_t i = 0; i < count; ++i)                                  \
      ((type*)to)[i] = (type)(base_value(rank, index + i) * SCALE(type)); \
  }                                                                       \
  static uint32_t wrong_##name(const void* from, uint64_t index,          \
                               uint32_t count) {                          \
    uint32_t wrong = 0;                                                   \
    for (uint32_t i = 0; i < count; ++i) {                                \
      const int64_t value = expected[(index + i) % kPeriod];              \
      wrong += ((const type*)from)[i] != (type)(value * SCALE(type));     \
    }                                                                     \
    return wrong;                                                         \
  }
TYPE(int32, int32_t)
TYPE(int64, int64_t)
TYPE(float, float)
TYPE(double, double)

struct type {
  const char* name;
  uint32_t bytes;
  void (*reduce[kOps])(void* to, const void* own, const void* got,
                       uint32_t count);
  /* Fills in a rank's values of the elements from `index` on. */
  void (*fill)(void* to, int rank, uint64_t index, uint32_t count);
  /* Returns how many elements are wrong. */
  uint32_t (*wrong)(const void* from, uint64_t index, uint32_t count);
};
#define ROW(name, type)                                                  \
  {                                                                      \
#name, sizeof(type),                                                 \
        {sum_##name, min_##name, max_##name }, fill_##name, wrong_##name \
  }
enum { kTypes = 4 };
static const struct type kTypeTable[kTypes] = {
    ROW(int32, int32_t), ROW(int64, int64_t), ROW(float, float),
    ROW(double, double)};
