#pragma once

// What the kernel reports of changes of the address space: userfaultfd(2) with
// events, in the mode for write protection, of which we protect nothing. With
// UFFD_FEATURE_WP_ASYNC (Linux 6.7) no page fault ever waits for us, and
// mappings of all kinds can be watched.
//
// Memory is watched only if IsWatched() says so, which asks about the whole
// range in one step. From then on each change of it is an event. The thread
// that makes a change waits until its event is read: the reader must not
// unmap, nor wait for a thread that may.
//
// A process has one reader. All functions: any thread.

#include <cstddef>

#include "verbs/regcache/range.h"

namespace urnic::regcache {

class KernelWatch {
 public:
  // False if the kernel has no such reports, or the process may not use them.
  bool Open();
  void Close();
  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }  // readable while there are events

  // Watches what is mapped of a range of whole pages. False if the kernel
  // refuses, with nothing changed.
  bool Watch(Range range);
  // Whether all of it is mapped and watched.
  bool IsWatched(Range range) const;
  void Unwatch(Range range) const;

  // Whether a change has been made, or is being made, whose event is not read
  // yet. A system call.
  bool IsChanging() const;

  struct Change {
    Range range;
    // The kernel makes this change after its event was read, not before.
    bool comes_later = false;
  };
  // Reads some events without waiting; returns how many changes it has stored.
  static constexpr size_t kMaxChanges = 32;
  size_t Read(Change (&changes)[kMaxChanges]);

 private:
  int fd_ = -1;
};

}  // namespace urnic::regcache
