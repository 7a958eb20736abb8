#pragma once

// Socket files that killed processes have left: such a file would prevent the
// next process from binding. Abstract sockets vanish with their process.

#include <string>

namespace urnic {

// True if any process listens at `path`: connects and hangs up. Also if this
// cannot be known, because the socket is another user's.
bool SomebodyListens(const std::string& path);

// True if `path` is a socket file at which nobody listens.
bool IsStaleSocket(const std::string& path);

// Removes such a file, and no other: one that a program has put there meanwhile
// stays. Returns 0, or an errno; 0 also if `path` is not such a file.
int RemoveStaleSocket(const std::string& path);

}  // namespace urnic
