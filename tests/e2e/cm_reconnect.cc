// A program that connects by rdma_cm again and again, one connection after the
// other. Each has its own id, domain, completion queue, queue pair and memory.
// The program reports how long that took, and what was not freed.
//
//   urnic run .. -- cm_reconnect server ADDRESS PORT
//   urnic run .. -- cm_reconnect client ADDRESS PORT COUNT
//
// On each connection the client sends a message and the server answers. The
// COUNT connections that are measured follow some seconds of warm-up, after
// which the process has allocated all that it keeps (connections stay in
// TIMEWAIT for half a second). Both sides end with a line of JSON:
//   connections, seconds
//   connect_us     rdma_connect() to ESTABLISHED (client)
//   fds, rss_kb    before and after
//   heap           the same of the bytes in use by malloc and its mappings
//   warm_up        connections that were not measured

#include <dirent.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/cm_program.h"

namespace cm_program {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWarmUp = std::chrono::seconds(4);
// On a busy machine the memory of a process grows up to connection 1400.
constexpr int kWarmUpMin = 1500;
constexpr int kTimeoutMs = 2000;
constexpr uint32_t kBytes = 64;
constexpr uint8_t kRetries = 7;

// The first byte of a message to the server.
enum Phase : uint8_t { kWarming = 1, kFirst, kMeasured, kLast };

double Microseconds(Clock::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

// --- Resources of the process ------------------------------------------------

struct Holdings {
  int fds = 0;
  long rss_kb = 0;
  size_t heap = 0;
};

Holdings Count() {
  Holdings now;
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) Die("/proc/self/fd");
  while (readdir(directory) != nullptr) ++now.fds;
  closedir(directory);
  now.fds -= 3;  // ".", "..", and the descriptor of the directory
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> now.rss_kb;
  }
  const struct mallinfo2 heap = mallinfo2();
  now.heap = heap.uordblks + heap.hblkhd;
  return now;
}

class Report {
 public:
  // `expected`: how often Connected() will be called.
  void Begin(uint64_t expected) {
    // Allocate and touch the memory now, so that it does not count as growth.
    connect_us_.resize(expected);
    connect_us_.clear();
    before_ = Count();
    begin_ = Clock::now();
  }
  void Connected(Clock::duration took) {
    connect_us_.push_back(Microseconds(took));
  }
  void Print(uint64_t connections, uint64_t warm_up) {
    const double seconds = Microseconds(Clock::now() - begin_) / 1e6;
    const Holdings after = Count();
    std::printf("{\"connections\": %llu, \"warm_up\": %llu, \"seconds\": %.3f",
                static_cast<unsigned long long>(connections),
                static_cast<unsigned long long>(warm_up), seconds);
    if (!connect_us_.empty()) {
      std::sort(connect_us_.begin(), connect_us_.end());
      const auto at = [&](size_t percent) {
        return connect_us_[(connect_us_.size() - 1) * percent / 100];
      };
      std::printf(
          ", \"connect_us\": {\"min\": %.1f, \"median\": %.1f, "
          "\"p99\": %.1f, \"max\": %.1f}",
          at(0), at(50), at(99), at(100));
    }
    std::printf(
        ", \"fds\": [%d, %d], \"rss_kb\": [%ld, %ld], \"heap\": [%zu, %zu]}\n",
        before_.fds, after.fds, before_.rss_kb, after.rss_kb, before_.heap,
        after.heap);
  }

 private:
  Holdings before_;
  Clock::time_point begin_;
  std::vector<double> connect_us_;
};

// --- One connection ---------------------------------------------------------

rdma_cm_event* Await(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  rdma_cm_event* event = nullptr;
  do {
    if (event != nullptr) rdma_ack_cm_event(event);
    event = NextEvent(channel);
    // These events belong to earlier connections.
  } while (event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT);
  if (event->event != wanted) {
    errno = event->status < 0 ? -event->status : 0;
    Die(std::string("got ") + rdma_event_str(event->event) + " instead of " +
        rdma_event_str(wanted));
  }
  return event;
}

void Pass(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  rdma_ack_cm_event(Await(channel, wanted));
}

