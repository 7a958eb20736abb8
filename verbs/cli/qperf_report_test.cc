#include "verbs/cli/qperf_report.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

// As qperf 0.4.11 prints it.
constexpr char kOutput[] = R"(tcp_lat:
    latency   =    6818 ns
    msg_rate  =  146672 /sec
tcp_bw:
    bw        =  7575240 bytes/sec
    msg_rate  =   946905 /sec
tcp_bw:
    bw        =  2418475008 bytes/sec
    msg_rate  =       36903 /sec
)";

TEST(QperfReportTest, TakesEachFigureFromItsTest) {
  const auto report = ReadTcpReport(kOutput);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_DOUBLE_EQ(report->latency_us, 6.818);
  EXPECT_DOUBLE_EQ(report->million_messages_per_second, 0.946905);
  EXPECT_DOUBLE_EQ(report->gigabits_per_second, 19.347800064);
}

TEST(QperfReportTest, ReportsTheOutputIfAFigureIsMissing) {
  const auto report = ReadTcpReport("tcp_lat:\n    latency  =  6818 ns\n");
  EXPECT_TRUE(absl::IsNotFound(report.status()));
  EXPECT_NE(report.status().message().find("6818"), absl::string_view::npos);
}

}  // namespace
}  // namespace urnic
