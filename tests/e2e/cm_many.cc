// Two programs that hold many connections by rdma_cm at the same time, each
// with its own completion queue and queue pair: how fast they are set up, how
// much memory they need, and what they cost while nothing happens.
//
//   urnic run .. -- cm_many server ADDRESS PORT COUNT IDLE_SECONDS
//   urnic run .. -- cm_many client ADDRESS PORT COUNT IDLE_SECONDS
//
// The server listens on kListeners ports from PORT on, since a client has fewer
// ephemeral ports than 65536. The client keeps kAtATime connections under way
// until all are established. A second later, when the last acknowledgements
// have been sent, both sides do nothing for IDLE_SECONDS. Then the client sends
// a message on every connection at once, and closes all. Both sides end with a
// line of JSON:
//   connections
//   setup_seconds  the first rdma_create_id() or request to the last
//                  ESTABLISHED: with the creation of the queues
//   rss_kb         before, established, idle, used, closed
//   idle           seconds, cpu_ms, and how often a thread has slept (wake_ups)
//   faults         page faults of the whole program so far
//   used_seconds   a message on each: the first post to the last completion
//                  (client; at the server it begins with its wait for them)
//   close_seconds  disconnect and destroy

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/cm_program.h"

namespace cm_program {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kListeners = 4;
// librdmacm and the kernel give a process 65536 ids; listeners need some.
constexpr uint32_t kMaxCount = 65536 - kListeners;
constexpr uint32_t kAtATime = 256;
constexpr uint32_t kRequests = 16;  // in each queue
constexpr int kTimeoutMs = 10000;
constexpr uint8_t kRetries = 7;
// Before the idle time, and at the client after it: the server's ends first, so
// the messages are not a part of it.
constexpr double kPause = 1;

void Sleep(double seconds) { usleep(static_cast<useconds_t>(seconds * 1e6)); }

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

long RssKb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long kb = 0;
    if (word == "VmRSS:" && status >> kb) return kb;
  }
  return 0;
}

class Report {
 public:
  void NoteMemory() { rss_kb_.push_back(RssKb()); }
  void BeginSetup() { setup_begin_ = Clock::now(); }
  void EndSetup() { setup_seconds_ = Since(setup_begin_); }
  void Idle(double seconds) {
    Sleep(kPause);
    rusage before;
    rusage after;
    getrusage(RUSAGE_SELF, &before);
    const Clock::time_point start = Clock::now();
    Sleep(seconds);
    idle_seconds_ = Since(start);
    getrusage(RUSAGE_SELF, &after);
    cpu_ms_ = CpuMs(after) - CpuMs(before);
    wake_ups_ = after.ru_nvcsw - before.ru_nvcsw;
  }
  void Print(size_t connections, double used_seconds, double close_seconds) {
    rusage all;
    getrusage(RUSAGE_SELF, &all);
    std::printf("{\"connections\": %zu, \"setup_seconds\": %.4f, \"rss_kb\": [",
                connections, setup_seconds_);
    for (size_t i = 0; i < rss_kb_.size(); ++i) {
      std::printf("%s%ld", i == 0 ? "" : ", ", rss_kb_[i]);
    }
    std::printf(
        "], \"idle\": {\"seconds\": %.3f, \"cpu_ms\": %.3f, \"wake_ups\": %ld},"
        " \"faults\": %ld, \"used_seconds\": %.4f, \"close_seconds\": "
        "%.4f}\n",
        idle_seconds_, cpu_ms_, wake_ups_, all.ru_minflt, used_seconds,
        close_seconds);
  }

 private:
  static double CpuMs(const rusage& usage) {
    const auto ms = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) * 1e3 +
             static_cast<double>(t.tv_usec) / 1e3;
    };
    return ms(usage.ru_utime) + ms(usage.ru_stime);
  }

  Clock::time_point setup_begin_;
  double setup_seconds_ = 0;
  std::vector<long> rss_kb_;
  double idle_seconds_ = 0;
  double cpu_ms_ = 0;
  long wake_ups_ = 0;
};

// All connections of one side, by the client's number.
class Connections {
 public:
  explicit Connections(uint32_t count) : all_(count), bytes_(count) {}

  uint32_t count() const { return static_cast<uint32_t>(all_.size()); }

  // Gives the id its queues, and a receive.
  void Add(uint32_t number, rdma_cm_id* id) {
    if (number >= all_.size() || all_[number].id != nullptr) {
      Die("connection " + std::to_string(number));
    }
    if (mr_ == nullptr) {
      pd_ = ibv_alloc_pd(id->verbs);
      if (pd_ == nullptr) Die("ibv_alloc_pd");
      mr_ = ibv_reg_mr(pd_, bytes_.data(), bytes_.size() * sizeof(uint64_t),
                       IBV_ACCESS_LOCAL_WRITE);
      if (mr_ == nullptr) Die("ibv_reg_mr");
    }
    all_[number].id = id;
    ibv_cq*& cq = all_[number].cq;
    cq = ibv_create_cq(id->verbs, 2 * kRequests, nullptr, nullptr, 0);
    if (cq == nullptr) Die("ibv_create_cq");
    MakeQueuePair(id, pd_, cq, kRequests);
    ibv_sge sge = Sge(number);
    ibv_recv_wr wr = {};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    errno = ibv_post_recv(id->qp, &wr, &bad);
    if (errno != 0) Die("ibv_post_recv");
  }

