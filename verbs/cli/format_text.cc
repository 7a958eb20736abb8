#include "verbs/cli/format_text.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace urnic {
namespace {

bool IsUnprintable(char c) { return c < ' ' || c > '~'; }

}  // namespace

std::string FormatText(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

std::string Printable(std::string text) {
  std::ranges::replace_if(text, IsUnprintable, '?');
  return text;
}

std::string PrintableLines(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c != '\n' && IsUnprintable(c); }, '?');
  return text;
}

}  // namespace urnic
