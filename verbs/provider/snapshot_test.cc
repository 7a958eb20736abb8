// What `urnic show snapshot` says of queue pairs that fail while they work: the
// objects that they use, the memory that the failure is about, and their
// images, which can be read although each is of the middle of something.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "ras/facts/facts.h"
#include "verbs/cli/fact_list.h"
#include "verbs/cli/snapshot_view.h"
#include "verbs/provider/testing/shown.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

using ::testing::Contains;

std::string Hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "0x%lx", static_cast<unsigned long>(value));
  return text;
}

// The objects in the snapshot of a queue pair, which has one.
class Snapshot {
 public:
  Snapshot(uint32_t qpn, const std::string& code) {
    auto all = ParseFactList(Shown("snapshot"));
    EXPECT_TRUE(all.ok()) << all.status();
    if (!all.ok()) return;
    DecodeImages(*all);
    for (const Facts& object : *all) {
      EXPECT_NE(object.Find("pid"), nullptr) << "a filter by pid would drop it";
      if (*object.Find("failed-lqpn") == std::to_string(qpn) &&
          *object.Find("code") == code)
        objects_.push_back(object);
    }
  }
  std::vector<std::string> Kinds() const {
    std::vector<std::string> kinds;
    for (const Facts& object : objects_)
      kinds.push_back(*object.Find("object"));
    return kinds;
  }
  // The values of a fact, of each object of that kind.
  std::vector<std::string> Values(const std::string& kind,
                                  const std::string& name) const {
    std::vector<std::string> values;
    for (const Facts& object : objects_) {
      if (*object.Find("object") != kind) continue;
      const std::string* const value = object.Find(name);
      values.push_back(value == nullptr ? "-" : *value);
    }
    return values;
  }

 private:
  std::vector<Facts> objects_;
};

using Values = std::vector<std::string>;

class SnapshotTest : public ::testing::Test {
 protected:
  void Make(ibv_qp_type type = IBV_QPT_RC, PairOptions options = {}) {
    options.type = type;
    pair_ = std::make_unique<Pair>(device_, options);
  }
  End& a() { return pair_->a; }
  End& b() { return pair_->b; }
  void Write(uint32_t rkey) {
    EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                           [&](ibv_send_wr& wr) {
                             wr.opcode = IBV_WR_RDMA_WRITE;
                             Target(wr, b(), 0);
                             wr.wr.rdma.rkey = rkey;
                           }),
              0);
  }
  // It has failed: its snapshot has these regions, and an image that can be
  // read.
  static void ExpectSnapshot(End& end, const std::string& code,
                             const std::vector<uint32_t>& keys) {
    SCOPED_TRACE(code);
    const Snapshot snapshot(end.qp()->qp_num, code);
    EXPECT_EQ(snapshot.Values("qp", "lqpn"),
              Values{std::to_string(end.qp()->qp_num)});
    EXPECT_EQ(snapshot.Values("cq", "users").size(), 1u);
    EXPECT_EQ(snapshot.Values("pd", "pdn").size(), 1u);
    Values wanted;
    for (const uint32_t key : keys) wanted.push_back(Hex(key));
    EXPECT_EQ(snapshot.Values("mr", "lkey"), wanted);
    EXPECT_EQ(snapshot.Values("image", "problem"), Values{"-"});
    EXPECT_EQ(snapshot.Values("image", "image"), Values{"-"}) << "decoded";
    EXPECT_NE(snapshot.Values("image", "summary"), Values{"-"});
    EXPECT_NE(snapshot.Values("image", "qp.state"), Values{"-"});
  }

  OpenDevice device_;
  std::unique_ptr<Pair> pair_;
};

TEST_F(SnapshotTest, OfARefusedAccessItHasTheMemoryOfBothSides) {
  Make();
  // The peer finds the region, although the key was another one of it.
  Write(b().mr()->rkey ^ 1);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_ACCESS_ERR);
  ExpectSnapshot(a(), "URN1003", {a().mr()->lkey});
  ExpectSnapshot(b(), "URN1902", {b().mr()->lkey});
  const Snapshot snapshot(b().qp()->qp_num, "URN1902");
  EXPECT_EQ(snapshot.Values("mr", "iova"), Values{Hex(b().address())});
  EXPECT_EQ(snapshot.Values("mr", "mrlen"),
            Values{std::to_string(End::kBytes)});
  EXPECT_EQ(snapshot.Values("mr", "access"),
            Values{"local-write,remote-write,remote-read,remote-atomic"});
}

