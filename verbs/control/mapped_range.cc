#include "verbs/control/mapped_range.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "verbs/libc/procmap_query.h"

namespace urnic::control {

namespace {

// "START-END rwxp OFFSET DEVICE INODE PATH": the numbers are hexadecimal.
bool ParseLine(std::string_view line, uint64_t& start, uint64_t& end,
               std::string_view& rights) {
  const char* at = line.data();
  const char* stop = at + line.size();
  auto number = std::from_chars(at, stop, start, 16);
  if (number.ec != std::errc() || number.ptr == stop || *number.ptr != '-') {
    return false;
  }
  number = std::from_chars(number.ptr + 1, stop, end, 16);
  if (number.ec != std::errc() || stop - number.ptr < 5) return false;
  rights = std::string_view(number.ptr + 1, 4);
  return true;
}

}  // namespace

bool MappedRangeCheck::Mapping(uint64_t start, uint64_t end, bool readable,
                               bool writable) {
  if (end <= next_) return true;
  if (start > next_) return false;  // a gap
  if (!readable || (writable_ && !writable)) {
    wrong_rights_ = true;
    return false;
  }
  next_ = std::min(end, end_);
  return next_ < end_;
}

bool MappedRangeCheck::Line(std::string_view line) {
  uint64_t start = 0;
  uint64_t end = 0;
  std::string_view rights;
  if (!ParseLine(line, start, end, rights)) return true;
  return Mapping(start, end, rights[0] == 'r', rights[1] == 'w');
}

absl::Status MappedRangeCheck::Result() const {
  if (next_ == end_) return absl::OkStatus();
  return Refusal(ErrorCode::kNotMapped,
                 absl::StrCat("address 0x", absl::Hex(next_), " is ",
                              !wrong_rights_ ? "not mapped"
                              : writable_    ? "not writable"
                                             : "not readable"));
}

namespace {

// False: the kernel has no PROCMAP_QUERY, and nothing has been checked.
bool CheckByAddress(int maps, MappedRangeCheck& check) {
  for (;;) {
    urnic_procmap_query query = {};
    query.size = sizeof(query);
    query.query_addr = check.next();
    if (ioctl(maps, URNIC_PROCMAP_QUERY, &query) != 0) {
      if (errno == EINTR) continue;
      return errno == ENOENT;  // nothing is mapped there
    }
    if (!check.Mapping(query.vma_start, query.vma_end,
                       (query.vma_flags & URNIC_PROCMAP_READABLE) != 0,
                       (query.vma_flags & URNIC_PROCMAP_WRITABLE) != 0)) {
      return true;
    }
  }
}

void CheckByReading(int maps, MappedRangeCheck& check) {
  // Not on the stack, which is small in some threads and fibres. The kernel
  // returns at most one page per read.
  constexpr size_t kBuffer = 32768;
  const auto buffer = std::make_unique<char[]>(kBuffer);
  size_t held = 0;
  bool more = true;
  while (more) {
    const ssize_t got = read(maps, buffer.get() + held, kBuffer - held);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    held += static_cast<size_t>(got);
    size_t from = 0;
    while (more) {
      const void* newline = memchr(buffer.get() + from, '\n', held - from);
      if (newline == nullptr) break;
      const size_t to =
          static_cast<size_t>(static_cast<const char*>(newline) - buffer.get());
      more = check.Line({buffer.get() + from, to - from});
      from = to + 1;
    }
    held -= from;
    memmove(buffer.get(), buffer.get() + from, held);
    if (held == kBuffer) break;  // no line is that long
  }
}

}  // namespace

absl::Status CheckMapped(uint64_t address, uint64_t bytes, bool writable,
                         MapsSource source) {
  const int fd = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Refusal(
        ErrorCode::kSystem,
        absl::StrCat("cannot open /proc/thread-self/maps: ", strerror(errno)));
  }
  MappedRangeCheck check(address, bytes, writable);
  if (source == MapsSource::kText || !CheckByAddress(fd, check)) {
    CheckByReading(fd, check);
  }
  close(fd);
  return check.Result();
}

}  // namespace urnic::control
