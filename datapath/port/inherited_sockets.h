#pragma once

// DPDK does not expose its sockets, so ports look for them among the
// descriptors of the process. A forked child that loads this library again
// (verbs/provider/fresh_copy.h) also finds the inherited sockets of its
// parent's ports there, at the same path or interface. Any operation on those
// would affect the parent.

namespace urnic {

// Remembers the sockets that are open now; they belong to no driver of this
// library. Call it while the library is loaded, before any port opens.
void IgnoreSocketsOpenNow();

// Whether the socket `fd` was open at that call. Any thread.
bool IsInherited(int fd);

}  // namespace urnic
