#include "verbs/regcache/mapped_run.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "verbs/libc/procmap_query.h"

namespace urnic::regcache {

namespace {

// Is given mappings in ascending order.
class Run {
 public:
  Run(Range scope, Range want, bool writable)
      : scope_(scope), want_(want), writable_(writable) {}

  // False: the rest changes nothing.
  bool Add(Range mapping, bool readable, bool writable) {
    const bool usable = readable && (writable || !writable_);
    if (mapping.end <= scope_.begin) return true;
    if (!usable || mapping.begin != run_.end) {
      if (run_.end > want_.begin) return false;
      run_ = {mapping.begin, mapping.begin};
    }
    if (usable)
      run_.end = mapping.end;
    else
      run_ = {mapping.end, mapping.end};
    return run_.end < scope_.end;
  }

  Range Result() const {
    const Range found = {std::max(run_.begin, scope_.begin),
                         std::min(run_.end, scope_.end)};
    return found.Covers(want_) ? found : want_;
  }

 private:
  Range scope_;
  Range want_;
  bool writable_;
  Range run_;
};

// "START-END rwxp ...": the numbers are hexadecimal.
class LineReader {
 public:
  explicit LineReader(Run& run) : run_(run) {}

  // False: enough was read.
  bool Take(char c) {
    if (c == '\n') {
      const bool more = run_.Add({number_[0], number_[1]}, rights_[0] == 'r',
                                 rights_[1] == 'w');
      *this = LineReader(run_);
      return more;
    }
    if (field_ < 2) {
      if (c == '-' || c == ' ') {
        ++field_;
      } else {
        const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
        number_[field_] = number_[field_] * 16 + static_cast<unsigned>(digit);
      }
    } else if (read_ < 2) {
      rights_[read_++] = c;
    }
    return true;
  }

  LineReader& operator=(const LineReader& other) {
    number_[0] = other.number_[0];
    number_[1] = other.number_[1];
    field_ = other.field_;
    read_ = other.read_;
    return *this;
  }

 private:
  Run& run_;
  uint64_t number_[2] = {0, 0};
  char rights_[2] = {0, 0};
  int field_ = 0;
  int read_ = 0;
};

}  // namespace

Range MappedRunOfText(int fd, Range scope, Range want, bool writable) {
  Run run(scope, want, writable);
  LineReader line(run);
  char text[1024];
  for (;;) {
    const ssize_t got = read(fd, text, sizeof(text));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return run.Result();
    for (ssize_t i = 0; i < got; ++i) {
      if (!line.Take(text[i])) return run.Result();
    }
  }
}

Range MappedRun(Range scope, Range want, bool writable) {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return want;
  Run run(scope, want, writable);
  Range result = want;
  uint64_t next = scope.begin;
  for (;;) {
    urnic_procmap_query query = {};
    query.size = sizeof(query);
    query.query_flags = URNIC_PROCMAP_THIS_OR_NEXT;
    query.query_addr = next;
    if (ioctl(fd, URNIC_PROCMAP_QUERY, &query) != 0) {
      if (errno == EINTR) continue;
      result = errno == ENOENT ? run.Result()
                               : MappedRunOfText(fd, scope, want, writable);
      break;
    }
    next = query.vma_end;
    if (!run.Add({query.vma_start, query.vma_end},
                 (query.vma_flags & URNIC_PROCMAP_READABLE) != 0,
                 (query.vma_flags & URNIC_PROCMAP_WRITABLE) != 0)) {
      result = run.Result();
      break;
    }
  }
  close(fd);
  return result;
}

}  // namespace urnic::regcache
