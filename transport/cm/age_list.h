#pragma once

// Lists of small integers in the order in which they were appended, to find
// "the oldest of ...". Each item is in at most one list of an AgeLists, and is
// removed in constant time. Only Grow() allocates.

#include <cstdint>
#include <vector>

#include "transport/base/check.h"

namespace urnic::cm {

// One list; its items are linked in the AgeLists that it is used with.
struct AgeList {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t oldest = kNone;
  uint32_t youngest = kNone;
  uint32_t count = 0;
};

class AgeLists {
 public:
  static constexpr uint32_t kNone = AgeList::kNone;

  // Makes room for items below `items`.
  void Grow(uint32_t items) {
    if (items > links_.size()) links_.resize(items);
  }
  // REQUIRES: it is in no list.
  void Append(AgeList& list, uint32_t item) {
    links_[item] = {list.youngest, kNone};
    if (list.youngest == kNone) {
      list.oldest = item;
    } else {
      links_[list.youngest].younger = item;
    }
    list.youngest = item;
    ++list.count;
  }
  // REQUIRES: it is in this list.
  void Remove(AgeList& list, uint32_t item) {
    const Links at = links_[item];
    URNIC_CHECK(list.count > 0);
    if (at.older == kNone) {
      URNIC_CHECK(list.oldest == item);
      list.oldest = at.younger;
    } else {
      links_[at.older].younger = at.younger;
    }
    if (at.younger == kNone) {
      list.youngest = at.older;
    } else {
      links_[at.younger].older = at.older;
    }
    --list.count;
  }
  // REQUIRES: it is in a list.
  uint32_t YoungerThan(uint32_t item) const { return links_[item].younger; }

 private:
  struct Links {
    uint32_t older = kNone;
    uint32_t younger = kNone;
  };
  std::vector<Links> links_;
};

}  // namespace urnic::cm
