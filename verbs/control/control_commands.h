#pragma once

// What an open port answers to `urnic`: the requests of
// verbs/control/control_protocol.h.

#include <string_view>

#include "verbs/control/control_socket.h"

namespace urnic::control {

class OpenNic;

// Sends the images of the connections on the device with this name, a few at a
// time. False: the client has disconnected.
using SendConnections = bool (*)(std::string_view device,
                                 const ControlSocket::Reply& reply);
// Called by the owner of the connections on this process's devices (rdma_cm's
// service). The last call counts. Any thread.
void SetSendConnections(SendConnections send);

// Answers any text. Waits for the engine's token. Any thread.
void AnswerControl(OpenNic& nic, std::string_view request,
                   const ControlSocket::Reply& reply);

}  // namespace urnic::control
