#pragma once

// An XRC domain: which target queue pairs may use which shared receive queues.
// IBTA annex A14.

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "verbs/control/device.h"

namespace urnic::control {

// Any thread. Lives on its device, which must outlive it. Those that were
// opened with the same file are one, within this process.
class Xrcd {
 public:
  // `fd` -1: a domain of its own. Else the domain of that file, made with
  // O_CREAT among `oflags` and refused with O_EXCL if it is there: as for
  // open(2). NOT_FOUND: it is not there. ALREADY_EXISTS: it is, with O_EXCL.
  // INVALID_ARGUMENT: -1 without O_CREAT, or no file.
  static absl::StatusOr<std::shared_ptr<Xrcd>> Open(Device& device, int fd,
                                                    int oflags);
  ~Xrcd();
  Xrcd(const Xrcd&) = delete;
  Xrcd& operator=(const Xrcd&) = delete;

  Device& device() const { return device_; }
  uint32_t id() const { return id_; }
  const Owner& owner() const { return owner_; }

  // Held by each object that belongs to the domain.
  void Ref() { ++users_; }
  void Unref() { --users_; }
  bool in_use() const { return users_ != 0; }

 private:
  Xrcd(Device& device, uint64_t file_device, uint64_t file_inode);

  Device& device_;
  const uint32_t id_;
  const uint64_t file_device_;
  const uint64_t file_inode_;  // 0: no file
  const Owner owner_;
  std::atomic<int> users_{0};
};

}  // namespace urnic::control
