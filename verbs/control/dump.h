#pragma once

// A dump of a port (document E, 5.3.4): a recording (ras/recorder) that is made
// while the RNIC stands still, so that all of it is of one moment. Keys of
// memory are masked, since a dump may leave the machine.

#include "verbs/control/control_socket.h"

namespace urnic::control {

class OpenNic;

// Stops the engine, records, lets the engine go on, and then sends the file of
// the recording. The engine stands still for microseconds, or about 5 us for
// each queue pair. Any thread that does not hold the token.
void SendDump(OpenNic& nic, const ControlSocket::Reply& reply);

}  // namespace urnic::control
