// main() for tests that need the preload in their own process. It executes the
// test again with LD_PRELOAD set.

#include <gtest/gtest.h>
#include <limits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr char kLibrary[] = "verbs/preload/liburnic-preload.so";

void ReexecWithPreload(char** argv) {
  char path[PATH_MAX];
  if (realpath(kLibrary, path) == nullptr) {
    std::perror(kLibrary);
    std::exit(1);
  }
  // Sanitizer run-times insist on being the first library, but work as the
  // second.
  const char* options = std::getenv("ASAN_OPTIONS");
  const std::string with_order =
      std::string(options ? options : "") + ":verify_asan_link_order=0";
  setenv("ASAN_OPTIONS", with_order.c_str(), 1);
  setenv("LD_PRELOAD", path, 1);
  // Children that end in _exit leave their directory for a sweep to find.
  setenv("XDG_RUNTIME_DIR", testing::TempDir().c_str(), 1);
  setenv("URNIC_PORTS", "loop|10.0.0.1/24;loop|10.0.0.2/24", 1);
  execv("/proc/self/exe", argv);
  std::perror("execv");
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const char* preload = std::getenv("LD_PRELOAD");
  if (preload == nullptr || std::strstr(preload, "liburnic-preload") == nullptr)
    ReexecWithPreload(argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
