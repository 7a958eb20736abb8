#pragma once

// What a device answers to `urnic`: the requests of
// verbs/control/control_protocol.h.

#include <string_view>

#include "verbs/control/control_socket.h"

namespace urnic::control {

class Device;

// Any text has an answer. Waits for the engine's token. Any thread.
void AnswerControl(Device& device, std::string_view request,
                   const ControlSocket::Reply& reply);

}  // namespace urnic::control
