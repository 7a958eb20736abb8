#pragma once

// Bars of text for a terminal.

#include <cstddef>
#include <string>
#include <vector>

namespace urnic {

struct Bar {
  std::string group;  // printed where it differs from the bar above
  std::string label;
  double value = 0;  // the length
  std::string text;  // the value, as it is printed behind the bar
  bool highlight = false;
};

// Bars beneath a line of text. Bars of one group have one scale: the longest
// fills the width.
struct BarChart {
  std::string title;
  std::vector<Bar> bars;
};

struct ChartStyle {
  size_t columns = 80;
  bool blocks = false;  // Unicode's, an eighth of a column fine; else '#'
  bool color = false;   // for highlighted bars
};

// What suits `fd` now: the width of the terminal; blocks where the locale's
// characters are UTF-8; color unless NO_COLOR is set (no-color.org) or TERM is
// "dumb". For all but terminals: 80 columns of plain ASCII. Reads the locale
// from the environment (setlocale), so: the main thread only.
ChartStyle StyleOf(int fd);

// The lines, each ended by a newline. No line is longer than the style's
// columns, while these are 40 or more and labels and texts short. A value that
// is not 0 has a bar that one can see.
std::string DrawChart(const BarChart& chart, const ChartStyle& style);

}  // namespace urnic
