// The sizes of a queue pair and its parts, as compiled: one line "NAME BYTES"
// for each. Without rings, whose depth the program chooses.

#include <cstdio>

#include "datapath/engine/address_table.h"
#include "datapath/engine/qp_of.h"
#include "transport/mem/mr_table.h"

int main() {
  const auto print = [](const char* name, size_t bytes) {
    std::printf("%s %zu\n", name, bytes);
  };
  print("RcQp", sizeof(urnic::RcQp));
  print("UcQp", sizeof(urnic::UcQp));
  print("UdQp", sizeof(urnic::UdQp));
  print("rc::Qp", sizeof(urnic::rc::Qp));
  print("uc::Qp", sizeof(urnic::uc::Qp));
  print("ud::Qp", sizeof(urnic::ud::Qp));
  print("Path", sizeof(urnic::RocePath));
  print("MemoryRegion", sizeof(urnic::mem::MemoryRegion));
  return 0;
}
