#pragma once

// Handles writes to the rdma_cm device: struct rdma_ucm_cmd_hdr and a command
// of <rdma/rdma_user_cm.h>. Parses the command, calls the service, and writes
// the answer to the address in the command.

#include <cstddef>
#include <cstdint>

#include "verbs/rdmacm/service.h"
#include "verbs/rdmacm/user_memory.h"

namespace urnic::rdmacm {

// The channel behind a descriptor of the program (MIGRATE_ID).
class ChannelFinder {
 public:
  // Null: not a descriptor of this device, or closed.
  virtual EventChannel* Find(uint32_t fd) = 0;

 protected:
  ~ChannelFinder() = default;
};

// One write(2) of `bytes` at `address` in the program. 0 or an errno:
//   EINVAL   shorter than its header says, or than the command is; unknown
//   ENOSYS   GET_OPTION, which Linux does not have either
//   ENOSPC   not enough room for the answer
//   EFAULT   memory that is not mapped
//   EAGAIN   GET_EVENT only: there is no event yet
//   others   are errnos of the service
// Longer commands and more room are allowed, because later versions of the
// interface append members.
int RunCommand(Service& service, EventChannel& channel, UserMemory& memory,
               ChannelFinder& channels, uint64_t address, size_t bytes);

}  // namespace urnic::rdmacm
