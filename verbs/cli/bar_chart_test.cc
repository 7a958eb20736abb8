#include "verbs/cli/bar_chart.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace urnic {
namespace {

const BarChart kChart = {
    .title = "us, shorter is better",
    .bars = {{"two hosts", "uRNIC", 20, "20.0", true},
             {"two hosts", "TCP", 10, "10.0", false},
             {"shared memory", "uRNIC", 0.01, "0.01", true},
             {"shared memory", "TCP", 4, "4.00", false}}};

TEST(BarChartTest, DrawsEachGroupToItsOwnScaleInPlainAscii) {
  // 40 columns, of which 27 are text.
  EXPECT_EQ(DrawChart(kChart, {.columns = 40}),
            "us, shorter is better\n"
            "  two hosts     uRNIC ############# 20.0\n"
            "                TCP   ####### 10.0\n"
            "  shared memory uRNIC # 0.01\n"
            "                TCP   ############# 4.00\n");
}

TEST(BarChartTest, BlocksDrawEighthsOfAColumn) {
  const BarChart chart = {
      .title = "t",
      .bars = {{"g", "a", 32, "32"}, {"g", "b", 17, "17"}, {"g", "c", 0, "0"}}};
  // 31 columns for the longest bar: 248 eighths, and 131.75 for the second.
  std::string sixteen;
  for (int i = 0; i < 16; ++i) sixteen += "█";
  std::string full = sixteen;
  for (int i = 16; i < 31; ++i) full += "█";
  EXPECT_EQ(DrawChart(chart, {.columns = 40, .blocks = true}),
            "t\n  g a " + full + " 32\n    b " + sixteen + "▌ 17\n    c  0\n");
}

TEST(BarChartTest, OnlyHighlightedBarsAreColored) {
  const std::string text = DrawChart(kChart, {.columns = 40, .color = true});
  EXPECT_NE(text.find("uRNIC \033[36m#############\033[0m 20.0"),
            std::string::npos);
  EXPECT_NE(text.find("TCP   ####### 10.0"), std::string::npos);
}

TEST(BarChartTest, FollowsTheWidthWithinLimits) {
  const auto longest = [](size_t columns) {
    size_t most = 0;
    const std::string text = DrawChart(kChart, {.columns = columns});
    for (size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
      end = text.find('\n', at);
      most = std::max(most, std::min(end, text.size()) - at);
    }
    return most;
  };
  EXPECT_EQ(longest(64), 64U);
  EXPECT_EQ(longest(3), 40U);
  EXPECT_EQ(longest(1000), 100U);
}

TEST(BarChartTest, AFileGetsPlainAscii) {
  const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const ChartStyle style = StyleOf(fd);
  close(fd);
  EXPECT_EQ(style.columns, 80U);
  EXPECT_FALSE(style.blocks);
  EXPECT_FALSE(style.color);
}

TEST(BarChartTest, TheTerminalGivesTheWidthAndTheLocaleTheCharacters) {
  int ours = -1;
  int terminal = -1;
  const winsize size = {
      .ws_row = 24, .ws_col = 57, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(openpty(&ours, &terminal, nullptr, nullptr, &size), 0);
  setenv("TERM", "xterm", 1);
  setenv("LC_ALL", "C.UTF-8", 1);
  unsetenv("NO_COLOR");
  ChartStyle style = StyleOf(terminal);
  EXPECT_EQ(style.columns, 57U);
  EXPECT_TRUE(style.blocks);
  EXPECT_TRUE(style.color);
  setenv("LC_ALL", "C", 1);
  setenv("NO_COLOR", "1", 1);
  style = StyleOf(terminal);
  EXPECT_FALSE(style.blocks);
  EXPECT_FALSE(style.color);
  setenv("LC_ALL", "C.UTF-8", 1);
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(StyleOf(terminal).blocks);
  close(ours);
  close(terminal);
}

}  // namespace
}  // namespace urnic
