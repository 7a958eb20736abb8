#pragma once

// Reads the bytes of a ULPDU: headers, and then segments of the program's
// memory. mpa::WriteFpdu() asks for them in order, each at most once.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "transport/base/check.h"
#include "transport/work/types.h"

namespace urnic::iwarp {

// Memory: bool(uint64_t address, std::span<uint8_t> to), false: not mapped.
template <typename Memory>
class UlpduReader {
 public:
  // Both outlive the reader.
  UlpduReader(const TxSlot& slot, Memory& memory)
      : slot_(slot), memory_(memory), begin_(slot.header_bytes) {}

  // The bytes [at, at + to.size()).
  void Read(uint32_t at, std::span<uint8_t> to) {
    if (at < slot_.header_bytes) {
      const size_t n = std::min<size_t>(slot_.header_bytes - at, to.size());
      std::memcpy(to.data(), slot_.headers + at, n);
      at += static_cast<uint32_t>(n);
      to = to.subspan(n);
    }
    while (!to.empty() && ok_) {
      URNIC_CHECK(index_ < slot_.segment_count && at >= begin_);
      const Segment& segment = slot_.segments[index_];
      const uint32_t offset = at - begin_;
      if (offset >= segment.bytes) {
        begin_ += segment.bytes;
        ++index_;
        continue;
      }
      const size_t n = std::min<size_t>(segment.bytes - offset, to.size());
      ok_ = memory_(segment.address + offset, to.first(n));
      at += static_cast<uint32_t>(n);
      to = to.subspan(n);
    }
  }
  // False: some memory was not mapped.
  bool ok() const { return ok_; }

 private:
  const TxSlot& slot_;
  Memory& memory_;
  uint32_t begin_;  // of segments[index_], in the ULPDU
  uint32_t index_ = 0;
  bool ok_ = true;
};

}  // namespace urnic::iwarp
