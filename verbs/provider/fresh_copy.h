#pragma once

// The RNIC of a forked child. DPDK starts once with its static data, its memory
// is shared with the parent and its threads are the parent's, so this library
// is dead in a child of the process that has used it (verbs/control/
// fork_guard.h). The child that opens a device, as a daemon does, loads the
// library a second time instead, from a copy in memory (the loader would take
// the same file for the same library): with static data, threads and memory of
// its own. What the child has inherited stays dead; what it opens is the
// copy's.
//
// The bytes of the copy are those of this library's file as it was loaded, kept
// mapped: a daemon may have closed every descriptor, changed its root or its
// directory since, or the file may be another. It needs /proc, as DPDK does.

#include <infiniband/verbs.h>

#include "verbs/preload/preload_api.h"
#include "verbs/provider/rdmav34.h"

namespace urnic::provider {

struct Entry {
  // verbs_device_ops.alloc_context.
  verbs_context* (*open)(ibv_device* device, int cmd_fd, void* private_data);
  const urnic_rdma_cm_device* rdma_cm;
};

// What a copy shows, by this name, and nothing else.
#define URNIC_PROVIDER_ENTRY urnic_provider_entry_v1
extern "C" const Entry URNIC_PROVIDER_ENTRY;

// While this library is loaded: keeps its file for copies. True if it is such a
// copy itself: then it is not registered, and what the parent has open is left
// alone.
bool KeepOrBeFreshCopy();

// The copy that serves this forked child, loaded by the first call; nullptr if
// that failed, from then on and with a sentence on stderr. Some 10 ms and 7 MB.
// Any thread, also of a child that was forked in the middle of this.
const Entry* FreshCopy();

}  // namespace urnic::provider
