// Objects that the program has written over: they are fenced off, named in the
// error log, and shown; the rest of the program runs on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "verbs/provider/testing/logged.h"
#include "verbs/provider/testing/shown.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

uint8_t* Before(void* object) { return static_cast<uint8_t*>(object) - 8; }

void OverrunBeforeAQueuePair(OpenDevice& device) {
  // Its destructor cannot destroy what was written over.
  auto* const hurt = new Pair(device);
  Pair well(device);
  std::memset(Before(hurt->a.qp()), 'A', 8);
  EXPECT_EQ(hurt->a.PostSend({hurt->a.Sge(0, 8)}), EIO);
  EXPECT_EQ(hurt->a.PostSend({hurt->a.Sge(0, 8)}), EIO) << "fenced off";
  EXPECT_EQ(hurt->a.PostRecv(1, {}), EIO);
  EXPECT_EQ(hurt->a.To(IBV_QPS_ERR), EIO);
  EXPECT_EQ(ibv_destroy_qp(hurt->a.qp()), EIO);
  EXPECT_EQ(ibv_destroy_cq(hurt->a.cq()), EBUSY) << "the queue pair uses it";
  EXPECT_EQ(std::memcmp(Before(hurt->a.qp()), "BAD---QP", 8), 0);
  EXPECT_EQ(well.b.PostRecv(1, {well.b.Sge(0, 8)}), 0);
  EXPECT_EQ(well.a.PostSend({well.a.Sge(0, 8)}), 0);
  EXPECT_EQ(well.a.Poll().status, IBV_WC_SUCCESS);
  // The peer learns it as from any queue pair that failed.
  EXPECT_EQ(hurt->b.PostSend({hurt->b.Sge(0, 8)}), 0);
  EXPECT_EQ(hurt->b.Poll().status, IBV_WC_RETRY_EXC_ERR);
}

void OverrunBehindACompletionQueue(OpenDevice& device) {
  ibv_cq* const cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
  auto* end = reinterpret_cast<uint8_t*>(cq);
  while (std::memcmp(end, "CQ-uRNIC", 8) != 0) end += 8;
  end[0] ^= 1;
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0) << "polling looks before it alone";
  EXPECT_EQ(ibv_resize_cq(cq, 16), EIO);
  EXPECT_LT(ibv_poll_cq(cq, 1, &wc), 0);
  EXPECT_EQ(errno, EIO);
}

TEST(WrittenOverTest, OneObjectFailsAndTheRestRunsOn) {
  const auto lines = LogOf(
      [](OpenDevice& device) {
        OverrunBeforeAQueuePair(device);
        OverrunBehindACompletionQueue(device);
        Pair pair(device);
        EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 8)}), 0);
        EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
        EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
      },
      "BQ-uRNIC");
  EXPECT_THAT(lines,
              Contains(AllOf(HasSubstr("URN1909"), HasSubstr("\"lqpn\":"),
                             HasSubstr(": before it stands 'AAAAAAAA' instead "
                                       "of 'uRNIC-QP'\""))));
  EXPECT_THAT(lines,
              Contains(AllOf(HasSubstr("URN1909"),
                             HasSubstr(": behind it stands 'BQ-uRNIC' instead "
                                       "of 'CQ-uRNIC'\""))));
  EXPECT_THAT(lines, Contains(HasSubstr("URN2018")));
}

// The line of that memory; empty: none.
std::string SnapshotOf(const void* memory) {
  char addr[64];
  std::snprintf(addr, sizeof(addr), "\taddr:%p\t", memory);
  std::istringstream lines(Shown("snapshot"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find(addr) != std::string::npos) return line;
  }
  return "";
}

TEST(WrittenOverTest, ASnapshotHasWhatTheProgramWrote) {
  OpenDevice device;
  auto* const pair = new Pair(device);
  uint8_t* const at = Before(pair->a.qp());
  std::memset(at, 'A', 8);
  EXPECT_EQ(pair->a.PostRecv(1, {}), EIO);
  const std::string line = SnapshotOf(at);
  EXPECT_THAT(line, AllOf(HasSubstr("\tcode:URN1909\tobject:memory\t"),
                          HasSubstr("\tbytes:4141414141414141"),
                          HasSubstr("\ttext:AAAAAAAA"),
                          HasSubstr("\tpid=" + std::to_string(getpid())),
                          HasSubstr("\tcomm:")));
  EXPECT_NE(SnapshotOf(at + 32), "") << "32 bytes a line";
}

// A program that never uses them again, and lets ibv_close_device() clean up.
TEST(WrittenOverTest, ClosingTheDeviceFindsWhatNobodyHasNoticed) {
  OpenDevice device;
  for (const bool behind : {false, true}) {
    ibv_pd* const pd = ibv_alloc_pd(device);
    ibv_cq* const cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
    EXPECT_NE(cq, nullptr);
    static uint8_t memory[64];
    ibv_mr* const mr = ibv_reg_mr(pd, memory, sizeof(memory), 0);
    auto* at = Before(mr);
    if (behind) {
      while (std::memcmp(at, "MR-uRNIC", 8) != 0) at += 8;
    }
    std::memset(at, 'A', 8);
  }
}

