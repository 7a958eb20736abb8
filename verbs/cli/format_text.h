#pragma once

// printf into a string.

#include <string>

namespace urnic {

// At most 255 characters; the rest is cut off.
[[gnu::format(printf, 1, 2)]] std::string FormatText(const char* format, ...);

}  // namespace urnic
