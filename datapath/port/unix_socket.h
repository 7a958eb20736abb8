#pragma once

// The unix sockets of vhost, virtio_user and memif ports, seen from outside:
// DPDK does not expose its descriptors, but the kernel knows their addresses. A
// name is a path, or "@NAME" in the abstract namespace (unix(7)).

#include <string>

namespace urnic {

// True if this process listens at `path`.
bool HasListener(const std::string& path);

// True if this process has a connection from or to `path`.
bool HasConnection(const std::string& path);
// Shuts the connections down: readers see the end of the stream.
void ShutDownConnections(const std::string& path);

// The same for the connections and the listener. Also ends accept() in any
// thread.
void ShutDownSockets(const std::string& path);
void CloseSockets(const std::string& path);
void SetCloseOnExec(const std::string& path);

// Closes the listener and replaces its descriptor by a file without events, for
// a driver that continues to watch the descriptor.
void ReplaceListeners(const std::string& path);

}  // namespace urnic
