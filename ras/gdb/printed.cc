// A program with one value of each type that has a printer; see
// printers_test.py. Compiled with debug information.

#include "ras/errors/error_code.h"
#include "ras/marks/marked_slab.h"
#include "transport/base/psn.h"
#include "transport/base/time.h"
#include "transport/wire/address.h"

namespace urnic {

struct {
  Psn psn = Psn(0xfffff0);
  Duration timeout = Duration::Microseconds(67'500);
  Time never = Time::Infinite();
  wire::MacAddress mac = {{2, 0, 0, 0xab, 0xcd, 1}};
  wire::Gid ipv4 = wire::Gid::FromIpv6((const uint8_t[16]){
      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 0, 2});
  wire::Gid ipv6 = wire::Gid::FromIpv6(
      (const uint8_t[16]){0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
  ErrorCode code = ErrorCode::kRetriesExceeded;
  Marks marks = MarksOf("QP");
} printed;

// Where gdb stops.
[[gnu::noinline]] void Stop() { asm volatile("" ::"m"(printed)); }

}  // namespace urnic

int main() { urnic::Stop(); }
