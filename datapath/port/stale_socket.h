#pragma once

// Socket files that killed processes have left: such a file would prevent the
// next process from binding. Abstract sockets vanish with their process.

#include <string>

namespace urnic {

// True if any process listens at `path`; connects to find out, and disconnects.
// Also true if the answer is unknown, because the socket belongs to another
// user.
bool SomebodyListens(const std::string& path);

// True if `path` is a socket file at which no process listens.
bool IsStaleSocket(const std::string& path);

// Removes such a file, but not a file that a program has created there
// meanwhile. Returns 0, or an errno; 0 also if `path` is not such a file.
int RemoveStaleSocket(const std::string& path);

}  // namespace urnic