TEST(WrittenOverTest, AnAddressHandleIsFoundByAPost) {
  OpenDevice device;
  End end(device, {});
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = kGidIndexIpv4;
  ibv_query_gid(device, 1, kGidIndexIpv4, &attr.grh.dgid);
  ibv_pd* const pd = ibv_alloc_pd(device);
  ibv_ah* const ah = ibv_create_ah(pd, &attr);
  ASSERT_NE(ah, nullptr);
  ibv_cq* const cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_UD;
  init.cap.max_send_wr = init.cap.max_send_sge = 1;
  ibv_qp* const qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr state = {};
  state.qp_state = IBV_QPS_INIT;
  state.port_num = 1;
  ASSERT_EQ(ibv_modify_qp(
                qp, &state,
                IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            0);
  state.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(ibv_modify_qp(qp, &state, IBV_QP_STATE), 0);
  state.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  ibv_send_wr wr = {};
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud.ah = ah;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  Before(ah)[0] ^= 1;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), EIO);
  EXPECT_EQ(bad, &wr);
}

// A domain whose queues lie in memory that the test knows.
struct KnownMemory {
  static constexpr size_t kBytes = 1 << 20;

  static void* Allocate(ibv_pd*, void* context, size_t bytes, size_t alignment,
                        uint64_t) {
    auto* self = static_cast<KnownMemory*>(context);
    const size_t at = (self->used + alignment - 1) / alignment * alignment;
    self->used = at + bytes;
    EXPECT_LE(self->used, kBytes);
    return self->memory + at;
  }
  static void Free(ibv_pd*, void*, void*, uint64_t) {}

  explicit KnownMemory(ibv_context* device, bool fresh_pages = false) {
    // A leak checker does not see what a mapping points to. But all pages of a
    // mapping are fresh.
    memory = static_cast<uint8_t*>(
        fresh_pages ? mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                    : std::aligned_alloc(4096, kBytes));
    EXPECT_TRUE(memory != nullptr && memory != MAP_FAILED);
    // What the heap gives may have the marks of earlier objects.
    if (!fresh_pages) std::memset(memory, 0, kBytes);
    ibv_parent_domain_init_attr attr = {};
    attr.pd = ibv_alloc_pd(device);
    attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    attr.alloc = Allocate;
    attr.free = Free;
    attr.pd_context = this;
    domain = ibv_alloc_parent_domain(device, &attr);
    EXPECT_NE(domain, nullptr);
  }
  uint8_t* Find(const char* mark) const {
    uint8_t* const at =
        std::search(memory, memory + used, mark, mark + std::strlen(mark));
    EXPECT_NE(at, memory + used) << mark;
    return at;
  }
  // Pages that have ever been written to.
  size_t Resident() const {
    std::vector<unsigned char> pages(kBytes / 4096);
    EXPECT_EQ(mincore(memory, kBytes, pages.data()), 0);
    return static_cast<size_t>(std::count_if(
        pages.begin(), pages.end(), [](unsigned char p) { return p & 1; }));
  }

  uint8_t* memory = nullptr;
  size_t used = 0;
  ibv_pd* domain = nullptr;
};

TEST(WrittenOverTest, PartsOfAQueuePairLieBetweenMarks) {
  const auto lines = LogOf(
      [](OpenDevice& device) {
        for (const char* const mark :
             {"uRNIC-EP", "EP-uRNIC", "uRNIC-EQ", "uRNIC-SQ", "SQ-uRNIC",
              "uRNIC-RQ", "RQ-uRNIC", "uRNIC-WR", "WR-uRNIC"}) {
          auto* const known = new KnownMemory(device);
          PairOptions options;
          options.pd = known->domain;
          auto* const end = new End(device, options);
          end->Connect(end->qp()->qp_num);
          ibv_qp_attr attr = {};
          ibv_qp_init_attr init = {};
          EXPECT_EQ(ibv_query_qp(end->qp(), &attr, IBV_QP_STATE, &init), 0);
          known->Find(mark)[3] ^= 4;
          EXPECT_EQ(ibv_query_qp(end->qp(), &attr, IBV_QP_STATE, &init), EIO)
              << mark;
          EXPECT_EQ(end->PostSend({end->Sge(0, 8)}), EIO) << mark;
          EXPECT_EQ(ibv_destroy_qp(end->qp()), EIO) << mark;
        }
        Pair pair(device);
        EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 8)}), 0);
        EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
        EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
      },
      "uRNIC-WR");
  for (const char* const part :
       {"uRNIC-EP", "uRNIC-EQ", "uRNIC-SQ", "uRNIC-RQ", "uRNIC-WR"}) {
    EXPECT_THAT(lines,
                Contains(AllOf(HasSubstr("URN1909"), HasSubstr("\"lqpn\":"),
                               HasSubstr(part))));
  }
}

TEST(WrittenOverTest, AnIdleQueuePairHasTwoPages) {
  OpenDevice device;
  for (const uint32_t depth : {1u, 16u, 200u}) {
    KnownMemory known(device, /*fresh_pages=*/true);
    PairOptions options;
    options.pd = known.domain;
    options.depth = depth;
    options.max_sge = 1;
    options.max_inline = 0;
    // Its completion queue is elsewhere.
    options.cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
    End end(device, options);
    end.Connect(end.qp()->qp_num);
    EXPECT_EQ(known.Resident(), depth < 200 ? 2u : 4u) << depth;
  }
}

TEST(WrittenOverTest, EveryFlippedBitBeforeAnObjectIsFound) {
  OpenDevice device;
  for (int bit = 0; bit < 64; ++bit) {
    ibv_pd* const pd = ibv_alloc_pd(device);
    Before(pd)[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_EQ(ibv_dealloc_pd(pd), EIO) << bit;
  }
}

}  // namespace
}  // namespace urnic
