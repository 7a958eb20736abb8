#pragma once

// A dump of a port (document E, 5.3.4): a recording (ras/recorder) that is made
// while the RNIC stands still, so that all of it is of one moment. It has no
// keys of memory and no bytes of messages, since a dump may leave the machine,
// unless someone asks for them.

#include <string>

#include "transport/base/time.h"
#include "verbs/control/control_socket.h"

namespace urnic::control {

class OpenNic;

struct DumpRequest {
  Duration longest;
  bool payload = false;  // also images and logs of inputs, with all their bytes
};

// Stops the engine, records, and lets the engine go on. Returns the file of the
// recording. If the engine has stood still for `longest`, it goes on, and the
// rest is of later moments; the answer "dump" of the recording says so. Any
// thread that does not hold the token.
std::string MakeDump(OpenNic& nic, const DumpRequest& request);
void SendDump(OpenNic& nic, const DumpRequest& request,
              const ControlSocket::Reply& reply);

}  // namespace urnic::control
