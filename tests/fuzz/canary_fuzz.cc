// A fuzz target with a deliberate bug. A fuzzer that does not find it, or a
// replay that passes on the input that triggers it, does not work.

#include <cstddef>
#include <cstdint>

#include "transport/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint8_t kSong[] = {'u', 'r', 'n', 'i', 'c'};
  size_t heard = 0;
  while (heard < size && heard < sizeof(kSong) && data[heard] == kSong[heard]) {
    ++heard;
  }
  URNIC_CHECK(heard < sizeof(kSong));
  return 0;
}
