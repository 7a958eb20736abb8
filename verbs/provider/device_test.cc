// Devices, domains and queries; opening and closing.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "verbs/provider/testing/own_program.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

TEST(DeviceTest, QueriesTellTheTruth) {
  OpenDevice device;
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(device, &attr), 0);
  EXPECT_STREQ(attr.fw_ver, "0.1.0");
  EXPECT_EQ(attr.node_guid, ibv_get_device_guid(device.get()->device));
  EXPECT_EQ(attr.max_qp_rd_atom, 128);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_EQ(attr.max_srq, 65536);
  EXPECT_EQ(attr.max_mr, 131072);
  EXPECT_EQ(attr.max_mw, attr.max_mr);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0u);
  EXPECT_EQ(attr.device_cap_flags, 0x01323cc6u) << "a RoCE device's";
  EXPECT_EQ(attr.max_mcast_grp, 8192);
  constexpr uint32_t kWithInvalidation = IBV_DEVICE_MEM_MGT_EXTENSIONS;
  EXPECT_NE(attr.device_cap_flags & kWithInvalidation, 0u);
  EXPECT_EQ(attr.phys_port_cnt, 1);
  ibv_device_attr_ex ex;
  ASSERT_EQ(ibv_query_device_ex(device, nullptr, &ex), 0);
  EXPECT_EQ(std::memcmp(&ex.orig_attr, &attr, sizeof(attr)), 0);
  EXPECT_EQ(ex.completion_timestamp_mask, UINT64_MAX);
  EXPECT_EQ(ex.hca_core_clock, 1'000'000u);
  EXPECT_EQ(ex.odp_caps.general_caps,
            uint64_t{IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT});
  ibv_query_device_ex_input input = {1};
  EXPECT_EQ(ibv_query_device_ex(device, &input, &ex), EINVAL);

  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(device, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.max_msg_sz, 1u << 31);
  EXPECT_EQ(ibv_query_port(device, 0, &port), EINVAL);
  EXPECT_EQ(ibv_query_port(device, 2, &port), EINVAL);

  union ibv_gid gid;
  ASSERT_EQ(ibv_query_gid(device, 1, kGidIndexIpv4, &gid), 0);
  const uint8_t mapped[16] = {0, 0, 0,    0,    0,  0, 0, 0,
                              0, 0, 0xff, 0xff, 10, 9, 0, 1};
  EXPECT_EQ(std::memcmp(gid.raw, mapped, 16), 0);
}

