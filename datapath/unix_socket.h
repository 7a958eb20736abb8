#pragma once

// The unix sockets behind vhost and virtio_user ports, seen from outside:
// DPDK keeps its descriptors to itself, but the kernel knows their address.

#include <string>

namespace urnic {

// Removes a socket file that nobody listens on: left behind by a process that
// was killed, it would keep the next one from binding.
void RemoveStaleSocket(const std::string& path);

// True if this process listens at `path`.
bool HasListener(const std::string& path);

// For every socket of this process that is bound to or was accepted at `path`.
void SetCloseOnExec(const std::string& path);
// Ends every accept() and recv() on them, in whatever thread.
void ShutDownSocketsAt(const std::string& path);
void CloseSocketsAt(const std::string& path);

// True if somebody listens at `path`: connects and hangs up.
bool SomebodyListens(const std::string& path);

}  // namespace urnic
