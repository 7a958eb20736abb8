#include "transport/wire/mpa.h"

#include <isa-l/crc.h>

namespace urnic::wire {

Crc32c& Crc32c::Add(std::span<const uint8_t> bytes) {
  // The library only reads.
  state_ = crc32_iscsi(const_cast<unsigned char*>(bytes.data()),
                       static_cast<int>(bytes.size()), state_);
  return *this;
}

}  // namespace urnic::wire
