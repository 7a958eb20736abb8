#pragma once

// A dump of a port (document E, 5.3.4): a recording (ras/recorder) that is made
// while the RNIC is stopped, so that all of it describes one moment. A dump may
// leave the machine, so it has no keys of memory and no bytes of messages,
// unless the user asks for them.

#include <string>

#include "transport/base/time.h"
#include "verbs/control/control_socket.h"

namespace urnic::control {

class OpenNic;

struct DumpRequest {
  Duration longest;
  bool payload = false;  // with keys, images and logs of inputs
};

// Stops the engine, records, and lets the engine continue. Returns the file of
// the recording. The engine stops for `longest` at most. If the dump takes
// longer, the rest of it describes later moments; the answer "dump" of the
// recording says so. Any thread that does not hold the token.
std::string MakeDump(OpenNic& nic, const DumpRequest& request);
void SendDump(OpenNic& nic, const DumpRequest& request,
              const ControlSocket::Reply& reply);

}  // namespace urnic::control
