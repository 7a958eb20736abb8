#include "verbs/control/xrcd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "verbs/control/device_kind.h"
#include "verbs/libc/high_fd.h"

namespace urnic::control {

namespace {

// The open domains that have a file. Never destroyed: programs may close
// devices while they exit.
struct Registry {
  std::mutex mutex;
  std::map<std::tuple<Device*, uint64_t, uint64_t>, std::weak_ptr<Xrcd>> files;
};
Registry& Files() {
  static auto* files = new Registry;
  return *files;
}

}  // namespace

Xrcd::Xrcd(Device& device, uint64_t file_device, uint64_t file_inode, int file)
    : device_(device),
      id_(device.TakePdId()),
      file_device_(file_device),
      file_inode_(file_inode),
      file_(file),
      owner_(ThisProcess()) {}

Xrcd::~Xrcd() {
  device_.ReturnPdId(id_);
  if (file_ < 0) return;
  // A program may have closed all descriptors, including this one.
  struct stat info = {};
  if (fstat(file_, &info) == 0 && info.st_dev == file_device_ &&
      info.st_ino == file_inode_) {
    close(file_);
  }
  std::lock_guard lock(Files().mutex);
  const auto at = Files().files.find({&device_, file_device_, file_inode_});
  // The file may have a new domain meanwhile.
  if (at != Files().files.end() && at->second.expired()) {
    Files().files.erase(at);
  }
}

absl::StatusOr<std::shared_ptr<Xrcd>> Xrcd::Open(Device& device, int fd,
                                                 int oflags) {
  if (!HasService(device.kind(), QpService::kXrcTarget)) {
    return Refusal(
        ErrorCode::kNotBuilt,
        absl::StrCat("open_xrcd: ", device.identity().name, " has no XRC"));
  }
  const bool create = (oflags & O_CREAT) != 0;
  if (fd == -1) {
    if (!create) {
      return Refusal(ErrorCode::kBadAttribute,
                     "open_xrcd: fd -1 needs O_CREAT");
    }
    return std::shared_ptr<Xrcd>(new (device.memory()) Xrcd(device, 0, 0, -1));
  }
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    return Refusal(ErrorCode::kDomainFile,
                   absl::StrCat("open_xrcd: fd ", fd, ": ", strerror(errno)));
  }
  std::shared_ptr<Xrcd> open;  // outlives the lock: its destructor takes it
  std::lock_guard lock(Files().mutex);
  auto& files = Files().files;
  const std::tuple<Device*, uint64_t, uint64_t> file(&device, info.st_dev,
                                                     info.st_ino);
  const auto at = files.find(file);
  if (at != files.end()) open = at->second.lock();
  if (open != nullptr) {
    if ((oflags & O_EXCL) != 0) {
      return Refusal(ErrorCode::kDomainExists,
                     "open_xrcd: the file already has a domain");
    }
    return open;
  }
  if (!create) {
    return Refusal(ErrorCode::kNoDomain, "open_xrcd: the file has no domain");
  }
  const int kept = urnic_move_fd_high(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (kept < 0) {
    return Refusal(ErrorCode::kNoDescriptors,
                   absl::StrCat("open_xrcd: cannot keep the file open: ",
                                strerror(errno)));
  }
  std::shared_ptr<Xrcd> made(new (device.memory())
                                 Xrcd(device, info.st_dev, info.st_ino, kept));
  files[file] = made;
  return made;
}

void Xrcd::AddTarget(uint32_t number, const std::weak_ptr<Qp>& qp) {
  std::lock_guard lock(targets_mutex_);
  targets_[number] = qp;
}

void Xrcd::RemoveTarget(uint32_t number) {
  std::lock_guard lock(targets_mutex_);
  targets_.erase(number);
}

std::shared_ptr<Qp> Xrcd::FindTarget(uint32_t number) {
  std::lock_guard lock(targets_mutex_);
  const auto at = targets_.find(number);
  return at == targets_.end() ? nullptr : at->second.lock();
}

}  // namespace urnic::control
