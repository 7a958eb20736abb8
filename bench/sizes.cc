// What a queue pair and what it stands on occupy, by the compiler: a line
// "NAME BYTES" each. Without rings, which are as deep as the program asks.

#include <cstdio>

#include "datapath/engine/address_table.h"
#include "datapath/engine/engine_qp.h"
#include "transport/mem/mr_table.h"
#include "transport/rc/qp.h"
#include "transport/uc/qp.h"
#include "transport/ud/qp.h"

int main() {
  const auto print = [](const char* name, size_t bytes) {
    std::printf("%s %zu\n", name, bytes);
  };
  print("EngineQp", sizeof(urnic::EngineQp));
  print("rc::Qp", sizeof(urnic::rc::Qp));
  print("uc::Qp", sizeof(urnic::uc::Qp));
  print("ud::Qp", sizeof(urnic::ud::Qp));
  print("Path", sizeof(urnic::RocePath));
  print("MemoryRegion", sizeof(urnic::mem::MemoryRegion));
  return 0;
}
