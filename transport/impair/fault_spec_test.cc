#include "transport/impair/fault_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace urnic::impair {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(FaultSpecTest, EveryKeyIsRead) {
  const auto spec = ParseFaultSpec(
      "loss=0.1%,burst=1%:20%:90%,delay=1ms,jitter=200us,reorder=1%,"
      "duplicate=0.5%:3ns,corrupt=0.0001%,rate=2.5Gbit,buffer=256KB,"
      "red=20KB:60KB:50%,stall=5s:200ms:6s,die=10s,direction=out,seed=7");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const Config& c = spec->config;
  EXPECT_EQ(c.loss_ppm, 1000u);
  EXPECT_EQ(c.bursts.enter_ppm, 10'000u);
  EXPECT_EQ(c.bursts.leave_ppm, 200'000u);
  EXPECT_EQ(c.bursts.loss_ppm, 900'000u);
  EXPECT_EQ(c.delay, Duration::Milliseconds(1));
  EXPECT_EQ(c.jitter, Duration::Microseconds(200));
  EXPECT_FALSE(c.jitter_reorders);
  EXPECT_EQ(c.reorder_ppm, 10'000u);
  EXPECT_EQ(c.reorder_by, Duration::Milliseconds(10)) << "ten delays";
  EXPECT_EQ(c.duplicate_ppm, 5000u);
  EXPECT_EQ(c.duplicate_by, Duration::Nanoseconds(3));
  EXPECT_EQ(c.corrupt_ppm, 1u);
  EXPECT_EQ(c.bits_per_second, 2'500'000'000u);
  EXPECT_EQ(c.buffer_bytes, 256u * 1024);
  EXPECT_EQ(c.red.min_bytes, 20u * 1024);
  EXPECT_EQ(c.red.max_bytes, 60u * 1024);
  EXPECT_EQ(c.red.max_ppm, 500'000u);
  EXPECT_EQ(c.stall.after, Duration::Seconds(5));
  EXPECT_EQ(c.stall.length, Duration::Milliseconds(200));
  EXPECT_EQ(c.stall.every, Duration::Seconds(6));
  EXPECT_EQ(c.die_after, Duration::Seconds(10));
  EXPECT_EQ(spec->direction, Direction::kOut);
  EXPECT_EQ(spec->seed, 7u);
}

TEST(FaultSpecTest, FaultsOfTheDevice) {
  const auto spec = ParseFaultSpec(
      "down=1s:2s:10s,remove=3s:4s,freeze=5s:6ms,stuck=7s:8s,reset=9s:20s");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const DeviceFaults& d = spec->device;
  EXPECT_EQ(d.down.after, Duration::Seconds(1));
  EXPECT_EQ(d.down.length, Duration::Seconds(2));
  EXPECT_EQ(d.down.every, Duration::Seconds(10));
  EXPECT_EQ(d.removed.length, Duration::Seconds(4));
  EXPECT_EQ(d.frozen.length, Duration::Milliseconds(6));
  EXPECT_EQ(d.stuck.after, Duration::Seconds(7));
  EXPECT_EQ(d.reset.after, Duration::Seconds(9));
  EXPECT_EQ(d.reset.every, Duration::Seconds(20));
}

TEST(FaultSpecTest, OmittedValuesHaveTheirDefaults) {
  const auto spec = ParseFaultSpec("reorder=1%");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->direction, Direction::kBoth);
  EXPECT_EQ(spec->seed, 1u);
  EXPECT_EQ(spec->config.reorder_by, Duration::Microseconds(100));
  EXPECT_EQ(ParseFaultSpec("rate=1Gbit")->config.buffer_bytes, 256u * 1024);
  EXPECT_EQ(ParseFaultSpec("burst=1%:50%")->config.bursts.loss_ppm, kAll);
  EXPECT_EQ(ParseFaultSpec("red=1KB:2KB,rate=1Gbit")->config.red.max_ppm, kAll);
}

TEST(FaultSpecTest, UnitsIgnoreCaseAndNumbersMayHaveAFraction) {
  EXPECT_EQ(ParseFaultSpec("rate=1.5GBIT")->config.bits_per_second,
            1'500'000'000u);
  EXPECT_EQ(ParseFaultSpec("rate=64kBit,buffer=0.5mb")->config.buffer_bytes,
            512u * 1024);
  EXPECT_EQ(ParseFaultSpec("delay=0.5us")->config.delay,
            Duration::Nanoseconds(500));
  EXPECT_TRUE(ParseFaultSpec("jitter=1ms:reorder")->config.jitter_reorders);
  EXPECT_EQ(ParseFaultSpec("seed=18446744073709551615")->seed, UINT64_MAX);
}

TEST(FaultSpecTest, MistakesNameTheItemAndWhatItMayBe) {
  const struct {
    const char* text;
    const char* form;
  } cases[] = {
      {"loss=101%", "loss=P, a share of 0% to 100%"},
      {"loss=0.00001%", "steps of 0.0001%"},
      {"loss=5", "loss=P"},
      {"loss=-1%", "loss=P"},
      {"loss=%", "loss=P"},
      {"loss=.5%", "loss=P"},
      {"loss=5.%", "loss=P"},
      {"loss=1.2.3%", "loss=P"},
      {"loss=0000000001%", "loss=P"},
      {"loss=1%:2%", "loss=P"},
      {"loss", "loss=, burst="},
      {"speed=9", "loss=, burst="},
      {"", "loss=, burst="},
      {"loss=1%,", "loss=, burst="},
      {"loss=1%,loss=2%", "loss=P"},
      {"burst=1%", "ENTER:LEAVE"},
      {"burst=1%:0%", "LEAVE above 0%"},
      {"delay=11s", "0s to 10s"},
      {"delay=0.5ns", "delay=T"},
      {"delay=1", "delay=T"},
      {"jitter=1ms:odd", "jitter=T:reorder"},
      {"reorder=1%:0s", "T of 1ns to 10s"},
      {"rate=9kbit", "10kbit to 1000Gbit"},
      {"rate=1001Gbit", "10kbit to 1000Gbit"},
      {"rate=1Gbit,buffer=9KB", "10KB to 1024MB"},
      {"rate=1Gbit,buffer=1025MB", "10KB to 1024MB"},
      {"rate=1Gbit,red=60KB:20KB", "MIN below MAX"},
      {"rate=1Gbit,red=20KB:300KB", "larger buffer="},
      {"buffer=256KB", "rate="},
      {"red=20KB:60KB", "rate="},
      {"stall=5s", "AFTER:LENGTH"},
      {"stall=5s:0s", "LENGTH above 0s"},
      {"stall=5s:2s:2s", "below EVERY"},
      {"stall=5s:2s:3s:4s", "AFTER:LENGTH"},
      {"die=0s", "die=T of 1ns"},
      {"down=1s", "AFTER:LENGTH"},
      {"remove=1s:2s:1s", "below EVERY"},
      {"freeze=1s:0s", "LENGTH above 0s"},
      {"stuck=x:1s", "AFTER:LENGTH"},
      {"reset=0s", "AFTER above 0s"},
      {"reset=1s:1us", "EVERY of 1ms"},
      {"die=86401s", "86400s"},
      {"direction=up", "both, out or in"},
      {"seed=18446744073709551616", "18446744073709551615"},
      {"seed=", "seed=N"},
      {"seed=1x", "seed=N"},
  };
  for (const auto& c : cases) {
    const auto spec = ParseFaultSpec(c.text);
    ASSERT_FALSE(spec.ok()) << c.text;
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(spec.status().message()),
                AllOf(HasSubstr("fault: "), HasSubstr(c.form)))
        << c.text;
  }
  EXPECT_THAT(
      std::string(ParseFaultSpec("delay=1ms,loss=101%").status().message()),
      HasSubstr("fault: \"loss=101%\" is wrong or out of range; write loss=P"));
}

}  // namespace
}  // namespace urnic::impair
