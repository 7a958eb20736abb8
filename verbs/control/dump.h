#pragma once

// A dump of a port (document E, 5.3.4): a recording (ras/recorder) that is made
// while the RNIC stands still, so that all of it is of one moment. It has no
// keys of memory and no bytes of messages, since a dump may leave the machine.

#include <string>

#include "transport/base/time.h"
#include "verbs/control/control_socket.h"

namespace urnic::control {

class OpenNic;

// Stops the engine, records, and lets the engine go on. Returns the file of the
// recording. If the engine has stood still for `longest`, it goes on, and the
// rest is of later moments; the answer "dump" of the recording says so. Any
// thread that does not hold the token.
std::string MakeDump(OpenNic& nic, Duration longest);
void SendDump(OpenNic& nic, Duration longest,
              const ControlSocket::Reply& reply);

}  // namespace urnic::control
