#pragma once

// DPDK's environment (EAL) as a guest in a process that is not ours:
// docs/design/0003-a-guest-in-the-program.md.
//
// The first port starts the EAL, once per process. It is never cleaned up: at
// exit the kernel does that. It is linked statically and knows only virtual
// devices. It runs two threads of its own (interrupts, alarms; the vhost
// library adds two more), all with every signal blocked. That makes SIGPIPE
// harmless: virtio_user writes to a dead peer's socket without MSG_NOSIGNAL,
// but only from those threads and from ours.

#include <rte_lcore.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace urnic {

struct EalOptions {
  // Memory for buffers and rings, in MB. Without huge pages this is the maximum
  // (pages are only taken when touched). With huge pages this much is taken at
  // the start, and more is taken as needed. 0: 512 without and 64 with huge
  // pages.
  uint32_t memory_mb = 0;
};

// Starts the EAL, or returns the result of the earlier attempt: a failed start
// cannot be repeated in the same process. Any thread; others wait. Takes about
// 0.1 s, most of it DPDK's calibration of the clock. Does not change the signal
// mask or CPU affinity of the caller.
//
// Huge pages: URNIC_HUGEPAGES=on|off|auto. `auto`, the default, uses 2 MB pages
// if enough are free for memory_mb, otherwise 4 KB pages.
// DPDK's messages: URNIC_DEBUG=FILE appends them there, URNIC_DEBUG=- writes
// them to stderr; otherwise only the latest error is kept (TakeLastEalError()).
//
// FAILED_PRECONDITION: after fork(). INVALID_ARGUMENT: an environment variable.
// INTERNAL: DPDK refused.
absl::Status StartEal(const EalOptions& options);

// True after a successful StartEal(), but not in a child after fork(): there
// the memory is shared with the parent and all threads are missing.
bool EalUsable();

// True if the running EAL uses huge pages. REQUIRES: EalUsable().
bool EalHasHugePages();

// The latest error or warning that DPDK logged on this thread; empty if there
// is none. The call clears it.
std::string TakeLastEalError();

// Occupies descriptors 0..9 with /dev/null as long as it exists, so that the
// descriptors that DPDK opens meanwhile get higher numbers: low numbers have a
// meaning for programs. If the program opens files in another thread meanwhile,
// these get higher numbers than usual; there is no other effect.
class LowFdsOccupied {
 public:
  LowFdsOccupied();
  ~LowFdsOccupied();
  LowFdsOccupied(const LowFdsOccupied&) = delete;
  LowFdsOccupied& operator=(const LowFdsOccupied&) = delete;

 private:
  uint32_t occupied_ = 0;  // bit n: we hold descriptor n
};

// The destructor marks every descriptor close-on-exec that was not open when
// the object was created. Meant to enclose a DPDK call; a descriptor that the
// program opened in another thread meanwhile is marked too.
class NewFdsCloseOnExec {
 public:
  NewFdsCloseOnExec();   // lists the open descriptors
  ~NewFdsCloseOnExec();  // marks all others
  NewFdsCloseOnExec(const NewFdsCloseOnExec&) = delete;
  NewFdsCloseOnExec& operator=(const NewFdsCloseOnExec&) = delete;

 private:
  std::string before_;  // before_[n] != 0: descriptor n was open
};

// An lcore id selects the cache of each buffer pool. Each port has its own id,
// because two threads with one id at the same time would corrupt those caches.
// At most 128 per process: RESOURCE_EXHAUSTED.
absl::StatusOr<unsigned> AllocateLcore();
void FreeLcore(unsigned lcore);

// Give the id to the calling thread and take it away. Only the holder of an
// engine's token has an id, for as long as it holds the token (measured: 10 ns
// instead of 39 ns per buffer).
inline void TakeLcore(unsigned lcore) { RTE_PER_LCORE(_lcore_id) = lcore; }
inline void ReleaseLcore() { RTE_PER_LCORE(_lcore_id) = LCORE_ID_ANY; }

}  // namespace urnic
