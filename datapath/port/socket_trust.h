#pragma once

// Checks which other users may be the peer of a port. On memif and virtio_user
// such a peer must be trusted: docs/trust.md.

#include <string>

#include "datapath/port/port_spec.h"

namespace urnic {

// One line if users other than this one and root can be at the other end of a
// port whose peer could take over the program; otherwise empty. Call it after
// the port's device has started: before that, its socket file may not exist.
// Any thread.
std::string WhoElseMayJoin(const PortSpec& spec);

}  // namespace urnic
