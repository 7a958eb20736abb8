// A librdmacm program that outlives its peers, or ends in the middle of a
// connection. The end-to-end tests kill one side and check what is left of the
// connection on the other.
//
//   urnic run .. -- cm_survivor server ADDRESS PORT
//   urnic run .. -- cm_survivor client ADDRESS PORT
//   urnic run .. -- cm_survivor one-client ADDRESS PORT HOW
//
// The server accepts all connections; the client has one, and makes another
// when it is lost. Both send writes of length 0 on each connection, destroy it
// when these fail because the peer is gone, and print "up" and "down WHY". The
// server also prints "request" for each connection. Both run until SIGTERM. The
// third kind makes one connection. HOW: leave its answer unread (ask), keep it
// established (stay), the same without writes (quiet), or call exit() without
// disconnecting (exit).

#include <poll.h>
#include <rdma/rdma_cma.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <string>

#include "tests/e2e/cm_program.h"

namespace cm_program {
namespace {

constexpr int kTickMs = 50;
constexpr int kPatienceMs = 2000;
// 2^14 * 4.096 us = 67 ms, so that the end of a peer is noticed within a
// second.
constexpr uint8_t kAckTimeout = 14;
constexpr uint8_t kRetries = 3;
constexpr int kBacklog = 16;
constexpr uint32_t kRequests = 2;

volatile sig_atomic_t g_stop = 0;

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void MakeQp(rdma_cm_id* id) {
  ibv_cq* cq = ibv_create_cq(id->verbs, 4, nullptr, nullptr, 0);
  if (cq == nullptr) Die("ibv_create_cq");
  MakeQueuePair(id, nullptr, cq, kRequests);
}

// One connection, with its queue pair and completion queue.
struct Connection {
  rdma_cm_id* id = nullptr;
  bool up = false;
  bool writing = false;

