// Threads create, use and destroy objects of every kind on one device, while
// others move data and connect by rdma_cm. Each is correct by itself; together
// they must neither hang nor race. Runs under ThreadSanitizer.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

constexpr int kMessages = 20000;
constexpr int kPosters = 3;
constexpr int kConnections = 100;

// Under a sanitizer, a thread may wait long for its CPU. No loss is expected.
PairOptions Patient() {
  PairOptions options;
  options.timeout = 20;  // 4.3 s
  options.depth = 1024;
  return options;
}

// What all threads share.
struct Scene {
  OpenDevice device;
  ibv_pd* pd = ibv_alloc_pd(device);
  std::atomic<bool> stop = false;
  ~Scene() { EXPECT_EQ(ibv_dealloc_pd(pd), 0); }
};

// --- Data -------------------------------------------------------------------

// Several threads post to both queue pairs, several poll the completion queues.
void MoveData(Scene& scene) {
  Pair pair(scene.device, Patient());
  std::atomic<int> sent = 0;
  std::atomic<int> received = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kPosters; ++i) {
    threads.emplace_back([&, i] {
      for (int n = i; n < kMessages; n += kPosters) {
        // Never more than the queues hold.
        while (n - std::min(sent, received) >= 512) std::this_thread::yield();
        EXPECT_EQ(pair.b.PostRecv(0, {pair.b.Sge(64, 32)}), 0);
        EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 32)}), 0);
      }
    });
  }
  for (End* end : {&pair.a, &pair.b, &pair.a, &pair.b}) {
    std::atomic<int>& count = end == &pair.a ? sent : received;
    threads.emplace_back([end, &count] {
      ibv_wc wc[8];
      while (count < kMessages) {
        const int n = ibv_poll_cq(end->cq(), 8, wc);
        ASSERT_GE(n, 0);
        for (int i = 0; i < n; ++i) EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
        count += n;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(sent, kMessages);
  EXPECT_EQ(received, kMessages);
}

// --- One round of each of the others ----------------------------------------

void Regions(Scene& scene) {
  std::vector<uint8_t> memory(8192);
  for (const int more : {0, int{IBV_ACCESS_ON_DEMAND}}) {
    ibv_mr* mr = ibv_reg_mr(scene.pd, memory.data(), 4096,
                            IBV_ACCESS_LOCAL_WRITE | more);
    ASSERT_NE(mr, nullptr) << strerror(errno);
    EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                           memory.data(), memory.size(), 0),
              0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  }
}

void Domains(Scene& scene) {
  ibv_td_init_attr init = {};
  ibv_td* td = ibv_alloc_td(scene.device, &init);
  ibv_parent_domain_init_attr attr = {};
  attr.pd = scene.pd;
  attr.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(scene.device, &attr);
  ASSERT_NE(parent, nullptr);
  {
    // Without locks: only this thread uses it.
    PairOptions options = Patient();
    options.pd = parent;
    Pair pair(scene.device, options);
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)},
                              [&](ibv_send_wr& wr) {
                                wr.opcode = IBV_WR_RDMA_WRITE;
                                Target(wr, pair.b, 0);
                              }),
              0);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

// A queue pair is destroyed while it has work to do, in ERR or not.
void QueuePairs(Scene& scene) {
  PairOptions options = Patient();
  options.pd = scene.pd;
  Pair pair(scene.device, options);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 4096)}), 0);
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 4096)}), 0);
  }
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  EXPECT_EQ(ibv_query_qp(pair.a.qp(), &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(pair.a.To(IBV_QPS_ERR), 0);
  EXPECT_EQ(pair.b.To(IBV_QPS_RESET), 0);
  for (int i = 0; i < 20; ++i) pair.a.Poll();
}

void AddressHandles(Scene& scene) {
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = kGidIndexIpv4;
  ibv_query_gid(scene.device, 1, kGidIndexIpv4, &attr.grh.dgid);
  ibv_ah* handles[16];
  for (ibv_ah*& ah : handles) {
    ah = ibv_create_ah(scene.pd, &attr);
    ASSERT_NE(ah, nullptr) << strerror(errno);
  }
  for (ibv_ah* ah : handles) EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

void Windows(Scene& scene) {
  Pair pair(scene.device, Patient());
  ibv_mr* mr = ibv_reg_mr(pair.b.pd(), pair.b.memory(), 4096,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* mw = ibv_alloc_mw(pair.b.pd(), IBV_MW_TYPE_1);
  ibv_mw_bind bind = {};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {mr, pair.b.address(), 64, IBV_ACCESS_REMOTE_WRITE};
  EXPECT_EQ(ibv_bind_mw(pair.b.qp(), mw, &bind), 0);
  EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 64)},
                            [&](ibv_send_wr& wr) {
                              wr.opcode = IBV_WR_RDMA_WRITE;
                              wr.wr.rdma.remote_addr = pair.b.address();
                              wr.wr.rdma.rkey = mw->rkey;
                            }),
            0);
  EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

