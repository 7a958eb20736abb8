// Any packets, work requests and state changes: tests/fuzz/unreliable_fuzzer.h.

#include "tests/fuzz/unreliable_fuzzer.h"
#include "transport/uc/qp.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using urnic::testing::Input;
  urnic::testing::UnreliableFuzzer<urnic::uc::Qp, /*kDatagrams=*/false>(
      Input(data, size))
      .Run();
  return 0;
}
