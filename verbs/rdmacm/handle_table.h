#pragma once

// The numbers by which a program names its objects. A new object gets the
// lowest free number, as from the kernel's idr (librdmacm keeps a table of
// 65536).

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

namespace urnic::rdmacm {

template <typename T>
class HandleTable {
 public:
  static constexpr uint32_t kMax = 65536;

  // False if all numbers are taken.
  bool Add(std::shared_ptr<T> object, uint32_t* number) {
    if (free_.empty()) {
      if (objects_.size() == kMax) return false;
      free_.push(static_cast<uint32_t>(objects_.size()));
      objects_.emplace_back();
    }
    *number = free_.top();
    free_.pop();
    objects_[*number] = std::move(object);
    return true;
  }
  void Remove(uint32_t number) {
    objects_[number].reset();
    free_.push(number);
  }
  // Null if the number is not in use.
  std::shared_ptr<T> Find(uint32_t number) const {
    return number < objects_.size() ? objects_[number] : nullptr;
  }

 private:
  std::vector<std::shared_ptr<T>> objects_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> free_;
};

}  // namespace urnic::rdmacm