  void Send(uint32_t number) {
    bytes_[number] = Message(number);
    ibv_sge sge = Sge(number);
    ibv_send_wr wr = {};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    errno = ibv_post_send(all_[number].id->qp, &wr, &bad);
    if (errno != 0) Die("ibv_post_send");
  }
  // Waits for one completion.
  void Complete(uint32_t number) {
    ibv_wc wc = {};
    int found = 0;
    while ((found = ibv_poll_cq(all_[number].cq, 1, &wc)) == 0) {
    }
    errno = 0;
    if (found < 0 || wc.status != IBV_WC_SUCCESS) {
      Die(std::string("completion: ") + ibv_wc_status_str(wc.status));
    }
  }
  bool Received(uint32_t number) const {
    return bytes_[number] == Message(number);
  }

  void Disconnect(uint32_t number) {
    if (rdma_disconnect(all_[number].id) != 0) Die("rdma_disconnect");
  }
  void DestroyAll() {
    for (const One& one : all_) {
      rdma_destroy_qp(one.id);
      if (ibv_destroy_cq(one.cq) != 0 || rdma_destroy_id(one.id) != 0) {
        Die("destruction");
      }
    }
    if (ibv_dereg_mr(mr_) != 0 || ibv_dealloc_pd(pd_) != 0) Die("destruction");
  }

 private:
  struct One {
    rdma_cm_id* id = nullptr;
    ibv_cq* cq = nullptr;
  };

  static uint64_t Message(uint32_t number) {
    return 0x9e3779b97f4a7c15 * (number + 1);
  }
  ibv_sge Sge(uint32_t number) {
    return {reinterpret_cast<uint64_t>(&bytes_[number]), sizeof(uint64_t),
            mr_->lkey};
  }

  std::vector<One> all_;
  std::vector<uint64_t> bytes_;  // a message for each
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

[[noreturn]] void DieOf(const rdma_cm_event& event) {
  errno = event.status < 0 ? -event.status : 0;
  Die(std::string("got ") + rdma_event_str(event.event));
}

// Waits until `count` connections have ended.
void AwaitEnds(rdma_event_channel* channel, uint32_t count) {
  while (count > 0) {
    rdma_cm_event* const event = NextEvent(channel);
    if (event->event == RDMA_CM_EVENT_DISCONNECTED) {
      --count;
    } else if (event->event != RDMA_CM_EVENT_TIMEWAIT_EXIT) {  // RoCE has it
      DieOf(*event);
    }
    rdma_ack_cm_event(event);
  }
}

// --- The server --------------------------------------------------------------

void Accept(const rdma_cm_event& event, Connections& connections) {
  uint32_t number = 0;
  if (event.param.conn.private_data_len < sizeof(number)) Die("private data");
  std::memcpy(&number, event.param.conn.private_data, sizeof(number));
  connections.Add(number, event.id);
  rdma_conn_param parameters = Parameters(kRetries);
  if (rdma_accept(event.id, &parameters) != 0) Die("rdma_accept");
}

void AcceptAll(rdma_event_channel* channel, Connections& connections,
               Report& report) {
  uint32_t requests = 0;
  for (uint32_t established = 0; established < connections.count();) {
    rdma_cm_event* const event = NextEvent(channel);
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      if (requests++ == 0) report.BeginSetup();
      Accept(*event, connections);
    } else if (event->event == RDMA_CM_EVENT_ESTABLISHED) {
      ++established;
    } else {
      DieOf(*event);
    }
    rdma_ack_cm_event(event);
  }
}

