#include "verbs/cli/bar_chart.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace urnic {
namespace {

constexpr size_t kColumnsMin = 40;
constexpr size_t kColumnsMax = 100;  // longer bars show no more
constexpr size_t kBarMin = 8;
constexpr char kHighlight[] = "\033[36m";  // cyan: reads on black and on white
constexpr char kPlain[] = "\033[0m";
// One to eight eighths of a column.
constexpr const char* kBlocks[] = {"▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
constexpr size_t kEighths = 8;

std::string Padded(const std::string& text, size_t columns) {
  return text + std::string(columns - std::min(columns, text.size()), ' ');
}

// A bar of `share` of `columns`.
std::string Draw(double share, size_t columns, bool blocks) {
  const size_t parts = blocks ? kEighths : 1;
  auto length = static_cast<size_t>(std::lround(
      share * static_cast<double>(columns) * static_cast<double>(parts)));
  if (share > 0) length = std::max<size_t>(length, 1);
  if (!blocks) return std::string(length, '#');
  std::string bar;
  for (; length >= kEighths; length -= kEighths) bar += kBlocks[kEighths - 1];
  if (length > 0) bar += kBlocks[length - 1];
  return bar;
}

double LongestOf(const BarChart& chart, const std::string& group) {
  double longest = 0;
  for (const Bar& bar : chart.bars)
    if (bar.group == group) longest = std::max(longest, bar.value);
  return longest;
}

}  // namespace

ChartStyle StyleOf(int fd) {
  ChartStyle style;
  if (isatty(fd) != 1) return style;
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    style.columns = size.ws_col;
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::strcmp(term, "dumb") == 0;
  const char* no_color = std::getenv("NO_COLOR");
  style.color = !dumb && (no_color == nullptr || *no_color == '\0');
  std::setlocale(LC_CTYPE, "");
  style.blocks = !dumb && std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  return style;
}

std::string DrawChart(const BarChart& chart, const ChartStyle& style) {
  size_t group_columns = 0, label_columns = 0, text_columns = 0;
  for (const Bar& bar : chart.bars) {
    group_columns = std::max(group_columns, bar.group.size());
    label_columns = std::max(label_columns, bar.label.size());
    text_columns = std::max(text_columns, bar.text.size());
  }
  // Two columns before the group, and one after each part.
  const size_t others =
      2 + group_columns + 1 + label_columns + 1 + 1 + text_columns;
  const size_t columns = std::clamp(style.columns, kColumnsMin, kColumnsMax);
  const size_t bar_columns = std::max(columns, others + kBarMin) - others;
  std::string lines = chart.title + "\n";
  const std::string* group = nullptr;
  for (const Bar& bar : chart.bars) {
    const bool again = group != nullptr && *group == bar.group;
    group = &bar.group;
    const double longest = LongestOf(chart, bar.group);
    const bool color = style.color && bar.highlight;
    absl::StrAppend(&lines, "  ", Padded(again ? "" : bar.group, group_columns),
                    " ", Padded(bar.label, label_columns), " ",
                    color ? kHighlight : "");
    absl::StrAppend(
        &lines,
        Draw(longest > 0 ? bar.value / longest : 0, bar_columns, style.blocks),
        color ? kPlain : "", " ", bar.text, "\n");
  }
  return lines;
}

}  // namespace urnic
