#include "datapath/engine/path_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/fake_host.h"
#include "tests/support/fake_rings.h"
#include "transport/rc/recovery.h"

namespace urnic {
namespace {

using ::testing::ElementsAre;
using testing::FakeHost;
using testing::FakeRings;

class PathTableTest : public ::testing::Test {
 protected:
  PathTableTest() {
    for (uint32_t i = 0; i < 4; ++i) qps_.push_back(Make(i));
  }
  ~PathTableTest() override {
    for (const auto& qp : qps_) (void)table_.Leave(*qp);
  }

  QpPtr<RoceQp> Make(uint32_t number) {
    EngineQpConfig config;
    config.limits.qpn = number;
    config.sq = rings_.sq().view();
    config.rq = rings_.rq().view();
    QpPtr<RoceQp> qp = RoceQp::Create(config, &host_.mrs(), &pool_);
    qp->path.local = wire::Gid::FromIpv4(0x0a000001);
    qp->path.remote = wire::Gid::FromIpv4(0x0a000002);
    return qp;
  }
  // All join one destination with a window of 16 packets.
  void JoinAll() {
    for (const auto& qp : qps_) table_.Join(*qp);
    path().cc.Start(16, 16, 4096);
  }
  cc::SharedPath& path() { return qps_[0]->destination->path; }
  void Wait(size_t i, PathWait how = PathWait::kInTurn) {
    PathTable::Wait(*qps_[i], how);
  }
  // The numbers of the queue pairs that may continue, in order.
  std::vector<uint32_t> LetGo() {
    PathTable::LetGo(*qps_[0]->destination, ready_);
    std::vector<uint32_t> numbers;
    while (!ready_.empty()) {
      numbers.push_back(static_cast<RoceQp&>(ready_.Pop()).qpn());
    }
    return numbers;
  }

  RoceCounters counters_;
  rc::RecoveryPool pool_{rc::kNoRecovery, nullptr, &counters_};
  FakeHost host_{64};
  FakeRings rings_{16, 1, 0, 16, 1};
  PathTable table_;
  ReadyList<Flow> ready_;
  std::vector<QpPtr<RoceQp>> qps_;
};

TEST_F(PathTableTest, QueuePairsToOneAddressShareAWindow) {
  qps_[3]->path.remote = wire::Gid::FromIpv4(0x0a000003);
  JoinAll();
  EXPECT_EQ(qps_[0]->destination, qps_[1]->destination);
  EXPECT_NE(qps_[0]->destination, qps_[3]->destination);
  EXPECT_EQ(path().users, 3u);
  EXPECT_TRUE(PathTable::Follows(*qps_[3]));
  qps_[3]->path.remote = qps_[0]->path.remote;
  EXPECT_FALSE(PathTable::Follows(*qps_[3]));
}

TEST_F(PathTableTest, ThoseThatWaitAreLetGoInTurnAsFarAsThereIsRoom) {
  JoinAll();
  path().Account(0, 10);
  for (size_t i = 0; i < 4; ++i) Wait(i);
  Wait(2);  // it keeps its place
  EXPECT_EQ(path().waiting, 4u);
  // All the room is granted to the first.
  EXPECT_THAT(LetGo(), ElementsAre(0));
  EXPECT_EQ(path().under_way, 16u);
  EXPECT_THAT(LetGo(), ElementsAre());
  path().Account(10, 6);
  EXPECT_THAT(LetGo(), ElementsAre(1));
  path().Account(6, 0);
  EXPECT_THAT(LetGo(), ElementsAre(2));
  EXPECT_EQ(path().waiting, 1u);
}

TEST_F(PathTableTest, EveryOtherOneHadLittleToSend) {
  JoinAll();
  Wait(0);
  Wait(1);
  Wait(2, PathWait::kFirst);
  Wait(3, PathWait::kFirst);
  std::vector<uint32_t> order;
  for (int i = 0; i < 4; ++i) {
    for (const uint32_t number : LetGo()) {
      order.push_back(number);
      qps_[number]->JoinPath(&path());  // returns its grant
    }
  }
  EXPECT_THAT(order, ElementsAre(2, 0, 3, 1));
}

TEST_F(PathTableTest, WhoLeavesGivesBackItsGrantAndItsPlace) {
  JoinAll();
  Wait(0);
  Wait(1);
  Wait(2);
  EXPECT_THAT(LetGo(), ElementsAre(0));
  EXPECT_EQ(table_.Leave(*qps_[1]), qps_[0]->destination);
  Destination* const destination = table_.Leave(*qps_[0]);
  ASSERT_NE(destination, nullptr);
  PathTable::LetGo(*destination, ready_);
  EXPECT_EQ(&ready_.Pop(), qps_[2].get());
  EXPECT_EQ(table_.Leave(*qps_[2]), destination);
  EXPECT_EQ(table_.Leave(*qps_[3]), nullptr) << "it was the last";
  EXPECT_EQ(table_.Leave(*qps_[3]), nullptr) << "it had left";
}

TEST_F(PathTableTest, DestinationsShareThePort) {
  table_.SetPortRoom(12);
  qps_[1]->path.remote = wire::Gid::FromIpv4(0x0a000003);
  JoinAll();
  cc::SharedPath& other = qps_[1]->destination->path;
  other.cc.Start(16, 16, 4096);
  path().Account(0, 6);
  EXPECT_EQ(path().Room(), 0u);
  EXPECT_EQ(other.Room(), 3u);
  (void)table_.Leave(*qps_[1]);
  path().Account(6, 0);
  EXPECT_EQ(path().Room(), 6u);
}

}  // namespace
}  // namespace urnic