void SharedQueues(Scene& scene) {
  ibv_srq_init_attr init = {};
  init.attr = {.max_wr = 64, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = ibv_create_srq(scene.pd, &init);
  ASSERT_NE(srq, nullptr);
  ibv_recv_wr wr = {};
  for (int i = 0; i < 64; ++i) {
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  }
  ibv_srq_attr attr = {.max_wr = 128, .max_sge = 1, .srq_limit = 32};
  EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(ibv_query_srq(srq, &attr), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

// A queue with its channel: events are requested, read and acknowledged.
void Events(Scene& scene) {
  ibv_comp_channel* channel = ibv_create_comp_channel(scene.device);
  ASSERT_NE(channel, nullptr);
  PairOptions options = Patient();
  options.channel = channel;
  options.pd = scene.pd;
  {
    Pair pair(scene.device, options);
    EXPECT_EQ(ibv_req_notify_cq(pair.b.cq(), 0), 0);
    EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 8)}), 0);
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    EXPECT_EQ(ibv_resize_cq(pair.b.cq(), 4096), 0);
    EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

void Queries(Scene& scene) {
  ibv_device_attr device;
  EXPECT_EQ(ibv_query_device(scene.device, &device), 0);
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_port(scene.device, 1, &port), 0);
  ibv_context* again = ibv_open_device(scene.device.get()->device);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ibv_close_device(again), 0);
}

// --- Connections ------------------------------------------------------------

rdma_cm_event_type Next(rdma_event_channel* channel, rdma_cm_id** id) {
  rdma_cm_event* event = nullptr;
  for (;;) {
    EXPECT_EQ(rdma_get_cm_event(channel, &event), 0);
    const rdma_cm_event_type type = event->event;
    if (id != nullptr) *id = event->id;
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    if (type != RDMA_CM_EVENT_TIMEWAIT_EXIT) return type;
  }
}

void MakeQp(rdma_cm_id* id) {
  ibv_qp_init_attr init = {};
  init.cap.max_send_wr = init.cap.max_recv_wr = 4;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.qp_type = IBV_QPT_RC;
  EXPECT_EQ(rdma_create_qp(id, nullptr, &init), 0) << strerror(errno);
}

sockaddr_in Here(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, "10.9.0.1", &address.sin_addr);
  return address;
}

constexpr uint16_t kPort = 7471;

void Serve(rdma_event_channel* channel, int connections) {
  for (int i = 0; i < connections; ++i) {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(Next(channel, &id), RDMA_CM_EVENT_CONNECT_REQUEST);
    MakeQp(id);
    rdma_conn_param param = {};
    EXPECT_EQ(rdma_accept(id, &param), 0);
    ASSERT_EQ(Next(channel, nullptr), RDMA_CM_EVENT_ESTABLISHED);
    ASSERT_EQ(Next(channel, nullptr), RDMA_CM_EVENT_DISCONNECTED);
    rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
}

void ConnectOnce(rdma_event_channel* channel) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in address = Here(kPort);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr,
                              reinterpret_cast<sockaddr*>(&address), 10000),
            0);
  ASSERT_EQ(Next(channel, nullptr), RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id, 10000), 0);
  ASSERT_EQ(Next(channel, nullptr), RDMA_CM_EVENT_ROUTE_RESOLVED);
  MakeQp(id);
  rdma_conn_param param = {};
  param.retry_count = 7;
  ASSERT_EQ(rdma_connect(id, &param), 0);
  ASSERT_EQ(Next(channel, nullptr), RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(rdma_disconnect(id), 0);
  ASSERT_EQ(Next(channel, nullptr), RDMA_CM_EVENT_DISCONNECTED);
  rdma_destroy_qp(id);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

void Connect() {
  rdma_event_channel* server = rdma_create_event_channel();
  rdma_event_channel* client = rdma_create_event_channel();
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_id(server, &listener, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in address = Here(kPort);
  ASSERT_EQ(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)), 0);
  ASSERT_EQ(rdma_listen(listener, 0), 0);
  std::thread thread([&] { Serve(server, kConnections); });
  for (int i = 0; i < kConnections; ++i) ConnectOnce(client);
  thread.join();
  EXPECT_EQ(rdma_destroy_id(listener), 0);
  rdma_destroy_event_channel(client);
  rdma_destroy_event_channel(server);
}

// Reads the device's events until the end.
void ReadAsyncEvents(Scene& scene) {
  ibv_context* context = scene.device;
  const int flags = fcntl(context->async_fd, F_GETFL);
  ASSERT_EQ(fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
  while (!scene.stop) {
    ibv_async_event event;
    if (ibv_get_async_event(context, &event) == 0) {
      ibv_ack_async_event(&event);
    } else {
      std::this_thread::yield();
    }
  }
}

TEST(ThreadsStressTest, EverythingAtTheSameTime) {
  Scene scene;
  struct Worker {
    const char* name;
    void (*round)(Scene&);
    std::atomic<int> rounds = 0;
  };
  Worker workers[] = {
      {"regions", Regions},        {"domains", Domains},
      {"queue pairs", QueuePairs}, {"handles", AddressHandles},
      {"windows", Windows},        {"shared queues", SharedQueues},
      {"events", Events},          {"queries", Queries},
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] { ReadAsyncEvents(scene); });
  for (Worker& worker : workers) {
    threads.emplace_back([&scene, &worker] {
      do {
        worker.round(scene);
        ++worker.rounds;
      } while (!scene.stop);
    });
  }
  std::thread data([&] { MoveData(scene); });
  Connect();
  data.join();
  scene.stop = true;
  for (std::thread& t : threads) t.join();
  for (const Worker& worker : workers) {
    EXPECT_GT(worker.rounds, 0) << worker.name;
    std::printf("%s: %d rounds\n", worker.name, worker.rounds.load());
  }
}

}  // namespace
}  // namespace urnic
