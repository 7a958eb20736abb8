#pragma once

// The RNIC of a forked child. DPDK can start only once with its static data,
// its memory is shared with the parent, and its threads belong to the parent.
// So this library is dead in the child of a process that has used it
// (verbs/control/fork_guard.h). A child that opens a device, as a daemon does,
// loads the library a second time, from a copy in memory (for the loader, the
// same file would be the same library). The copy has its own static data,
// threads and memory. Inherited objects stay dead; objects that the child opens
// belong to the copy.
//
// The bytes of the copy are those of this library's file when it was loaded.
// They stay mapped, because a daemon may since have closed every descriptor or
// changed its root or directory, and the file may have been replaced. The copy
// needs /proc, as DPDK does.

#include <infiniband/verbs.h>

#include "verbs/preload/preload_api.h"
#include "verbs/provider/private_interface.h"

namespace urnic::provider {

struct Entry {
  // verbs_device_ops.alloc_context.
  verbs_context* (*open)(ibv_device* device, int cmd_fd, void* private_data);
  const urnic_rdma_cm_device* rdma_cm;
};

// The name of the only symbol through which a copy is used.
#define URNIC_PROVIDER_ENTRY urnic_provider_entry_v1
extern "C" const Entry URNIC_PROVIDER_ENTRY;

// Call this while the library is being loaded: keeps its file for copies. True
// if the library is such a copy itself. Then it must not be registered, and
// must not touch objects of the parent.
bool KeepOrBeFreshCopy();

// The copy that serves this forked child; the first call loads it. If that
// fails, it prints a message on stderr, and all calls return nullptr. Takes
// about 10 ms and 7 MB. Any thread, also in a child that was forked during such
// a call.
const Entry* FreshCopy();

}  // namespace urnic::provider
