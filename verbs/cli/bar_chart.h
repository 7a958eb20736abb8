#pragma once

// Bars of text for a terminal.

#include <cstddef>
#include <string>
#include <vector>

namespace urnic {

struct Bar {
  std::string group;  // printed if it differs from the bar above
  std::string label;
  double value = 0;  // the length
  std::string text;  // the value, as it is printed after the bar
  bool highlight = false;
};

// Bars below a line of text. The bars of a group share a scale: the longest
// fills the width.
struct BarChart {
  std::string title;
  std::vector<Bar> bars;
};

struct ChartStyle {
  size_t columns = 80;
  bool blocks = false;  // Unicode's, in eighths of a column; otherwise '#'
  bool color = false;   // for highlighted bars
};

// The style for `fd`: the width of the terminal; blocks if the locale's
// characters are UTF-8; color unless NO_COLOR is set (no-color.org) or TERM is
// "dumb". If it is not a terminal: 80 columns of plain ASCII. Main thread only,
// because it reads the locale from the environment (setlocale).
ChartStyle StyleOf(int fd);

// The lines, each ended by a newline. No line is longer than the style's
// columns if these are 40 or more and labels and texts are short. A value other
// than 0 has a visible bar.
std::string DrawChart(const BarChart& chart, const ChartStyle& style);

}  // namespace urnic
