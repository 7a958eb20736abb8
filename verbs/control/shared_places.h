#pragma once

// Objects of a process that several users share. Each has a fixed place. The
// first user opens an object, and the last one closes it.
//
// Meant for static storage, and never destroyed: users may outlive main().
//
// Threads: any. Only one object at a time is opened or closed. So an object
// that is being closed is gone before its place is opened again.

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/base/check.h"

namespace urnic::control {

template <typename T, size_t kPlaces>
class SharedPlaces {
 public:
  // Returns the object at `place`. If there is none, `open` makes it: a
  // function that returns absl::StatusOr<std::unique_ptr<T>>. Its errors are
  // returned.
  template <typename Open>
  absl::StatusOr<std::shared_ptr<T>> Share(size_t place, Open open) {
    URNIC_CHECK(place < kPlaces);
    std::lock_guard lock(mutex_);
    Place& at = places_[place];
    if (at.object == nullptr) {
      absl::StatusOr<std::unique_ptr<T>> made = open();
      if (!made.ok()) return made.status();
      at.object = *std::move(made);
    }
    return Use(at);
  }

  // The object at `place`, or null.
  std::shared_ptr<T> Find(size_t place) {
    URNIC_CHECK(place < kPlaces);
    std::lock_guard lock(mutex_);
    Place& at = places_[place];
    return at.object != nullptr ? Use(at) : nullptr;
  }

  // Calls `visit` for all objects, or for none if another thread opens or
  // closes one: exit() may be called anywhere, even while the mutex is held.
  template <typename Visit>
  void VisitAtExit(Visit visit) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    for (Place& place : places_) {
      if (place.object != nullptr) visit(*place.object);
    }
  }

 private:
  struct Place {
    std::unique_ptr<T> object;
    int users = 0;
  };

  // Adds a user. Call it with the mutex held.
  std::shared_ptr<T> Use(Place& at) {
    ++at.users;
    return std::shared_ptr<T>(at.object.get(), [this, &at](T*) {
      std::lock_guard lock(mutex_);
      if (--at.users == 0) at.object.reset();
    });
  }

  std::mutex mutex_;
  std::array<Place, kPlaces> places_;
};

}  // namespace urnic::control
