// main() for tests of the provider inside the distribution's libibverbs: starts
// the test again with the preload, our plugin and one loopback port; or, with
// --ring, with two ports connected by a ring; or, with --both, with a loopback
// port that has a RoCE and an iWARP device.

#include <gtest/gtest.h>
#include <limits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string Find(const char* file) {
  char path[PATH_MAX];
  if (realpath(file, path) == nullptr) {
    std::perror(file);
    std::exit(1);
  }
  return path;
}

constexpr char kLoop[] = "loop|10.9.0.1/24|fd09::1/64";
constexpr char kBoth[] = "loop|10.9.0.1/24|10.9.0.2/24,iwarp";
constexpr char kRing[] = "ring:t:a|10.9.0.1/24;ring:t:b|10.9.0.2/24";

void ReexecAsVerbsProgram(int argc, char** argv) {
  const std::string plugin = Find("verbs/provider/liburnic-rdmav34.so");
  // libibverbs appends the suffix itself.
  const std::string drivers = plugin.substr(0, plugin.rfind("-rdmav34.so"));
  // Sanitizer run-times want to be the first library; they work as the second.
  const char* options = std::getenv("ASAN_OPTIONS");
  const std::string with_order =
      std::string(options ? options : "") + ":verify_asan_link_order=0";
  setenv("ASAN_OPTIONS", with_order.c_str(), 1);
  setenv("LD_PRELOAD", Find("verbs/preload/liburnic-preload.so").c_str(), 1);
  setenv("IBV_DRIVERS", drivers.c_str(), 1);
  setenv("XDG_RUNTIME_DIR", testing::TempDir().c_str(), 1);
  const std::string kind = argc > 1 ? argv[1] : "";
  const char* const ports = kind == "--ring"   ? kRing
                            : kind == "--both" ? kBoth
                                               : kLoop;
  setenv("URNIC_PORTS", ports, 1);
  execv("/proc/self/exe", argv);
  std::perror("execv");
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const char* preload = std::getenv("LD_PRELOAD");
  if (preload == nullptr || std::strstr(preload, "liburnic-preload") == nullptr)
    ReexecAsVerbsProgram(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
