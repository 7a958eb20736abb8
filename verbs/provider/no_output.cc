// Standard output belongs to the program. DPDK's drivers print to it, for
// example their list of options when one is invalid. The linker sends those
// calls here (--wrap in BUILD.bazel), and the text goes to the log.

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "datapath/guest/debug_file.h"

namespace urnic::provider {
namespace {

int Print(const char* format, va_list arguments) {
  // Without a log, the text is dropped.
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

// What printf() becomes with _FORTIFY_SOURCE.
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
