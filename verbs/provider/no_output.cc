// The program's standard output is the program's. DPDK's drivers print there:
// its list of options, say, where it does not like one. The linker sends those
// calls here (--wrap in BUILD.bazel), and they go where the log goes.

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "datapath/guest/debug_file.h"

namespace urnic::provider {
namespace {

int Print(const char* format, va_list arguments) {
  // A log that is not wanted takes everything.
  return DebugFd() < 0 ? 0 : vdprintf(DebugFd(), format, arguments);
}

}  // namespace

extern "C" {

int __wrap_printf(const char* format, ...);
int __wrap_printf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int printed = Print(format, arguments);
  va_end(arguments);
  return printed;
}

// The fortified one.
int __wrap___printf_chk(int flag, const char* format, ...);
int __wrap___printf_chk(int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int printed = Print(format, arguments);
  va_end(arguments);
  return printed;
}

int __wrap_puts(const char* text);
int __wrap_puts(const char* text) {
  return DebugFd() < 0 ? 0 : dprintf(DebugFd(), "%s\n", text);
}

int __wrap_putchar(int character);
int __wrap_putchar(int character) {
  return DebugFd() < 0 ? character : dprintf(DebugFd(), "%c", character);
}

}  // extern "C"

}  // namespace urnic::provider