TEST_F(SnapshotTest, OfRegionsThatAreGoneItHasNothing) {
  Make();
  ibv_mr* const mr = ibv_reg_mr(b().pd(), b().memory(), 4096, kAllRights);
  const uint32_t key = mr->rkey;
  ASSERT_EQ(ibv_dereg_mr(mr), 0);
  Write(key);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_ACCESS_ERR);
  ExpectSnapshot(b(), "URN1902", {});
}

TEST_F(SnapshotTest, WithRequestsUnderWayAndBehind) {
  Make();
  EXPECT_EQ(b().PostRecv(1, {b().Sge(0, 100)}), 0);
  EXPECT_EQ(b().PostRecv(2, {b().Sge(0, 100)}), 0);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(a().PostSend({a().Sge(0, 3000)}), 0);  // the first is too long
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_INV_REQ_ERR);
  ExpectSnapshot(a(), "URN1004", {a().mr()->lkey});
  ExpectSnapshot(b(), "URN1006", {b().mr()->lkey});
  ExpectSnapshot(b(), "URN1903", {});
}

TEST_F(SnapshotTest, OfAPeerThatIsGone) {
  PairOptions options;
  options.timeout = 8;  // 1 ms
  options.retry_cnt = 1;
  Make(IBV_QPT_RC, options);
  b().DestroyQp();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(a().PostSend({a().Sge(0, 3000)}), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_RETRY_EXC_ERR);
  ExpectSnapshot(a(), "URN1001", {a().mr()->lkey});
}

TEST_F(SnapshotTest, OfListsWithAWrongKey) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    Make(type);
    // Another region, and a key that is none.
    ibv_mr* const mr = ibv_reg_mr(a().pd(), a().memory(), 4096, kAllRights);
    const ibv_sge other = {a().address(), 8, mr->lkey};
    ibv_sge wrong = a().Sge(0, 8);
    wrong.lkey = 0x77;
    EXPECT_EQ(a().PostSend({a().Sge(0, 8), other, other, wrong}), 0);
    EXPECT_EQ(a().Poll().status, IBV_WC_LOC_PROT_ERR);
    ExpectSnapshot(a(), "URN1008", {a().mr()->lkey, mr->lkey});
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    Make(type);
    wrong = b().Sge(0, 8);
    wrong.lkey ^= 1;
    EXPECT_EQ(b().PostRecv(1, {wrong}), 0);
    EXPECT_EQ(a().PostSend({a().Sge(0, 8)}), 0);
    EXPECT_EQ(b().Poll().status, IBV_WC_LOC_PROT_ERR);
    ExpectSnapshot(b(), "URN1008", {b().mr()->lkey});
  }
}

TEST_F(SnapshotTest, OfAWriteThatUcDrops) {
  Make(IBV_QPT_UC);
  Write(b().mr()->rkey ^ 1);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(b().Quiet());
  ExpectSnapshot(b(), "URN1010", {b().mr()->lkey});
}

TEST_F(SnapshotTest, OfAWindow) {
  Make();
  ibv_mr* const mr = ibv_reg_mr(b().pd(), b().memory(), 4096,
                                kAllRights | unsigned{IBV_ACCESS_MW_BIND});
  ibv_mw* const window = ibv_alloc_mw(b().pd(), IBV_MW_TYPE_1);
  ibv_mw_bind bind = {};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {mr, b().address(), 4096, IBV_ACCESS_REMOTE_READ};
  ASSERT_EQ(ibv_bind_mw(b().qp(), window, &bind), 0);
  EXPECT_EQ(b().Poll().status, IBV_WC_SUCCESS);
  Write(window->rkey);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_ACCESS_ERR);
  const Snapshot snapshot(b().qp()->qp_num, "URN1902");
  EXPECT_THAT(snapshot.Kinds(), Contains("mw"));
  EXPECT_EQ(snapshot.Values("mw", "rkey"), Values{Hex(window->rkey)});
  EXPECT_EQ(snapshot.Values("mw", "access"), Values{"remote-read"});
  EXPECT_EQ(snapshot.Values("mw", "region-key"), Values{Hex(mr->rkey)});
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

}  // namespace
}  // namespace urnic
