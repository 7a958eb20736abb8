#pragma once

// Memory of a cache for what lives as long as it. Neither malloc nor an
// intercepted call is used, because it is needed under the lock that
// intercepted calls take. Between two pages without access, so that no
// registration of the program's memory extends into it. Zeroed. For one thread
// at a time.

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace urnic::regcache {

class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Takes all memory of another.
  void Take(Arena& other) {
    chunks_ = std::exchange(other.chunks_, nullptr);
    next_ = std::exchange(other.next_, 0);
    end_ = std::exchange(other.end_, 0);
  }

  // Null if there is no memory.
  void* Allocate(size_t bytes);

  template <typename T>
  T* New() {
    void* at = Allocate(sizeof(T));
    return at == nullptr ? nullptr : new (at) T;
  }

 private:
  struct Chunk {
    Chunk* next;
    size_t bytes;  // with both pages
  };
  static constexpr size_t kChunkBytes = 1 << 20;
  static constexpr size_t kAlignment = 64;

  bool Grow(size_t bytes);

  Chunk* chunks_ = nullptr;
  uintptr_t next_ = 0;
  uintptr_t end_ = 0;
};

}  // namespace urnic::regcache
