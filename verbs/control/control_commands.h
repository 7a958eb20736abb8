#pragma once

// The answers of an open port to the requests of `urnic`
// (verbs/control/control_protocol.h).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/wire/address.h"
#include "verbs/control/control_socket.h"

namespace urnic::control {

class OpenNic;

// Functions of rdma_cm's service, which owns the connections on this process's
// devices.
struct ConnectionHooks {
  // Sends the images of the connections on the device `device`, a few at a
  // time. False: the client has disconnected.
  bool (*send_images)(std::string_view device,
                      const ControlSocket::Reply& reply);
  // As OpenNic::Describe(), for ids of rdma_cm.
  std::optional<uint64_t> (*describe_ids)(std::string_view device,
                                          uint64_t serial, std::string& out);
  // Disconnects the connections on the device that have this local address, and
  // returns how many there were. Call it without the token.
  uint32_t (*end_connections)(std::string_view device, const wire::Gid& local);
  // Tells the ids on the device that it has failed. Call it without the token.
  void (*device_failed)(std::string_view device);
};
// `hooks` lives as long as the process, and replaces the previous ones. Any
// thread.
void SetConnectionHooks(const ConnectionHooks* hooks);
// Null: rdma_cm's service does not run.
const ConnectionHooks* TheConnectionHooks();

// Answers a request, which may be any text. Waits for the engine's token. Any
// thread.
void AnswerControl(OpenNic& nic, std::string_view request,
                   const ControlSocket::Reply& reply);

}  // namespace urnic::control