void Serve(addrinfo* address, uint32_t count, double idle) {
  rdma_event_channel* const channel = NewChannel();
  auto& place = *reinterpret_cast<sockaddr_in*>(address->ai_addr);
  rdma_cm_id* listeners[kListeners];
  for (rdma_cm_id*& listener : listeners) {
    listener = NewId(channel);
    if (rdma_bind_addr(listener, address->ai_addr) != 0 ||
        rdma_listen(listener, 0) != 0) {
      Die("bind or listen");
    }
    place.sin_port = htons(static_cast<uint16_t>(ntohs(place.sin_port) + 1));
  }
  std::printf("listening\n");
  std::fflush(stdout);
  Connections connections(count);
  Report report;
  report.NoteMemory();
  AcceptAll(channel, connections, report);
  report.EndSetup();
  report.NoteMemory();
  report.Idle(idle);
  report.NoteMemory();
  const Clock::time_point used = Clock::now();
  for (uint32_t i = 0; i < count; ++i) {
    connections.Complete(i);
    errno = 0;
    if (!connections.Received(i)) Die("a wrong message");
  }
  const double used_seconds = Since(used);
  report.NoteMemory();
  const Clock::time_point close = Clock::now();
  AwaitEnds(channel, count);
  connections.DestroyAll();
  const double close_seconds = Since(close);
  report.NoteMemory();
  report.Print(count, used_seconds, close_seconds);
  // A port of shared memory takes what it still holds for the client with it.
  Sleep(2 * kPause);
  for (rdma_cm_id* const listener : listeners) rdma_destroy_id(listener);
  rdma_destroy_event_channel(channel);
}

// --- The client --------------------------------------------------------------

class Dialer {
 public:
  Dialer(rdma_event_channel* channel, addrinfo* address,
         Connections& connections)
      : channel_(channel), address_(address), connections_(connections) {}

  void ConnectAll() {
    while (begun_ < std::min(kAtATime, connections_.count())) Begin();
    while (established_ < connections_.count()) {
      rdma_cm_event* const event = NextEvent(channel_);
      OnEvent(*event);
      rdma_ack_cm_event(event);
    }
  }

 private:
  void Begin() {
    rdma_cm_id* const id = NewId(channel_);
    id->context = reinterpret_cast<void*>(uintptr_t{begun_});
    sockaddr_in place = *reinterpret_cast<sockaddr_in*>(address_->ai_addr);
    place.sin_port = htons(
        static_cast<uint16_t>(ntohs(place.sin_port) + begun_ % kListeners));
    if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&place),
                          kTimeoutMs) != 0) {
      Die("rdma_resolve_addr");
    }
    ++begun_;
  }
  void OnEvent(const rdma_cm_event& event) {
    rdma_cm_id* const id = event.id;
    auto number =
        static_cast<uint32_t>(reinterpret_cast<uintptr_t>(id->context));
    switch (event.event) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(id, kTimeoutMs) != 0) Die("rdma_resolve_route");
        return;
      case RDMA_CM_EVENT_ROUTE_RESOLVED: {
        connections_.Add(number, id);
        rdma_conn_param parameters = Parameters(kRetries);
        parameters.private_data = &number;
        parameters.private_data_len = sizeof(number);
        if (rdma_connect(id, &parameters) != 0) Die("rdma_connect");
        return;
      }
      case RDMA_CM_EVENT_ESTABLISHED:
        ++established_;
        if (begun_ < connections_.count()) Begin();
        return;
      default:
        DieOf(event);
    }
  }

  rdma_event_channel* const channel_;
  addrinfo* const address_;
  Connections& connections_;
  uint32_t begun_ = 0;
  uint32_t established_ = 0;
};

void Connect(addrinfo* address, uint32_t count, double idle) {
  rdma_event_channel* const channel = NewChannel();
  Connections connections(count);
  Report report;
  report.NoteMemory();
  report.BeginSetup();
  Dialer(channel, address, connections).ConnectAll();
  report.EndSetup();
  report.NoteMemory();
  report.Idle(idle);
  report.NoteMemory();
  Sleep(kPause);
  const Clock::time_point used = Clock::now();
  for (uint32_t i = 0; i < count; ++i) connections.Send(i);
  for (uint32_t i = 0; i < count; ++i) connections.Complete(i);
  const double used_seconds = Since(used);
  report.NoteMemory();
  const Clock::time_point close = Clock::now();
  for (uint32_t i = 0; i < count; ++i) connections.Disconnect(i);
  AwaitEnds(channel, count);
  connections.DestroyAll();
  const double close_seconds = Since(close);
  report.NoteMemory();
  report.Print(count, used_seconds, close_seconds);
  rdma_destroy_event_channel(channel);
}

}  // namespace
}  // namespace cm_program

int main(int argc, char** argv) {
  const std::string side = argc == 6 ? argv[1] : "";
  const unsigned long count =
      argc == 6 ? std::strtoul(argv[4], nullptr, 10) : 0;
  if ((side != "server" && side != "client") || count == 0 ||
      count > cm_program::kMaxCount) {
    std::fprintf(
        stderr,
        "usage: cm_many server|client ADDRESS PORT COUNT IDLE_SECONDS\n"
        "       IPv4; COUNT is at most %u\n",
        cm_program::kMaxCount);
    return 2;
  }
  addrinfo* const address = cm_program::Resolve(argv[2], argv[3]);
  const double idle = std::strtod(argv[5], nullptr);
  const auto run = side == "server" ? cm_program::Serve : cm_program::Connect;
  run(address, static_cast<uint32_t>(count), idle);
  freeaddrinfo(address);
  return 0;
}