// The objects of one connection.
class Connection {
 public:
  explicit Connection(rdma_cm_id* id) : id_(id) {
    pd_ = ibv_alloc_pd(id->verbs);
    cq_ = ibv_create_cq(id->verbs, 4, nullptr, nullptr, 0);
    if (pd_ == nullptr || cq_ == nullptr) Die("domain or completion queue");
    mr_ = ibv_reg_mr(pd_, buffer_, sizeof(buffer_), IBV_ACCESS_LOCAL_WRITE);
    if (mr_ == nullptr) Die("ibv_reg_mr");
    MakeQueuePair(id, pd_, cq_, 1);
    ibv_sge sge = Sge(kBytes);
    ibv_recv_wr wr = {};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    errno = ibv_post_recv(id->qp, &wr, &bad);
    if (errno != 0) Die("ibv_post_recv");
  }
  ~Connection() {
    rdma_destroy_qp(id_);
    if (ibv_dereg_mr(mr_) != 0 || ibv_destroy_cq(cq_) != 0 ||
        ibv_dealloc_pd(pd_) != 0 || rdma_destroy_id(id_) != 0) {
      Die("destruction");
    }
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  rdma_cm_id* id() const { return id_; }

  void Send(uint8_t value) {
    buffer_[0] = value;
    ibv_sge sge = Sge(0);
    ibv_send_wr wr = {};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    errno = ibv_post_send(id_->qp, &wr, &bad);
    if (errno != 0) Die("ibv_post_send");
  }
  // Waits for `count` completions: of the send and the receive, or of one.
  void Complete(int count) {
    ibv_wc wc;
    while (count > 0) {
      const int found = ibv_poll_cq(cq_, 1, &wc);
      errno = 0;
      if (found < 0 || (found == 1 && wc.status != IBV_WC_SUCCESS)) {
        Die(std::string("completion: ") + ibv_wc_status_str(wc.status));
      }
      count -= found;
    }
  }
  uint8_t received() const { return buffer_[kBytes]; }

 private:
  ibv_sge Sge(uint32_t offset) {
    return {reinterpret_cast<uint64_t>(buffer_ + offset), kBytes, mr_->lkey};
  }

  rdma_cm_id* id_;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  uint8_t buffer_[2 * kBytes] = {};
};

// --- The two sides ----------------------------------------------------------

// Serves one connection and returns the first byte of its client's message.
uint8_t ServeOne(rdma_event_channel* channel) {
  rdma_cm_event* const event = Await(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  Connection connection(event->id);
  rdma_ack_cm_event(event);
  rdma_conn_param parameters = Parameters(kRetries);
  if (rdma_accept(connection.id(), &parameters) != 0) Die("rdma_accept");
  Pass(channel, RDMA_CM_EVENT_ESTABLISHED);
  connection.Complete(1);
  const uint8_t said = connection.received();
  connection.Send(said);
  connection.Complete(1);
  Pass(channel, RDMA_CM_EVENT_DISCONNECTED);
  if (rdma_disconnect(connection.id()) != 0) Die("rdma_disconnect");
  return said;
}

void Serve(const addrinfo* address) {
  rdma_event_channel* const channel = NewChannel();
  rdma_cm_id* const listener = NewId(channel);
  if (rdma_bind_addr(listener, address->ai_addr) != 0 ||
      rdma_listen(listener, 0) != 0) {
    Die("bind or listen");
  }
  std::printf("listening\n");
  std::fflush(stdout);
  Report report;
  uint64_t served = 0;
  uint64_t warm_up = 0;
  for (uint8_t said = kWarming; said != kLast; ++served) {
    said = ServeOne(channel);
    if (said != kFirst) continue;
    report.Begin(0);
    warm_up = served + 1;
  }
  report.Print(served - warm_up, warm_up);
}

void ConnectOne(rdma_event_channel* channel, const addrinfo* address,
                Phase phase, Report& report) {
  rdma_cm_id* const id = NewId(channel);
  if (rdma_resolve_addr(id, nullptr, address->ai_addr, kTimeoutMs) != 0) {
    Die("rdma_resolve_addr");
  }
  Pass(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  if (rdma_resolve_route(id, kTimeoutMs) != 0) Die("rdma_resolve_route");
  Pass(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  Connection connection(id);
  rdma_conn_param parameters = Parameters(kRetries);
  const Clock::time_point start = Clock::now();
  if (rdma_connect(id, &parameters) != 0) Die("rdma_connect");
  Pass(channel, RDMA_CM_EVENT_ESTABLISHED);
  if (phase >= kMeasured) report.Connected(Clock::now() - start);
  connection.Send(phase);
  connection.Complete(2);
  errno = 0;
  if (connection.received() != phase) Die("the answer is wrong");
  if (rdma_disconnect(id) != 0) Die("rdma_disconnect");
  Pass(channel, RDMA_CM_EVENT_DISCONNECTED);
}

void Connect(const addrinfo* address, uint64_t count) {
  rdma_event_channel* const channel = NewChannel();
  Report report;
  const Clock::time_point warm = Clock::now() + kWarmUp;
  uint64_t warm_up = 0;
  for (; warm_up < kWarmUpMin || Clock::now() < warm; ++warm_up) {
    ConnectOne(channel, address, kWarming, report);
  }
  ConnectOne(channel, address, kFirst, report);
  report.Begin(count);
  for (uint64_t i = 1; i <= count; ++i) {
    ConnectOne(channel, address, i < count ? kMeasured : kLast, report);
  }
  report.Print(count, warm_up + 1);
  rdma_destroy_event_channel(channel);
}

}  // namespace
}  // namespace cm_program

int main(int argc, char** argv) {
  const std::string side = argc > 1 ? argv[1] : "";
  if ((side == "server" && argc == 4) || (side == "client" && argc == 5)) {
    addrinfo* const address = cm_program::Resolve(argv[2], argv[3]);
    if (side == "server") {
      cm_program::Serve(address);
    } else {
      cm_program::Connect(address, std::strtoull(argv[4], nullptr, 10));
    }
    freeaddrinfo(address);
    return 0;
  }
  std::fprintf(stderr,
               "usage: cm_reconnect server ADDRESS PORT\n"
               "       cm_reconnect client ADDRESS PORT COUNT\n");
  return 2;
}
