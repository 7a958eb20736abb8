// Memory windows, and calls for regions other than registration:
// ibv_bind_mw(3), ibv_rereg_mr(3), ibv_alloc_null_mr(3), ibv_advise_mr(3),
// on-demand paging.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

constexpr int kBindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
constexpr unsigned kWrite = IBV_ACCESS_REMOTE_WRITE;

// a accesses memory of b through a window.
class WindowTest : public testing::Test {
 protected:
  WindowTest() : pair_(device_) {
    mr_ = ibv_reg_mr(b().pd(), memory_, sizeof(memory_), kBindable);
  }
  ~WindowTest() override {
    if (mr_ != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    }
  }
  End& a() { return pair_.a; }
  End& b() { return pair_.b; }
  uint64_t At(size_t offset) const {
    return reinterpret_cast<uint64_t>(memory_ + offset);
  }
  ibv_mw_bind_info Info(size_t offset, uint64_t length, unsigned access) {
    return {.mr = mr_,
            .addr = At(offset),
            .length = length,
            .mw_access_flags = access};
  }
  // Lets b bind or invalidate. Returns 0 or the errno; status_ is the
  // completion's.
  int BindType1(ibv_mw* mw, const ibv_mw_bind_info& info) {
    ibv_mw_bind bind = {};
    bind.wr_id = 7;
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = info;
    const int error = ibv_bind_mw(b().qp(), mw, &bind);
    if (error == 0) Completed(IBV_WC_BIND_MW);
    return error;
  }
  int BindType2(ibv_mw* mw, uint32_t key, const ibv_mw_bind_info& info) {
    const int error = b().PostSend({}, [&](ibv_send_wr& wr) {
      wr.opcode = IBV_WR_BIND_MW;
      wr.bind_mw = {.mw = mw, .rkey = key, .bind_info = info};
    });
    if (error == 0) Completed(IBV_WC_BIND_MW);
    return error;
  }
  void InvalidateHere(uint32_t key) {
    EXPECT_EQ(b().PostSend({},
                           [&](ibv_send_wr& wr) {
                             wr.opcode = IBV_WR_LOCAL_INV;
                             wr.invalidate_rkey = key;
                           }),
              0);
    Completed(IBV_WC_LOCAL_INV);
  }
  void Completed(ibv_wc_opcode opcode) {
    const ibv_wc wc = b().Poll();
    status_ = wc.status;
    if (wc.status == IBV_WC_SUCCESS) {
      EXPECT_EQ(wc.opcode, opcode);
    }
  }
  ibv_wc_status Write(uint32_t rkey, uint64_t address, uint32_t bytes) {
    EXPECT_EQ(a().PostSend({a().Sge(0, bytes)},
                           [&](ibv_send_wr& wr) {
                             wr.opcode = IBV_WR_RDMA_WRITE;
                             wr.wr.rdma.remote_addr = address;
                             wr.wr.rdma.rkey = rkey;
                           }),
              0);
    return a().Poll().status;
  }

  OpenDevice device_;
  Pair pair_;
  alignas(64) uint8_t memory_[4096] = {};
  ibv_mr* mr_ = nullptr;
  ibv_wc_status status_ = IBV_WC_SUCCESS;
};

