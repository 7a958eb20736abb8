// Runs iwarp_image_fuzz.cc with random inputs. Images are so structured that
// these reach most of the code without a fuzzer.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main() {
  constexpr uint64_t kInputs = 3000;
  for (uint64_t seed = 1; seed <= kInputs; ++seed) {
    urnic::testing::Random random(seed);
    std::vector<uint8_t> input(400);
    for (uint8_t& byte : input) byte = random.Byte();
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  return 0;
}