TEST(DeviceTest, QueryQpReturnsWhatWasSet) {
  OpenDevice device;
  Pair pair(device);
  ibv_qp_attr a = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(ibv_query_qp(pair.a.qp(), &a, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(a.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(a.dest_qp_num, pair.b.qp()->qp_num);
  EXPECT_EQ(a.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(a.sq_psn, 0xfffff0u);
  EXPECT_EQ(a.timeout, 14);
  EXPECT_EQ(a.ah_attr.grh.sgid_index, kGidIndexIpv4);
  EXPECT_EQ(a.ah_attr.is_global, 1);
  EXPECT_EQ(a.port_num, 1);
  EXPECT_EQ(a.cap.max_send_wr, 64u);
  EXPECT_EQ(init.send_cq, pair.a.cq());
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init.sq_sig_all, 1);
}

//= IBTA 9.11
TEST(DeviceTest, AStaticRateIsKept) {
  OpenDevice device;
  PairOptions options;
  options.static_rate = IBV_RATE_2_5_GBPS;
  Pair pair(device, options);
  constexpr uint32_t kWrite = 512 * 1024;
  // 0.4 ns per bit, minus what a late timer may catch up.
  constexpr auto kAtLeast = std::chrono::nanoseconds(kWrite * 8 * 2 / 5) -
                            std::chrono::microseconds(20);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(pair.a.PostSend({pair.a.Sge(0, kWrite)},
                            [&](ibv_send_wr& wr) {
                              wr.opcode = IBV_WR_RDMA_WRITE;
                              wr.wr.rdma = {
                                  reinterpret_cast<uintptr_t>(pair.b.memory()),
                                  pair.b.mr()->rkey};
                            }),
            0);
  EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kAtLeast);
  ibv_qp_attr a = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(ibv_query_qp(pair.a.qp(), &a, IBV_QP_AV, &init), 0);
  EXPECT_EQ(a.ah_attr.static_rate, IBV_RATE_2_5_GBPS);
}

TEST(DeviceTest, QueryQpReturnsTheNextPsns) {
  OpenDevice device;
  Pair pair(device);
  ASSERT_EQ(pair.a.PostSend({pair.a.Sge(0, 3 * 1024)},
                            [&](ibv_send_wr& wr) {
                              wr.opcode = IBV_WR_RDMA_WRITE;
                              wr.wr.rdma = {
                                  reinterpret_cast<uintptr_t>(pair.b.memory()),
                                  pair.b.mr()->rkey};
                            }),
            0);
  EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  ibv_qp_attr a = {};
  ibv_qp_attr b = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(ibv_query_qp(pair.a.qp(), &a, IBV_QP_SQ_PSN, &init), 0);
  ASSERT_EQ(ibv_query_qp(pair.b.qp(), &b, IBV_QP_RQ_PSN, &init), 0);
  EXPECT_EQ(a.sq_psn, 0xfffff3u);
  EXPECT_EQ(b.rq_psn, 0xfffff3u);
}

TEST(DeviceTest, DomainsCountTheirUsers) {
  OpenDevice device;
  ibv_pd* pd = ibv_alloc_pd(device);
  ibv_td_init_attr td_attr = {};
  ibv_td* td = ibv_alloc_td(device, &td_attr);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr attr = {};
  attr.pd = pd;
  attr.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(device, &attr);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  static char memory[64];
  // One protection domain under two names: keys work across.
  ibv_mr* mr = ibv_reg_mr(parent, memory, sizeof(memory), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);

  td_attr.comp_mask = 1;
  EXPECT_EQ(ibv_alloc_td(device, &td_attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr = {};
  EXPECT_EQ(ibv_alloc_parent_domain(device, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL) << "no pd";
  pd = ibv_alloc_pd(device);
  attr.pd = pd;
  attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  EXPECT_EQ(ibv_alloc_parent_domain(device, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL) << "no allocators";
  attr.comp_mask = 1u << 30;
  EXPECT_EQ(ibv_alloc_parent_domain(device, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

// Counts what queues allocate from a parent domain.
struct Allocations {
  int live = 0;
  int calls = 0;
  enum class Answer { kMemory, kNothing, kDefault, kCrooked };
  Answer answer = Answer::kMemory;

  static void* Allocate(ibv_pd*, void* context, size_t size, size_t alignment,
                        uint64_t) {
    auto* self = static_cast<Allocations*>(context);
    ++self->calls;
    if (self->answer == Answer::kNothing) return nullptr;
    if (self->answer == Answer::kDefault) return IBV_ALLOCATOR_USE_DEFAULT;
    void* at = nullptr;
    EXPECT_EQ(posix_memalign(&at, alignment, size + 8), 0);
    std::memset(at, 0xab, size);
    ++self->live;
    return self->answer == Answer::kCrooked ? static_cast<char*>(at) + 8 : at;
  }
  static void Free(ibv_pd*, void* context, void* at, uint64_t) {
    auto* self = static_cast<Allocations*>(context);
    --self->live;
    free(self->answer == Answer::kCrooked ? static_cast<char*>(at) - 8 : at);
  }
};

TEST(DeviceTest, QueuesUseTheProgramsAllocator) {
  OpenDevice device;
  Allocations allocations;
  ibv_parent_domain_init_attr attr = {};
  attr.pd = ibv_alloc_pd(device);
  attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                   IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  attr.alloc = Allocations::Allocate;
  attr.free = Allocations::Free;
  attr.pd_context = &allocations;
  PairOptions options;
  options.pd = ibv_alloc_parent_domain(device, &attr);
  ASSERT_NE(options.pd, nullptr);
  ibv_cq_init_attr_ex cq_attr = {};
  cq_attr.cqe = 100;
  cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  cq_attr.parent_domain = options.pd;
  for (const auto answer :
       {Allocations::Answer::kMemory, Allocations::Answer::kDefault}) {
    allocations.answer = answer;
    ibv_cq_ex* cq = ibv_create_cq_ex(device, &cq_attr);
    ASSERT_NE(cq, nullptr);
    options.cq = ibv_cq_ex_to_cq(cq);
    {
      Pair pair(device, options);
      EXPECT_EQ(allocations.live,
                answer == Allocations::Answer::kMemory ? 3 : 0);
      EXPECT_EQ(pair.b.PostRecv(0, {pair.b.Sge(0, 64)}), 0);
      EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 64)}), 0);
      EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
      EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(ibv_destroy_cq(options.cq), 0);
    EXPECT_EQ(allocations.live, 0);
  }
  EXPECT_EQ(allocations.calls, 6);
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = ibv_create_cq(device, 1, nullptr, nullptr, 0);
  init.qp_type = IBV_QPT_RC;
  allocations.answer = Allocations::Answer::kNothing;
  EXPECT_EQ(ibv_create_qp(options.pd, &init), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  allocations.answer = Allocations::Answer::kCrooked;
  EXPECT_EQ(ibv_create_qp(options.pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(allocations.live, 0);
  EXPECT_EQ(ibv_destroy_cq(init.send_cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(options.pd), 0);
  EXPECT_EQ(ibv_dealloc_pd(attr.pd), 0);
}

TEST(DeviceTest, AThreadDomainWorksLikeAnyOther) {
  OpenDevice device;
  ibv_pd* pd = ibv_alloc_pd(device);
  ibv_td_init_attr td_attr = {};
  ibv_parent_domain_init_attr attr = {};
  attr.pd = pd;
  attr.td = ibv_alloc_td(device, &td_attr);
  PairOptions options;
  options.pd = ibv_alloc_parent_domain(device, &attr);
  {
    Pair pair(device, options);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(pair.b.PostRecv(0, {pair.b.Sge(0, 64)}), 0);
      EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 64)}), 0);
      EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
      EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
    }
  }
  EXPECT_EQ(ibv_dealloc_pd(options.pd), 0);
  EXPECT_EQ(ibv_dealloc_td(attr.td), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST(DeviceTest, ContextsShareTheDevice) {
  OpenDevice first;
  OpenDevice second;
  PairOptions options;
  End a(first, options);
  End b(second, options);
  a.Connect(b.qp()->qp_num);
  b.Connect(a.qp()->qp_num);
  EXPECT_EQ(b.PostRecv(0, {b.Sge(0, 8)}), 0);
  EXPECT_EQ(a.PostSend({a.Sge(0, 8)}), 0);
  EXPECT_EQ(b.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(a.Poll().status, IBV_WC_SUCCESS);
}

TEST(DeviceTest, ClosingDestroysWhatWasLeft) {
  for (int i = 0; i < 3; ++i) {
    OpenDevice device;
    ibv_pd* pd = ibv_alloc_pd(device);
    ibv_cq* cq = ibv_create_cq(device, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap.max_recv_wr = 1;
    ASSERT_NE(ibv_create_qp(pd, &init), nullptr);
    static char memory[64];
    ASSERT_NE(ibv_reg_mr(pd, memory, sizeof(memory), 0), nullptr);
  }
}

int Entries(const char* directory) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

TEST(DeviceTest, ListingStartsNothing) {
  ibv_free_device_list(ibv_get_device_list(nullptr));
  const int threads = Entries("/proc/self/task");
  const int descriptors = Entries("/proc/self/fd");
  ibv_free_device_list(ibv_get_device_list(nullptr));
  EXPECT_EQ(Entries("/proc/self/task"), threads);
  EXPECT_EQ(Entries("/proc/self/fd"), descriptors);
}

TEST(DeviceTest, OpeningAndClosingLeaksNoDescriptors) {
  { OpenDevice warm_up; }
  const int before = Entries("/proc/self/fd");
  for (int i = 0; i < 5; ++i) {
    OpenDevice device;
    Pair pair(device);
  }
  EXPECT_EQ(Entries("/proc/self/fd"), before);
}

// With every limit that is too low: libibverbs, the port, the helper or some
// optional part lacks a descriptor.
TEST(DeviceTest, WithoutEnoughDescriptorsItDoesNotOpen) {
  { OpenDevice warm_up; }
  ibv_device** list = ibv_get_device_list(nullptr);
  const int before = Entries("/proc/self/fd");
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit plenty = limit;
  ibv_context* context = nullptr;
  int failures = 0;
  for (limit.rlim_cur = 4; context == nullptr; ++limit.rlim_cur) {
    ASSERT_LT(limit.rlim_cur, 300u);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    context = ibv_open_device(list[0]);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &plenty), 0);
    failures += context == nullptr;
    if (context == nullptr) {
      ASSERT_EQ(Entries("/proc/self/fd"), before) << limit.rlim_cur;
    }
  }
  EXPECT_GT(failures, 0);
  ibv_free_device_list(list);
  { Pair pair(context); }
  EXPECT_EQ(ibv_close_device(context), 0);
  EXPECT_EQ(Entries("/proc/self/fd"), before);
}

TEST(DeviceTest, WithoutAThreadItDoesNotOpen) {
  { OpenDevice warm_up; }
  ibv_device** list = ibv_get_device_list(nullptr);
  const int before = Entries("/proc/self/fd");
  // Stacks that no process has the address space for.
  pthread_attr_t normal;
  pthread_attr_t huge;
  ASSERT_EQ(pthread_getattr_default_np(&normal), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  ibv_context* context = ibv_open_device(list[0]);
  const int error = errno;
  ASSERT_EQ(pthread_setattr_default_np(&normal), 0);
  ibv_free_device_list(list);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(Entries("/proc/self/fd"), before);
  OpenDevice device;
  Pair pair(device);
}

// In a program of its own, by exec, whose main thread has ended: /proc/self of
// such a process shows no files and no memory.
TEST(DeviceTest, IsOpenedAndUsedAfterTheMainThreadHasEnded) {
  RunInOwnProgram("DeviceTest.DISABLED_WithoutAMainThread");
}

// A part of the test above.
TEST(DeviceTest, DISABLED_WithoutAMainThread) {
  std::thread([] {
    while (access("/proc/self/fd/2", F_OK) == 0) sched_yield();
    {
      OpenDevice device;
      ibv_comp_channel* channel = ibv_create_comp_channel(device);
      ASSERT_NE(channel, nullptr);
      PairOptions options;
      options.channel = channel;
      Pair pair(device, options);
      EXPECT_EQ(pair.b.PostRecv(0, {pair.b.Sge(0, 8)}), 0);
      EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
      EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
    }
    _exit(testing::Test::HasFailure() ? 1 : kPartIsDone);
  }).detach();
  // Not pthread_exit(), which would unwind GoogleTest.
  syscall(SYS_exit, 0);
}

}  // namespace
}  // namespace urnic
