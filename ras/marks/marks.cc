#include "ras/marks/marked_slab.h"

namespace urnic {

std::string MarkText(uint64_t mark) {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    const auto c = static_cast<char>(mark >> (8 * i));
    text += c >= ' ' && c <= '~' ? c : '.';
  }
  return text;
}

}  // namespace urnic