  // Posts a write of length 0 once the last one has completed. False: that one
  // has failed.
  bool Beat() {
    ibv_wc wc;
    const int done = ibv_poll_cq(id->qp->send_cq, 1, &wc);
    if (done < 0 || (done == 1 && wc.status != IBV_WC_SUCCESS)) return false;
    if (done == 1) writing = false;
    if (writing) return true;
    ibv_send_wr wr = {};
    wr.opcode = IBV_WR_RDMA_WRITE;
    ibv_send_wr* bad = nullptr;
    writing = ibv_post_send(id->qp, &wr, &bad) == 0;
    return writing;
  }
};

// All connections of a program, on one channel.
class Peer {
 public:
  Peer() : channel_(NewChannel()) {}
  ~Peer() {
    while (!connections_.empty()) End(connections_.front(), nullptr);
    for (rdma_cm_id* id : {listener_, own_}) {
      if (id != nullptr) rdma_destroy_id(id);
    }
    rdma_destroy_event_channel(channel_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void Listen(sockaddr* address) {
    listener_ = NewId(channel_);
    if (rdma_bind_addr(listener_, address) != 0 ||
        rdma_listen(listener_, kBacklog) != 0) {
      Die("rdma_listen");
    }
    Say("listening");
  }

  // Begins to connect; OnEvent() does the rest.
  void Call(sockaddr* address) {
    own_ = NewId(channel_);
    uint8_t timeout = kAckTimeout;
    if (rdma_set_option(own_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
                        &timeout, sizeof(timeout)) != 0) {
      Die("rdma_set_option");
    }
    if (rdma_resolve_addr(own_, nullptr, address, kPatienceMs) != 0) {
      Die("rdma_resolve_addr");
    }
  }
  bool calling() const { return own_ != nullptr; }
  bool connected() const { return !connections_.empty(); }
  bool up() const { return connected() && connections_.front().up; }

  // Handles the events and writes of one tick. With `deaf`, events after the
  // request has been sent stay unread. With `quiet`, nothing is written.
  void Tick(bool deaf = false, bool quiet = false) {
    pollfd readable = {channel_->fd, POLLIN, 0};
    if (deaf && asked_) {
      poll(nullptr, 0, kTickMs);
    } else if (poll(&readable, 1, kTickMs) == 1) {
      OnEvent(NextEvent(channel_));
    }
    for (auto it = connections_.begin(); it != connections_.end();) {
      Connection& connection = *it++;
      if (connection.up && !quiet && !connection.Beat()) {
        End(connection, "silent");
      }
    }
  }

 private:
  void OnEvent(rdma_cm_event* event) {
    rdma_cm_id* const id = event->id;
    const rdma_cm_event_type type = event->event;
    rdma_ack_cm_event(event);
    rdma_conn_param param = Parameters(kRetries);
    switch (type) {
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        Say("request");
        connections_.push_back({.id = id});
        id->context = &connections_.back();
        MakeQp(id);
        if (rdma_accept(id, &param) != 0) End(connections_.back(), "refused");
        return;
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(id, kPatienceMs) != 0) Die("rdma_resolve_route");
        return;
      case RDMA_CM_EVENT_ROUTE_RESOLVED:
        connections_.push_back({.id = id});
        id->context = &connections_.back();
        MakeQp(id);
        own_ = nullptr;
        if (rdma_connect(id, &param) != 0) {
          End(connections_.back(), "refused");
          return;
        }
        asked_ = true;
        Say("asked");
        return;
      case RDMA_CM_EVENT_ESTABLISHED:
        static_cast<Connection*>(id->context)->up = true;
        Say("up");
        return;
      default:
        break;
    }
    if (id->context != nullptr) {
      End(*static_cast<Connection*>(id->context), rdma_event_str(type));
    } else if (id == own_) {
      own_ = nullptr;
      rdma_destroy_id(id);
      Say(std::string("down ") + rdma_event_str(type));
    }
  }

  void End(Connection& connection, const char* why) {
    rdma_cm_id* const id = connection.id;
    ibv_cq* const cq = id->qp->send_cq;
    rdma_disconnect(id);
    rdma_destroy_qp(id);
    ibv_destroy_cq(cq);
    rdma_destroy_id(id);
    connections_.remove_if([&](const Connection& c) { return c.id == id; });
    if (why != nullptr) Say(std::string("down ") + why);
  }

  rdma_event_channel* channel_;
  rdma_cm_id* listener_ = nullptr;
  rdma_cm_id* own_ = nullptr;  // until there is a route
  bool asked_ = false;
  std::list<Connection> connections_;
};

void Serve(sockaddr* address) {
  Peer peer;
  peer.Listen(address);
  while (g_stop == 0) peer.Tick();
}

void Ask(sockaddr* address) {
  Peer peer;
  while (g_stop == 0) {
    if (!peer.calling() && !peer.connected()) {
      poll(nullptr, 0, kTickMs);
      peer.Call(address);
    }
    peer.Tick();
  }
}

void AskOnce(sockaddr* address, const std::string& how) {
  // Not destroyed, because exit() is called below.
  auto* const peer = new Peer;
  peer->Call(address);
  while (g_stop == 0) {
    peer->Tick(how == "ask", how == "quiet");
    if (how == "exit" && peer->up()) std::exit(0);
  }
}

int Run(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  const bool known = argc == 4 ? role == "server" || role == "client"
                               : argc == 5 && role == "one-client";
  if (!known) {
    std::fprintf(stderr,
                 "usage: cm_survivor server|client ADDRESS PORT\n"
                 "       cm_survivor one-client ADDRESS PORT "
                 "ask|stay|quiet|exit\n");
    return 2;
  }
  addrinfo* const address = Resolve(argv[2], argv[3]);
  if (role == "server") {
    Serve(address->ai_addr);
  } else if (role == "client") {
    Ask(address->ai_addr);
  } else {
    AskOnce(address->ai_addr, argv[4]);
  }
  freeaddrinfo(address);
  return 0;
}

}  // namespace
}  // namespace cm_program

int main(int argc, char** argv) {
  struct sigaction stop = {};
  stop.sa_handler = [](int) { cm_program::g_stop = 1; };
  sigaction(SIGTERM, &stop, nullptr);
  return cm_program::Run(argc, argv);
}
