#pragma once

// What an open port answers to `urnic`: the requests of
// verbs/control/control_protocol.h.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/wire/address.h"
#include "verbs/control/control_socket.h"

namespace urnic::control {

class OpenNic;

// Functions of the owner of the connections on this process's devices:
// rdma_cm's service.
struct ConnectionHooks {
  // Sends the images of the connections on the device with this name, a few at
  // a time. False: the client has disconnected.
  bool (*send_images)(std::string_view device,
                      const ControlSocket::Reply& reply);
  // As OpenNic::Describe(), for ids of rdma_cm.
  std::optional<uint64_t> (*describe_ids)(std::string_view device,
                                          uint64_t serial, std::string& out);
  // Disconnects the connections on the device that have this address, and
  // returns how many there were. Outside of the token.
  uint32_t (*end_connections)(std::string_view device, const wire::Gid& local);
  // Tells the ids on the device that it has failed. Outside of the token.
  void (*device_failed)(std::string_view device);
};
// `hooks` lives as long as the process. The last call counts. Any thread.
void SetConnectionHooks(const ConnectionHooks* hooks);
// Null: there is no owner.
const ConnectionHooks* TheConnectionHooks();

// Answers any text. Waits for the engine's token. Any thread.
void AnswerControl(OpenNic& nic, std::string_view request,
                   const ControlSocket::Reply& reply);

}  // namespace urnic::control
