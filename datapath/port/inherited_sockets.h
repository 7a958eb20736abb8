#pragma once

// DPDK keeps its sockets to itself, so ports look for them among the process's
// descriptors. A forked child that loads this library anew
// (verbs/provider/fresh_copy.h) finds there what it has inherited, too: the
// sockets of its parent's ports, at the same path or interface. What it does to
// those happens to the parent.

namespace urnic {

// The sockets that are open now belong to no driver of this library. Call it
// while the library is loaded, before any port opens.
void IgnoreSocketsOpenNow();

// Was the socket `fd` open then? Any thread.
bool IsInherited(int fd);

}  // namespace urnic
