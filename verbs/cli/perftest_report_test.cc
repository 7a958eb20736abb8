#include "verbs/cli/perftest_report.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

// As perftest 4.5 prints them.
constexpr char kBandwidth[] = R"(
 local address: LID 0000 QPN 0x0011 PSN 0x2b7e51
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:01:00:02
-------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             21.50              20.25              0.038624
-------------------------------------------------------------------------
)";
constexpr char kLatency[] =
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]"
    "    t_avg[usec]    t_stdev[usec]   99% percentile[usec] \n"
    " 8       1000          1.11           9.99         1.25     \t       "
    "1.30        \t0.22   \t\t2.00    \t\t9.00\n";

TEST(PerftestReportTest, ReadsTheAverageBandwidthAndTheMessageRate) {
  const auto report = ReadBandwidth(kBandwidth);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_DOUBLE_EQ(report->gigabits_per_second, 20.25);
  EXPECT_DOUBLE_EQ(report->million_messages_per_second, 0.038624);
}

TEST(PerftestReportTest, ReadsTheTypicalLatency) {
  const auto latency = ReadLatency(kLatency);
  ASSERT_TRUE(latency.ok()) << latency.status();
  EXPECT_DOUBLE_EQ(*latency, 1.25);
}

TEST(PerftestReportTest, ToleratesADeviationThatIsNotANumber) {
  const auto latency = ReadLatency(
      " 8       500          19.70          65149.28      141.57   \t       "
      "983.78      \t-nan   \t\t13155.31 \t\t65149.28\n");
  ASSERT_TRUE(latency.ok()) << latency.status();
  EXPECT_DOUBLE_EQ(*latency, 141.57);
}

TEST(PerftestReportTest, ReportsTheOutputIfThereIsNoResult) {
  const auto report = ReadBandwidth("Couldn't connect to 10.77.0.1:18515\n");
  EXPECT_TRUE(absl::IsNotFound(report.status()));
  EXPECT_NE(report.status().message().find("Couldn't connect"),
            absl::string_view::npos);
  EXPECT_FALSE(ReadLatency("").ok());
}

}  // namespace
}  // namespace urnic
