#include "transport/work/timers.h"

#include <array>

namespace urnic {

Duration RnrTimer(uint8_t code) {
  //= IBTA 9.7.5.2.8: each code of the RNR NAK timer stands for a time between
  //= 10 us and 655.36 ms
  static constexpr std::array<uint32_t, 32> kTens = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return Duration::Microseconds(int64_t{10} * kTens[code & 0x1f]);
}

Duration AckTimeout(uint8_t code) {
  if ((code & 0x1f) == 0) return Duration();
  return Duration::Nanoseconds(int64_t{4096} << (code & 0x1f));
}

}  // namespace urnic
