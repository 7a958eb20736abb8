#pragma once

//= IBTA A14: an XRC domain determines which target queue pairs may use which
//= shared receive queues

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "verbs/control/device.h"

namespace urnic::control {

class Qp;

// An XRC domain. Any thread. The device must outlive it. Within this process,
// all Open() calls with the same file share one domain.
class Xrcd : public Tracked<Xrcd> {
 public:
  // `fd` -1: a private domain. Otherwise the domain of that file. `oflags` are
  // as for open(2): O_CREAT creates the domain, and O_EXCL fails if it exists.
  // NOT_FOUND: it does not exist. ALREADY_EXISTS: it does, and O_EXCL is set.
  // INVALID_ARGUMENT: -1 without O_CREAT. FAILED_PRECONDITION: `fd` is not an
  // open file. RESOURCE_EXHAUSTED: no descriptor left. The domain keeps the
  // file open, so that no other file gets its inode number.
  static absl::StatusOr<std::shared_ptr<Xrcd>> Open(Device& device, int fd,
                                                    int oflags);
  ~Xrcd();
  Xrcd(const Xrcd&) = delete;
  Xrcd& operator=(const Xrcd&) = delete;

  Device& device() const { return device_; }
  uint32_t id() const { return id_; }
  const Owner& owner() const { return owner_; }

  // The target queue pairs of the domain, by number, for Qp::Open().
  // FindTarget() returns null if the target does not exist or is being
  // destroyed.
  void AddTarget(uint32_t number, const std::weak_ptr<Qp>& qp);
  void RemoveTarget(uint32_t number);
  std::shared_ptr<Qp> FindTarget(uint32_t number);

  // Each object that belongs to the domain holds a reference.
  void Ref() { ++users_; }
  void Unref() { --users_; }
  bool in_use() const { return users_ != 0; }

 private:
  Xrcd(Device& device, uint64_t file_device, uint64_t file_inode, int file);

  Device& device_;
  const uint32_t id_;
  const uint64_t file_device_;
  const uint64_t file_inode_;
  const int file_;  // our descriptor; -1: none
  const Owner owner_;
  std::atomic<int> users_{0};
  std::mutex targets_mutex_;
  std::map<uint32_t, std::weak_ptr<Qp>> targets_;  // under targets_mutex_
};

}  // namespace urnic::control
