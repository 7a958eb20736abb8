#include "transport/cc/shared_path.h"

#include <gtest/gtest.h>

namespace urnic::cc {
namespace {

class SharedPathTest : public ::testing::Test {
 protected:
  SharedPathTest() { path_.cc.Start(64, 2000, 4096); }

  SharedPath path_;  // with a window of 16 packets at first
};

TEST_F(SharedPathTest, AllFlowsTogetherHaveOneWindow) {
  EXPECT_EQ(path_.Room(), 16u);
  path_.Account(0, 10);
  path_.Account(0, 4);
  EXPECT_EQ(path_.Room(), 2u);
  path_.Account(10, 30);  // what is sent again counts, too
  EXPECT_EQ(path_.Room(), 0u);
  path_.Account(30, 0);
  EXPECT_EQ(path_.Room(), 12u);
}

// Each may use as much of the port as it leaves for the others.
TEST_F(SharedPathTest, PathsShareThePort) {
  PortRoom port{.packets = 24};
  SharedPath other;
  other.cc.Start(64, 2000, 4096);
  path_.Use(&port);
  other.Use(&port);
  EXPECT_EQ(path_.Room(), 12u);
  path_.Account(0, 12);
  EXPECT_EQ(path_.Room(), 0u);
  EXPECT_EQ(other.Room(), 6u);
  other.Account(0, 6);
  EXPECT_EQ(other.Room(), 0u);
  EXPECT_EQ(port.under_way, 18u);
  path_.Account(12, 4);
  EXPECT_EQ(path_.Room(), 5u);
  // What leaves takes its part along.
  path_.Use(nullptr);
  EXPECT_EQ(port.under_way, 6u);
  EXPECT_EQ(path_.Room(), 12u) << "of the window";
  other.Account(6, 0);
  EXPECT_EQ(port.under_way, 0u);
}

// Nothing would tell it that the port has room again.
TEST_F(SharedPathTest, APathWithNothingUnderWayMaySendAPacket) {
  PortRoom port{.packets = 24, .under_way = 24};
  path_.Use(&port);
  EXPECT_EQ(path_.Room(), 1u);
  path_.waiting = 1;
  EXPECT_TRUE(path_.LetsGo());
  path_.Account(0, 1);
  EXPECT_EQ(path_.Room(), 0u);
  EXPECT_FALSE(path_.LetsGo());
}

// Most of what is under way on a long path is on the wire.
TEST_F(SharedPathTest, ALongPathUsesLittleOfThePort) {
  PortRoom port{.packets = 24};
  path_.Use(&port);
  path_.cc.OnRoundTrip(Time::FromNs(1), Duration::Milliseconds(1));
  path_.cc.cwnd = 1000 * DelayWindow::kPacket;
  EXPECT_EQ(path_.Room(), 12u * 16);
  path_.Account(0, 100);
  EXPECT_EQ(port.under_way, 6u);
  EXPECT_EQ(path_.Room(), 6u * 16);
}

TEST_F(SharedPathTest, LetsGoWhenAQuarterOfTheWindowIsFree) {
  path_.Account(0, 13);
  EXPECT_FALSE(path_.LetsGo()) << "nobody waits";
  path_.waiting = 2;
  EXPECT_FALSE(path_.LetsGo());
  path_.Account(13, 12);
  EXPECT_TRUE(path_.LetsGo());
  EXPECT_EQ(path_.NextGrant(), 4u);
  path_.Account(0, path_.NextGrant());
  EXPECT_FALSE(path_.LetsGo());
}

TEST_F(SharedPathTest, AGrantIsABurstAtMost) {
  path_.cc.cwnd = 1000 * DelayWindow::kPacket;
  path_.waiting = 1;
  EXPECT_TRUE(path_.LetsGo());
  EXPECT_EQ(path_.NextGrant(), SharedPath::kGrant);
}

TEST_F(SharedPathTest, AWindowOfOnePacketLetsOneGo) {
  path_.cc.cwnd = DelayWindow::kFloor;
  path_.waiting = 1;
  EXPECT_TRUE(path_.LetsGo());
  EXPECT_EQ(path_.NextGrant(), 1u);
}

TEST_F(SharedPathTest, OnlyANewPathLearnsFromAnother) {
  SharedPath other;
  other.cc.Start(8, 8, 4096);
  path_.Adopt(other);
  EXPECT_EQ(path_.cc.window(), 16u);
  SharedPath fresh;
  fresh.Account(0, 3);
  fresh.Adopt(path_);
  EXPECT_EQ(fresh.cc.window(), 16u);
  EXPECT_EQ(fresh.Room(), 13u);
}

TEST_F(SharedPathTest, APeerThatCannotHoldTheWindowMakesItSmaller) {
  path_.cc.Start(/*quiet_packets=*/64, /*most_packets=*/2000, 4096);
  path_.cc.cwnd = path_.cc.limit = 2000 * DelayWindow::kPacket;
  // Of a flow of many, so it says nothing.
  path_.OnHeld(30);
  path_.OnNotHeld();
  EXPECT_EQ(path_.cc.window(), 2000u);
  path_.OnHeld(800);
  path_.OnHeld(500);
  path_.OnNotHeld();
  EXPECT_EQ(path_.cc.window(), 800u);
  EXPECT_EQ(path_.cc.most, 800 * DelayWindow::kPacket);
  // A queue pair that joins does not know better.
  path_.cc.Widen(64, 2000, 4096);
  EXPECT_EQ(path_.cc.most, 800 * DelayWindow::kPacket);
  // A later one counts by itself.
  path_.OnNotHeld();
  path_.OnHeld(100);
  path_.OnNotHeld();
  EXPECT_EQ(path_.cc.window(), 100u);
}

}  // namespace
}  // namespace urnic::cc