TEST_F(WindowTest, Type1IsOpenedAndClosedByBinding) {
  ibv_mw* mw = ibv_alloc_mw(b().pd(), IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  const uint32_t first = mw->rkey;
  EXPECT_EQ(BindType1(mw, Info(64, 128, kWrite)), 0);
  EXPECT_EQ(status_, IBV_WC_SUCCESS);
  EXPECT_NE(mw->rkey, first);
  std::memset(a().memory(), 9, 128);
  EXPECT_EQ(Write(mw->rkey, At(64), 128), IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[64], 9);
  EXPECT_EQ(memory_[191], 9);
  EXPECT_EQ(memory_[192], 0);
  EXPECT_EQ(ibv_dereg_mr(mr_), EBUSY) << "a window is bound to it";
  EXPECT_NE(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE),
            0);
  EXPECT_EQ(BindType1(mw, {}), 0) << "bound to nothing";
  EXPECT_EQ(status_, IBV_WC_SUCCESS);
  EXPECT_EQ(Write(mw->rkey, At(64), 1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(WindowTest, Type2IsInvalidatedHereAndByThePeer) {
  ibv_mw* mw = ibv_alloc_mw(b().pd(), IBV_MW_TYPE_2);
  const uint32_t key = ibv_inc_rkey(mw->rkey);
  EXPECT_EQ(BindType2(mw, key, Info(0, 4096, kWrite)), 0);
  EXPECT_EQ(Write(key, At(0), 8), IBV_WC_SUCCESS);
  InvalidateHere(key);
  EXPECT_EQ(status_, IBV_WC_SUCCESS);
  const uint32_t again = ibv_inc_rkey(key);
  EXPECT_EQ(BindType2(mw, again, Info(0, 4096, kWrite)), 0);
  EXPECT_EQ(Write(again, At(0), 8), IBV_WC_SUCCESS);
  b().PostRecv(1, {b().Sge(0, 8)});
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_SEND_WITH_INV;
                           wr.invalidate_rkey = again;
                         }),
            0);
  const ibv_wc wc = b().Poll();
  EXPECT_EQ(wc.invalidated_rkey, again);
  EXPECT_NE(wc.wc_flags & IBV_WC_WITH_INV, 0u);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(Write(again, At(0), 8), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(WindowTest, Type2BelongsToItsQueuePair) {
  ibv_mw* mw = ibv_alloc_mw(b().pd(), IBV_MW_TYPE_2);
  const uint32_t key = ibv_inc_rkey(mw->rkey);
  EXPECT_EQ(BindType2(mw, key, Info(0, 64, kWrite)), 0);
  PairOptions options;
  options.pd = b().pd();
  {
    Pair other(device_, options);
    EXPECT_EQ(other.a.PostSend({other.a.Sge(0, 8)},
                               [&](ibv_send_wr& wr) {
                                 wr.opcode = IBV_WR_RDMA_WRITE;
                                 wr.wr.rdma.remote_addr = At(0);
                                 wr.wr.rdma.rkey = key;
                               }),
              0);
    EXPECT_EQ(other.a.Poll().status, IBV_WC_REM_ACCESS_ERR);
  }
  EXPECT_EQ(Write(key, At(0), 8), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0) << "takes the key away";
  EXPECT_EQ(Write(key, At(0), 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(WindowTest, AZeroBasedWindowStartsAt0) {
  ibv_mw* mw = ibv_alloc_mw(b().pd(), IBV_MW_TYPE_2);
  const uint32_t key = ibv_inc_rkey(mw->rkey);
  EXPECT_EQ(BindType2(mw, key, Info(64, 64, kWrite | IBV_ACCESS_ZERO_BASED)),
            0);
  a().memory()[0] = 3;
  EXPECT_EQ(Write(key, 0, 1), IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[64], 3);
  EXPECT_EQ(Write(key, At(64), 1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(WindowTest, UnreliableConnectionsHaveWindowsToo) {
  PairOptions options;
  options.type = IBV_QPT_UC;
  options.pd = b().pd();
  Pair pair(device_, options);
  ibv_mw* mw = ibv_alloc_mw(b().pd(), IBV_MW_TYPE_2);
  const uint32_t key = ibv_inc_rkey(mw->rkey);
  const auto local = [&](ibv_wr_opcode opcode) {
    EXPECT_EQ(pair.b.PostSend({},
                              [&](ibv_send_wr& wr) {
                                wr.opcode = opcode;
                                wr.invalidate_rkey = key;
                                wr.bind_mw = {.mw = mw,
                                              .rkey = key,
                                              .bind_info = Info(0, 64, kWrite)};
                              }),
              0);
    return pair.b.Poll().status;
  };
  const auto write = [&](uint8_t value) {
    pair.a.memory()[0] = value;
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 1)},
                              [&](ibv_send_wr& wr) {
                                wr.opcode = IBV_WR_RDMA_WRITE;
                                wr.wr.rdma.remote_addr = At(5);
                                wr.wr.rdma.rkey = key;
                              }),
              0);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS) << "nobody answers";
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(pair.b.Quiet());
    return memory_[5];
  };
  EXPECT_EQ(write(1), 0) << "not bound";
  EXPECT_EQ(local(IBV_WR_BIND_MW), IBV_WC_SUCCESS);
  EXPECT_EQ(write(2), 2);
  EXPECT_EQ(local(IBV_WR_LOCAL_INV), IBV_WC_SUCCESS);
  EXPECT_EQ(write(3), 2) << "retired";
  EXPECT_EQ(local(IBV_WR_LOCAL_INV), IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(WindowTest, WrongBindsAreRefused) {
  ibv_mw* one = ibv_alloc_mw(b().pd(), IBV_MW_TYPE_1);
  ibv_mw* two = ibv_alloc_mw(b().pd(), IBV_MW_TYPE_2);
  EXPECT_EQ(ibv_alloc_mw(b().pd(), static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(BindType1(two, Info(0, 64, kWrite)), EINVAL);
  EXPECT_EQ(BindType2(one, ibv_inc_rkey(one->rkey), Info(0, 64, kWrite)),
            EINVAL);
  EXPECT_EQ(BindType2(nullptr, 1, Info(0, 64, kWrite)), EINVAL);
  ibv_mw_bind_info info = Info(0, 64, 1u << 20);
  EXPECT_EQ(BindType1(one, info), EINVAL) << "unknown rights";
  ibv_mw* foreign = ibv_alloc_mw(a().pd(), IBV_MW_TYPE_2);
  EXPECT_EQ(
      BindType2(foreign, ibv_inc_rkey(foreign->rkey), Info(0, 64, kWrite)),
      EPERM);
  const uint32_t before = one->rkey;
  EXPECT_TRUE(b().Quiet());
  EXPECT_EQ(one->rkey, before);
  EXPECT_EQ(BindType2(two, ibv_inc_rkey(two->rkey), Info(4000, 97, kWrite)), 0);
  EXPECT_EQ(status_, IBV_WC_MW_BIND_ERR) << "beyond the region";
  EXPECT_EQ(b().State(), IBV_QPS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(one), 0);
  EXPECT_EQ(ibv_dealloc_mw(two), 0);
  EXPECT_EQ(ibv_dealloc_mw(foreign), 0);
}

// A parent domain is another name for its domain.
TEST_F(WindowTest, AWindowOfAParentDomainIsBoundToARegionOfItsDomain) {
  ibv_parent_domain_init_attr attr = {};
  attr.pd = b().pd();
  ibv_pd* parent = ibv_alloc_parent_domain(device_, &attr);
  ASSERT_NE(parent, nullptr);
  ibv_mw* mw = ibv_alloc_mw(parent, IBV_MW_TYPE_2);
  const uint32_t key = ibv_inc_rkey(mw->rkey);
  EXPECT_EQ(BindType2(mw, key, Info(0, 64, kWrite)), 0);
  EXPECT_EQ(status_, IBV_WC_SUCCESS);
  EXPECT_EQ(Write(key, At(0), 8), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST_F(WindowTest, ADomainIsBusyWhileItHasWindows) {
  ibv_pd* pd = ibv_alloc_pd(device_);
  ibv_mw* mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

// --- Regions ----------------------------------------------------------------

TEST_F(WindowTest, AReregisteredRegionKeepsItsKey) {
  const uint32_t key = mr_->rkey;
  EXPECT_EQ(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
            0);
  EXPECT_EQ(mr_->rkey, key);
  EXPECT_EQ(Write(key, At(0), 8), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                         memory_ + 1024, 64, 0),
            0);
  EXPECT_EQ(Write(key, At(1024), 64), IBV_WC_SUCCESS);
  // A failed change leaves the region as it was.
  EXPECT_EQ(ibv_rereg_mr(mr_, 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_CMD)
      << "nothing to change";
  for (const int access : {int{IBV_ACCESS_REMOTE_WRITE}, 1 << 30}) {
    EXPECT_NE(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                           access),
              0);
  }
  EXPECT_NE(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                         reinterpret_cast<void*>(64), 64, 0),
            0)
      << "nothing is mapped there";
  EXPECT_NE(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0),
            0);
  EXPECT_EQ(Write(key, At(1024), 64), IBV_WC_SUCCESS);
  ibv_pd* pd = ibv_alloc_pd(device_);
  EXPECT_EQ(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY) << "the region is in it now";
  EXPECT_EQ(Write(key, At(1024), 8), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr_), 0);
  mr_ = nullptr;
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(WindowTest, ANullRegionDropsWritesAndReadsAsZeros) {
  ibv_mr* null = ibv_alloc_null_mr(b().pd());
  ASSERT_NE(null, nullptr);
  std::memset(a().memory(), 5, 8192);
  // Of 8192 bytes, the middle goes to the null region.
  EXPECT_EQ(b().PostRecv(
                1, {b().Sge(0, 10), {123, 8000, null->lkey}, b().Sge(10, 182)}),
            0);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8192)}), 0);
  EXPECT_EQ(b().Poll().byte_len, 8192u);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b().memory()[191], 5);
  EXPECT_EQ(b().memory()[192], 0);
  EXPECT_EQ(a().PostRecv(2, {a().Sge(0, 4096)}), 0);
  EXPECT_EQ(b().PostSend({{0, 3000, null->lkey}}), 0);
  EXPECT_EQ(a().Poll().byte_len, 3000u);
  EXPECT_EQ(b().Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(a().memory()[0], 0);
  EXPECT_EQ(a().memory()[2999], 0);
  EXPECT_EQ(a().memory()[3000], 5);
  // A peer may use it, too: with several packets, and far from any memory.
  std::memset(a().memory(), 5, 8192);
  EXPECT_EQ(Write(null->rkey, 0, 8192), IBV_WC_SUCCESS);
  EXPECT_EQ(Write(null->rkey, 1ull << 63, 8192), IBV_WC_SUCCESS);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8191)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_RDMA_READ;
                           wr.wr.rdma.remote_addr = 12345;
                           wr.wr.rdma.rkey = null->rkey;
                         }),
            0);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::count(a().memory(), a().memory() + 8192, 0), 8191);
  // IBV_MR_TYPE_NULL_MR, in libibverbs' own part after the public one. For
  // plain regions, ibv_dereg_mr() makes the memory visible to forked children
  // again.
  EXPECT_EQ(*reinterpret_cast<const int*>(null + 1), 1);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
                           wr.wr.atomic.rkey = null->rkey;
                         }),
            0);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_ACCESS_ERR) << "no word to change";
  EXPECT_EQ(ibv_dereg_mr(null), 0);
}

