#include "verbs/regcache/kernel_watch.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "verbs/libc/high_fd.h"

namespace urnic::regcache {

namespace {

// Of headers that are newer than those of Debian 12.
constexpr int kUserModeOnly = 1;                        // UFFD_USER_MODE_ONLY
constexpr uint64_t kWpUnpopulated = uint64_t{1} << 13;  // of UFFD_FEATURE_..
constexpr uint64_t kWpAsync = uint64_t{1} << 15;
struct PageRegion {
  uint64_t start;
  uint64_t end;
  uint64_t categories;
};
struct ScanArgument {  // struct pm_scan_arg
  uint64_t size;
  uint64_t flags;
  uint64_t start;
  uint64_t end;
  uint64_t walk_end;
  uint64_t vec;
  uint64_t vec_len;
  uint64_t max_pages;
  uint64_t category_inverted;
  uint64_t category_mask;
  uint64_t category_anyof_mask;
  uint64_t return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArgument);
constexpr uint64_t kWpAllowed = 1;  // PAGE_IS_WPALLOWED

// The first piece of the range that is watched. Returns how far the kernel has
// looked; the region stays as it is if there is none.
uint64_t ScanWatched(Range range, PageRegion* region) {
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap < 0) return range.end;
  ScanArgument scan = {};
  scan.size = sizeof(scan);
  scan.start = range.begin;
  scan.end = range.end;
  scan.vec = reinterpret_cast<uint64_t>(region);
  scan.vec_len = 1;
  scan.category_mask = kWpAllowed;
  scan.return_mask = kWpAllowed;
  const int found = ioctl(pagemap, kPagemapScan, &scan);
  close(pagemap);
  return found == 1 ? scan.walk_end : range.end;
}

// A page of our own, which is watched and then not.
bool Works(KernelWatch& watch) {
  const long at = syscall(SYS_mmap, nullptr, kPageBytes, PROT_READ,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == -1) return false;
  const auto begin = static_cast<uint64_t>(at);
  const Range page = {begin, begin + kPageBytes};
  const bool works =
      !watch.IsWatched(page) && watch.Watch(page) && watch.IsWatched(page);
  watch.Unwatch(page);
  syscall(SYS_munmap, at, kPageBytes);
  return works;
}

}  // namespace

bool KernelWatch::Open() {
  // A process without privileges may use the kind that serves no faults of the
  // kernel. We serve none at all.
  const long fd =
      syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly);
  if (fd < 0) return false;
  fd_ = urnic_move_fd_high(static_cast<int>(fd));
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
                 UFFD_FEATURE_EVENT_REMOVE | kWpUnpopulated | kWpAsync;
  if (ioctl(fd_, UFFDIO_API, &api) == 0 && Works(*this)) return true;
  Close();
  return false;
}

void KernelWatch::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

bool KernelWatch::Watch(Range range) {
  uffdio_register what = {};
  what.range = {range.begin, range.bytes()};
  what.mode = UFFDIO_REGISTER_MODE_WP;
  return ioctl(fd_, UFFDIO_REGISTER, &what) == 0;
}

bool KernelWatch::IsWatched(Range range) const {
  // The kernel joins pages that lie side by side and are of one kind: all is
  // watched if the answer is one region.
  PageRegion region = {};
  return ScanWatched(range, &region) == range.end &&
         region.start == range.begin && region.end == range.end;
}

void KernelWatch::Unwatch(Range range) const {
  // Piece by piece: the kernel refuses ranges that have something else, too.
  while (range.begin < range.end) {
    PageRegion region = {};
    const uint64_t next = ScanWatched(range, &region);
    if (region.end == 0) return;
    uffdio_range what = {region.start, region.end - region.start};
    ioctl(fd_, UFFDIO_UNREGISTER, &what);
    range.begin = next;
  }
}

bool KernelWatch::IsChanging() const {
  // Refused in any case: with EAGAIN while an event is unread, and otherwise
  // because the range is empty.
  uffdio_zeropage nothing = {};
  return ioctl(fd_, UFFDIO_ZEROPAGE, &nothing) != 0 && errno == EAGAIN;
}

size_t KernelWatch::Read(Change (&changes)[kMaxChanges]) {
  uffd_msg events[kMaxChanges / 2];
  const ssize_t got = read(fd_, events, sizeof(events));
  if (got <= 0) return 0;
  size_t n = 0;
  for (size_t i = 0; i < static_cast<size_t>(got) / sizeof(uffd_msg); ++i) {
    const auto& event = events[i];
    if (event.event == UFFD_EVENT_REMAP) {
      const auto& remap = event.arg.remap;
      changes[n++] = {{remap.from, remap.from + remap.len}};
      changes[n++] = {{remap.to, remap.to + remap.len}};
    } else if (event.event == UFFD_EVENT_UNMAP ||
               event.event == UFFD_EVENT_REMOVE) {
      const auto& remove = event.arg.remove;
      changes[n++] = {{remove.start, remove.end},
                      event.event == UFFD_EVENT_REMOVE};
    }
  }
  return n;
}

}  // namespace urnic::regcache
