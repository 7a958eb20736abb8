#pragma once

// Shared by the librdmacm programs of the end-to-end tests. No function here
// returns an error: the program ends with a message instead.

#include <infiniband/verbs.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace cm_program {

// Ends the program with a message that includes `errno`.
[[noreturn]] inline void Die(const std::string& what) {
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name,
               what.c_str(), std::strerror(errno));
  std::exit(1);
}

// A numeric address of either family. The caller calls freeaddrinfo().
inline addrinfo* Resolve(const char* address, const char* port) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address, port, &hints, &found);
  if (error == 0) return found;
  std::fprintf(stderr, "%s: %s port %s: %s\n", program_invocation_short_name,
               address, port, gai_strerror(error));
  std::exit(1);
}

inline rdma_event_channel* NewChannel() {
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) Die("rdma_create_event_channel");
  return channel;
}

inline rdma_cm_id* NewId(rdma_event_channel* channel) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) {
    Die("rdma_create_id");
  }
  return id;
}

// Waits for the next event. The caller calls rdma_ack_cm_event().
inline rdma_cm_event* NextEvent(rdma_event_channel* channel) {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0) Die("rdma_get_cm_event");
  return event;
}

// Gives the id an RC queue pair for `requests` in each direction, all of which
// complete in `cq`. `pd` null: librdmacm's default.
inline void MakeQueuePair(rdma_cm_id* id, ibv_pd* pd, ibv_cq* cq,
                          uint32_t requests) {
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq;
  init.cap = {.max_send_wr = requests,
              .max_recv_wr = requests,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  if (rdma_create_qp(id, pd, &init) != 0) Die("rdma_create_qp");
}

inline rdma_conn_param Parameters(uint8_t retries) {
  rdma_conn_param parameters = {};
  parameters.responder_resources = parameters.initiator_depth = 1;
  parameters.retry_count = retries;
  parameters.rnr_retry_count = 7;
  return parameters;
}

}  // namespace cm_program
