#pragma once

// Text for people.

#include <string>

namespace urnic {

// printf into a string. At most 255 characters; the rest is cut off.
[[gnu::format(printf, 1, 2)]] std::string FormatText(const char* format, ...);

// With '?' for all that could control a terminal. Files of others may have
// anything in them.
std::string Printable(std::string text);
// The same, of several lines.
std::string PrintableLines(std::string text);

}  // namespace urnic
