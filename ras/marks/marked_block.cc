#include "ras/marks/marked_block.h"

#include <cstring>

namespace urnic {
namespace {

constexpr size_t kMark = sizeof(uint64_t);

uint64_t MarkAt(const uint8_t* memory) {
  uint64_t mark;
  std::memcpy(&mark, memory, kMark);
  return mark;
}

}  // namespace

size_t MarkedBlock::Add(size_t bytes, size_t alignment, const Marks* marks) {
  return AddAt(RoundUp(end_ + kMark, alignment), bytes, marks);
}

size_t MarkedBlock::AddAt(size_t offset, size_t bytes, const Marks* marks) {
  parts_.at(count_++) = {offset, bytes, marks};
  end_ = RoundUp(offset + bytes, kMark) + kMark;
  return offset;
}

void MarkedBlock::WriteMarks(uint8_t* base) const {
  for (size_t i = 0; i < count_; ++i) {
    const Part& part = parts_[i];
    std::memcpy(base + part.offset - kMark, &part.marks->start, kMark);
    std::memcpy(base + part.offset + RoundUp(part.bytes, kMark),
                &part.marks->end, kMark);
  }
}

const MarkedBlock::Part* MarkedBlock::FindDamaged(const uint8_t* base) const {
  for (size_t i = 0; i < count_; ++i) {
    const Part& part = parts_[i];
    if (MarkAt(base + part.offset - kMark) != part.marks->start ||
        MarkAt(base + part.offset + RoundUp(part.bytes, kMark)) !=
            part.marks->end) {
      return &part;
    }
  }
  return nullptr;
}

}  // namespace urnic
