#pragma once

// Reads the bytes of a ULPDU: headers, and then segments of the program's
// memory. mpa::WriteFpdu() asks for them in order, each at most once.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "transport/base/check.h"
#include "transport/wire/mpa.h"
#include "transport/work/types.h"

namespace urnic::iwarp {

// Memory: bool(uint64_t address, std::span<uint8_t> to), false: not mapped. It
// may also take a wire::Crc32c&, and extends that over the bytes.
template <typename Memory>
class UlpduReader {
 public:
  // Both outlive the reader.
  UlpduReader(const TxSlot& slot, Memory& memory)
      : slot_(slot), memory_(memory), begin_(slot.header_bytes) {}

  // The bytes [at, at + to.size()).
  void operator()(uint32_t at, std::span<uint8_t> to) { Read(at, to, nullptr); }
  // Extends `crc` over them.
  void operator()(uint32_t at, std::span<uint8_t> to, wire::Crc32c& crc) {
    Read(at, to, &crc);
  }
  // False: some memory was not mapped.
  bool ok() const { return ok_; }

 private:
  void Read(uint32_t at, std::span<uint8_t> to, wire::Crc32c* crc) {
    if (at < slot_.header_bytes) {
      const size_t n = std::min<size_t>(slot_.header_bytes - at, to.size());
      std::memcpy(to.data(), slot_.headers + at, n);
      if (crc != nullptr) crc->Add(to.first(n));
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
      ok_ = ReadMemory(segment.address + offset, to.first(n), crc);
      at += static_cast<uint32_t>(n);
      to = to.subspan(n);
    }
  }
  bool ReadMemory(uint64_t address, std::span<uint8_t> to, wire::Crc32c* crc) {
    if (crc == nullptr) return memory_(address, to);
    if constexpr (std::is_invocable_v<Memory&, uint64_t, std::span<uint8_t>,
                                      wire::Crc32c&>) {
      return memory_(address, to, *crc);
    } else {
      const bool ok = memory_(address, to);
      crc->Add(to);
      return ok;
    }
  }

  const TxSlot& slot_;
  Memory& memory_;
  uint32_t begin_;  // of segments[index_], in the ULPDU
  uint32_t index_ = 0;
  bool ok_ = true;
};

}  // namespace urnic::iwarp
