#pragma once

// A protection domain: a number that queue pairs and memory regions share.

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "verbs/control/device.h"

namespace urnic::control {

// Any thread. The device must outlive it.
class Pd : public Tracked<Pd> {
 public:
  // RESOURCE_EXHAUSTED: the device's limit.
  static absl::StatusOr<std::unique_ptr<Pd>> Create(Device& device) {
    if (absl::Status s = device.pds().Reserve(device.name()); !s.ok()) return s;
    return std::unique_ptr<Pd>(new (device.memory()) Pd(device));
  }
  // REQUIRES: !in_use()
  ~Pd() {
    device_.pds().Leave(serial_);
    device_.ReturnPdId(id_);
  }
  Pd(const Pd&) = delete;
  Pd& operator=(const Pd&) = delete;

  Device& device() const { return device_; }
  uint32_t id() const { return id_; }
  const Owner& owner() const { return owner_; }

  // Each object that belongs to the domain holds a reference.
  void Ref() { ++users_; }
  void Unref() { --users_; }
  bool in_use() const { return users_ != 0; }
  int users() const { return users_; }

 private:
  explicit Pd(Device& device)
      : device_(device), id_(device.TakePdId()), owner_(ThisProcess()) {
    device.pds().Enter(*this, serial_);
  }

  Device& device_;
  const uint32_t id_;
  const Owner owner_;
  std::atomic<int> users_{0};
  uint64_t serial_ = 0;
};

}  // namespace urnic::control
