#pragma once

// The program's memory, as commands reach into it: it may not be there.

#include <cstddef>
#include <cstdint>

namespace urnic::rdmacm {

class UserMemory {
 public:
  // False if some byte of it is not there (EFAULT).
  virtual bool Read(void* to, uint64_t from, size_t bytes) = 0;
  virtual bool Write(uint64_t to, const void* from, size_t bytes) = 0;

 protected:
  ~UserMemory() = default;
};

}  // namespace urnic::rdmacm
