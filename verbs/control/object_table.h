#pragma once

// The objects of one kind on a device, in the order of creation, and the limit
// of their number.
//
// Threads: any. Lock order: the table's mutex before the engine's token.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"

namespace urnic::control {

template <typename T>
class ObjectTable {
 public:
  // `plural`: their name in error messages, as in "queue pairs".
  ObjectTable(const char* plural, uint32_t limit)
      : plural_(plural), limit_(limit) {}
  ObjectTable(const ObjectTable&) = delete;
  ObjectTable& operator=(const ObjectTable&) = delete;

  // Reserves a place for one more object, or releases it. RESOURCE_EXHAUSTED:
  // the message names the device, the kind and the limit.
  absl::Status Reserve(const char* device) {
    std::lock_guard lock(mutex_);
    if (places_ < limit_) {
      ++places_;
      return absl::OkStatus();
    }
    return Refusal(ErrorCode::kNoPlace, absl::StrCat(device, ": all ", limit_,
                                                     " ", plural_, " in use"));
  }
  void Release() {
    std::lock_guard lock(mutex_);
    --places_;
  }

  // Enters the object in a reserved place: from now on Visit() sees it. First
  // sets `serial`, a member of the object, to a number that no other object of
  // the table ever has. REQUIRES: the object is complete; the token is not
  // held.
  void Enter(T& object, uint64_t& serial) {
    std::lock_guard lock(mutex_);
    serial = ++last_;
    objects_.emplace_hint(objects_.end(), serial, &object);
  }
  // Call this before the object is destroyed: waits until no visitor uses it,
  // and releases its place. REQUIRES: the token is not held.
  void Leave(uint64_t serial) {
    std::lock_guard lock(mutex_);
    URNIC_CHECK(objects_.erase(serial) == 1);
    --places_;
  }

  uint32_t size() const {
    std::lock_guard lock(mutex_);
    return places_;
  }

  // Calls visit(object) for at most `most` objects, from `serial` on. Returns
  // the serial number to continue from; none: there are no more. No object can
  // enter or leave meanwhile, so `most` must be small.
  template <typename F>
  std::optional<uint64_t> Visit(uint64_t serial, size_t most, F&& visit) const {
    std::lock_guard lock(mutex_);
    auto at = objects_.lower_bound(serial);
    for (; at != objects_.end() && most != 0; ++at, --most) visit(*at->second);
    if (at == objects_.end()) return std::nullopt;
    return at->first;
  }

 private:
  const char* const plural_;
  const uint32_t limit_;
  mutable std::mutex mutex_;
  std::map<uint64_t, T*> objects_;  // by serial number
  uint32_t places_ = 0;  // reserved, including objects that are being made
  uint64_t last_ = 0;
};

}  // namespace urnic::control
