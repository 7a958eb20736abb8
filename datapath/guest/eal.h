#pragma once

// DPDK's environment (EAL) as a guest in a stranger's process:
// docs/design/0003-a-guest-in-the-program.md.
//
// The EAL is started once per process, by the first port, and never cleaned
// up: at exit the kernel does that. It is linked statically and knows only
// virtual devices. It keeps two threads of its own (interrupts, alarms; the
// vhost library adds two more), all with every signal blocked. Blocking is
// what makes SIGPIPE harmless: virtio_user writes to a dead peer's socket
// without MSG_NOSIGNAL, but only ever from those threads and from ours.

#include <rte_lcore.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace urnic {

struct EalOptions {
  // Memory for buffers and rings, in MB. Without huge pages this is all that
  // there will ever be (pages are only taken when touched); with them it is
  // what is taken at start, and more is taken as needed. 0: 512 without and
  // 64 with huge pages.
  uint32_t memory_mb = 0;
};

// Starts the EAL, or returns what became of the earlier attempt: a failed
// start cannot be repeated in the same process. Any thread; others wait. Takes
// about 0.1 s, most of it DPDK's calibration of the clock. Does not change the
// signal mask or CPU affinity of the caller.
//
// Huge pages: URNIC_HUGEPAGES=on|off|auto. `auto`, the default, uses 2 MB
// pages when enough are free for memory_mb, else 4 KB pages.
// DPDK's messages: URNIC_DEBUG=FILE appends them there, URNIC_DEBUG=- writes
// them to stderr; else only the latest error is kept (TakeLastEalError()).
//
// FAILED_PRECONDITION: after fork(). INVALID_ARGUMENT: an environment variable.
// INTERNAL: DPDK said no.
absl::Status StartEal(const EalOptions& options);

// True between a successful StartEal() and fork() in the child: there the
// memory is shared with the parent and all threads are missing.
bool EalUsable();

// True if the running EAL uses huge pages. REQUIRES: EalUsable().
bool EalHasHugePages();

// The latest error or warning that DPDK logged on this thread, cleared by the
// call; empty if none.
std::string TakeLastEalError();

// Keeps descriptors 0..9 occupied, by /dev/null, while it lives, so that what
// DPDK opens meanwhile lands above: programs give the low numbers a meaning.
// A program that opens files in another thread at that moment sees higher
// numbers than usual and nothing else.
class LowFdsOccupied {
 public:
  LowFdsOccupied();
  ~LowFdsOccupied();
  LowFdsOccupied(const LowFdsOccupied&) = delete;
  LowFdsOccupied& operator=(const LowFdsOccupied&) = delete;

 private:
  uint32_t occupied_ = 0;  // bit n: we hold descriptor n
};

// Marks every descriptor close-on-exec that is open now and was not in
// `before`. Meant to follow a DPDK call; a descriptor that the program opened
// in another thread meanwhile is marked too.
class NewFdsCloseOnExec {
 public:
  NewFdsCloseOnExec();   // takes the list
  ~NewFdsCloseOnExec();  // marks the others
  NewFdsCloseOnExec(const NewFdsCloseOnExec&) = delete;
  NewFdsCloseOnExec& operator=(const NewFdsCloseOnExec&) = delete;

 private:
  std::string before_;  // before_[n] != 0: descriptor n was open
};

// An lcore id selects the cache of each buffer pool. Each port has its own, as
// two threads with one id at the same time would corrupt those caches. At most
// 128 per process: RESOURCE_EXHAUSTED.
absl::StatusOr<unsigned> AllocateLcore();
void FreeLcore(unsigned lcore);

// Gives the calling thread the id, respectively takes it away: only the holder
// of an engine's token has one, for as long as it holds the token
// (measured: 10 ns instead of 39 ns per buffer).
inline void TakeLcore(unsigned lcore) { RTE_PER_LCORE(_lcore_id) = lcore; }
inline void ReleaseLcore() { RTE_PER_LCORE(_lcore_id) = LCORE_ID_ANY; }

}  // namespace urnic
