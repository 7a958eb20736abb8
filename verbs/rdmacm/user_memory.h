#pragma once

// Access to the program's memory by commands. The memory may not be mapped.

#include <cstddef>
#include <cstdint>

namespace urnic::rdmacm {

class UserMemory {
 public:
  // False if some of it is not mapped (EFAULT).
  virtual bool Read(void* to, uint64_t from, size_t bytes) = 0;
  virtual bool Write(uint64_t to, const void* from, size_t bytes) = 0;

 protected:
  ~UserMemory() = default;
};

}  // namespace urnic::rdmacm
