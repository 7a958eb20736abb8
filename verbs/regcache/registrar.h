#pragma once

// What registers memory: libibverbs, or a test's stand-in.

#include <cstddef>

struct ibv_mr;

namespace urnic::regcache {

struct Registrar {
  void* context;
  // Null on failure, with errno.
  ibv_mr* (*reg)(void* context, void* address, size_t bytes, int access);
  // 0 or an errno.
  int (*dereg)(void* context, ibv_mr* mr);
};

}  // namespace urnic::regcache