TEST_F(WindowTest, OnDemandPagingAllowsARegionOfTheWholeAddressSpace) {
  ibv_mr* all = ibv_reg_mr(
      b().pd(), nullptr, SIZE_MAX,
      IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(all, nullptr);
  a().memory()[0] = 8;
  EXPECT_EQ(Write(all->rkey, At(100), 1), IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[100], 8);
  EXPECT_EQ(Write(all->rkey, 64, 1), IBV_WC_REM_OP_ERR)
      << "nothing is mapped there";
  EXPECT_EQ(ibv_dereg_mr(all), 0);
  EXPECT_EQ(ibv_reg_mr(b().pd(), nullptr, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(WindowTest, OnDemandMemoryMayBeMappedLater) {
  constexpr size_t kBytes = 1 << 16;
  void* at =
      mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  EXPECT_EQ(ibv_reg_mr(b().pd(), at, kBytes, access), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* mr = ibv_reg_mr(b().pd(), at, kBytes, access | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mprotect(at, kBytes, PROT_READ | PROT_WRITE), 0);
  a().memory()[0] = 4;
  EXPECT_EQ(Write(mr->rkey, reinterpret_cast<uint64_t>(at), 1), IBV_WC_SUCCESS);
  EXPECT_EQ(*static_cast<uint8_t*>(at), 4);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  munmap(at, kBytes);
}

TEST_F(WindowTest, AdviceIsTakenOrRefusedAsDocumented) {
  const auto advise = [&](ibv_sge sge, ibv_advise_mr_advice advice,
                          uint32_t flags = IBV_ADVISE_MR_FLAG_FLUSH,
                          uint32_t count = 1) {
    return ibv_advise_mr(b().pd(), advice, flags, &sge, count);
  };
  const ibv_sge good = {At(0), 4096, mr_->lkey};
  for (const auto advice :
       {IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
        IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT}) {
    EXPECT_EQ(advise(good, advice), 0);
    EXPECT_EQ(advise(good, advice, 0), 0);
    EXPECT_EQ(advise({At(0), 4097, mr_->lkey}, advice), EFAULT);
    EXPECT_EQ(advise({At(0), 1, mr_->lkey ^ 1}, advice), EFAULT);
    EXPECT_EQ(advise({a().address(), 1, a().mr()->lkey}, advice), EPERM);
    EXPECT_EQ(advise(good, advice, 1u << 8), EINVAL);
    EXPECT_EQ(advise(good, advice, 0, 0), EINVAL);
  }
  EXPECT_EQ(advise(good, static_cast<ibv_advise_mr_advice>(77)), EOPNOTSUPP);
  ibv_mr* readable = ibv_reg_mr(b().pd(), memory_, 64, 0);
  const ibv_sge read = {At(0), 64, readable->lkey};
  EXPECT_EQ(advise(read, IBV_ADVISE_MR_ADVICE_PREFETCH), 0);
  EXPECT_EQ(advise(read, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE), EPERM);
  EXPECT_EQ(ibv_dereg_mr(readable), 0);
}

TEST_F(WindowTest, RegionsAcceptEveryKnownFlag) {
  for (const int access : {int{IBV_ACCESS_RELAXED_ORDERING},
                           int{IBV_ACCESS_HUGETLB}, int{IBV_ACCESS_ZERO_BASED},
                           int{IBV_ACCESS_ON_DEMAND}, 1 << 8, 1 << 29}) {
    ibv_mr* mr = ibv_reg_mr(b().pd(), memory_, 64, access);
    ASSERT_NE(mr, nullptr) << access;
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  }
  EXPECT_EQ(ibv_reg_mr(b().pd(), memory_, 64, 1 << 9), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP) << "flushing to persistence";
  EXPECT_EQ(ibv_reg_mr(b().pd(), memory_, 64, 1 << 12), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_mr* mr =
      ibv_reg_mr_iova(b().pd(), memory_, 64, 0x1000,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  a().memory()[0] = 6;
  EXPECT_EQ(Write(mr->rkey, 0x1001, 1), IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[1], 6);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

}  // namespace
}  // namespace urnic
