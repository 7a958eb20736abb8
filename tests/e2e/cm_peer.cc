// A program of librdmacm that outlives its peers, or ends in the middle of
// things: the end-to-end tests kill one side and watch what is left of it at
// the other.
//
//   urnic run .. -- cm_peer server ADDRESS PORT
//   urnic run .. -- cm_peer client ADDRESS PORT
//   urnic run .. -- cm_peer one-client ADDRESS PORT ask|stay|exit
//
// The server takes all connections; the client has one, and makes another when
// it is lost. Both write into the void on each of them, which is how one
// notices that a peer is gone, and let go of it then. They print "up" and
// "down WHY", and live until SIGTERM; the server prints "request" for each,
// too. The third kind makes one connection and stops: with the answer unread,
// established, or by exit() without a word.

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <string>

namespace {

constexpr int kTickMs = 50;
constexpr int kPatienceMs = 2000;
// 2^14 * 4.096 us = 67 ms, so that the end of a peer is noticed in a second.
constexpr uint8_t kAckTimeout = 14;
constexpr uint8_t kRetries = 3;
constexpr int kBacklog = 16;

volatile sig_atomic_t g_stop = 0;

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void MakeQp(rdma_cm_id* id) {
  ibv_cq* cq = ibv_create_cq(id->verbs, 4, nullptr, nullptr, 0);
  if (cq == nullptr) Die("ibv_create_cq");
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq;
  init.cap = {.max_send_wr = 2,
              .max_recv_wr = 2,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  if (rdma_create_qp(id, nullptr, &init) != 0) Die("rdma_create_qp");
}

rdma_conn_param Parameters() {
  rdma_conn_param param = {};
  param.retry_count = kRetries;
  param.rnr_retry_count = 7;
  return param;
}

// One connection, with its queue pair and completion queue.
struct Connection {
  rdma_cm_id* id = nullptr;
  bool up = false;
  bool writing = false;

  // A write of nothing, once more when the last one has arrived. False: it has
  // not.
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
  Peer() : channel_(rdma_create_event_channel()) {
    if (channel_ == nullptr) Die("rdma_create_event_channel");
  }
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
    if (rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) != 0 ||
        rdma_bind_addr(listener_, address) != 0 ||
        rdma_listen(listener_, kBacklog) != 0) {
      Die("rdma_listen");
    }
    Say("listening");
  }

  // Begins; the events do the rest.
  void Call(sockaddr* address) {
    if (rdma_create_id(channel_, &own_, nullptr, RDMA_PS_TCP) != 0) {
      Die("rdma_create_id");
    }
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

  // Events and writes of one tick. With `deaf` what follows the request is
  // left alone.
  void Tick(bool deaf = false) {
    pollfd readable = {channel_->fd, POLLIN, 0};
    if (deaf && asked_) {
      poll(nullptr, 0, kTickMs);
    } else if (poll(&readable, 1, kTickMs) == 1) {
      rdma_cm_event* event = nullptr;
      if (rdma_get_cm_event(channel_, &event) != 0) Die("rdma_get_cm_event");
      OnEvent(event);
    }
    for (auto it = connections_.begin(); it != connections_.end();) {
      Connection& connection = *it++;
      if (connection.up && !connection.Beat()) End(connection, "silent");
    }
  }

 private:
  void OnEvent(rdma_cm_event* event) {
    rdma_cm_id* const id = event->id;
    const rdma_cm_event_type type = event->event;
    rdma_ack_cm_event(event);
    rdma_conn_param param = Parameters();
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
        asked_ = true;
        if (rdma_connect(id, &param) != 0) End(connections_.back(), "refused");
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
  // Not destroyed: exit() comes in the middle.
  auto* const peer = new Peer;
  peer->Call(address);
  while (g_stop == 0) {
    peer->Tick(how == "ask");
    if (how == "exit" && peer->up()) std::exit(0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  struct sigaction stop = {};
  stop.sa_handler = [](int) { g_stop = 1; };
  sigaction(SIGTERM, &stop, nullptr);
  const std::string role = argc > 3 ? argv[1] : "";
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  if (argc > 3) {
    address.sin_port = htons(static_cast<uint16_t>(std::atoi(argv[3])));
    if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) Die(argv[2]);
  }
  auto* const there = reinterpret_cast<sockaddr*>(&address);
  if (argc == 4 && role == "server") {
    Serve(there);
  } else if (argc == 4 && role == "client") {
    Ask(there);
  } else if (argc == 5 && role == "one-client") {
    AskOnce(there, argv[4]);
  } else {
    std::fprintf(stderr,
                 "usage: cm_peer server|client ADDRESS PORT\n"
                 "       cm_peer one-client ADDRESS PORT ask|stay|exit\n");
    return 2;
  }
  return 0;
}
