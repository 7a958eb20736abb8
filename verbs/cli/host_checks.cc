#include <dlfcn.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "verbs/cli/checks.h"
#include "verbs/cli/install_paths.h"
#include "verbs/cli/leftovers.h"
#include "verbs/cli/verbs_library.h"

namespace urnic {
namespace {

bool InPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (absl::string_view dir : absl::StrSplit(path ? path : "", ':'))
    if (access(absl::StrCat(dir, "/", program).c_str(), X_OK) == 0) return true;
  return false;
}

long ReadNumber(const char* path) {
  long value = -1;
  std::ifstream(path) >> value;
  return value;
}

}  // namespace

Check CheckInstall() {
  const absl::StatusOr<InstallPaths> paths = FindInstallPaths();
  if (paths.ok()) return {Finding::kOk, "installation", paths->preload, ""};
  return {
      Finding::kFail, "installation", std::string(paths.status().message()),
      "run ./dev build and use out/bin/urnic, or install the package again"};
}

Check CheckVerbsLibrary() {
  constexpr char kWhat[] = "libibverbs";
  const absl::StatusOr<VerbsLibrary> library = ProbeVerbsLibrary();
  if (!library.ok())
    return {Finding::kFail, kWhat, std::string(library.status().message()),
            "apt-get install libibverbs1"};
  const std::string found =
      absl::StrCat(library->path, " (IBVERBS_1.", library->version.newest_minor,
                   ", private interface ", library->version.private_abi, ")");
  if (urnic_verbs_is_known(library->version)) {
    return {Finding::kOk, kWhat, found + ", supported", ""};
  }
  return {Finding::kFail, kWhat,
          absl::StrCat(found, "; this build does not support it"),
          "use " URNIC_VERBS_RELEASES
          " (Debian 12 and 13, Ubuntu 22.04 and "
          "24.04, RHEL 9)"};
}

Check CheckVerbsPrograms() {
  std::string missing;
  const std::pair<const char*, const char*> programs[] = {
      {"ibv_devinfo", "ibverbs-utils"}, {"ib_write_bw", "perftest"}};
  for (const auto& [program, package] : programs)
    if (!InPath(program)) absl::StrAppend(&missing, " ", package);
  if (missing.empty())
    return {Finding::kOk, "verbs programs",
            "ibv_devinfo and perftest are installed", ""};
  return {Finding::kWarn, "verbs programs", "not installed:" + missing,
          "to try uRNIC with them: apt-get install" + missing};
}

Check CheckProc() {
  if (access("/proc/self/fd", X_OK) == 0)
    return {Finding::kOk, "/proc", "mounted", ""};
  return {Finding::kFail, "/proc", "not mounted",
          "mount -t proc proc /proc (completion channels need it)"};
}

Check CheckHugePages() {
  const long pages =
      ReadNumber("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  if (pages >= 64)
    return {Finding::kOk, "huge pages", absl::StrCat(pages, " of 2 MB free"),
            ""};
  return {
      Finding::kWarn, "huge pages",
      absl::StrCat(pages <= 0 ? "no" : absl::StrCat("only ", pages),
                   " free pages of 2 MB; packet buffers in 4 KB pages work, "
                   "but are slightly slower"),
      "not required; for speed: sysctl vm.nr_hugepages=256"};
}

Check CheckMemlock() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  // Registration pins nothing, but libibverbs warns below 32 KB.
  if (limit.rlim_cur > 32768 || geteuid() == 0)
    return {Finding::kOk, "locked memory",
            limit.rlim_cur == RLIM_INFINITY
                ? "unlimited"
                : absl::StrCat("limit ", limit.rlim_cur / 1024,
                               " KB; uRNIC locks none"),
            ""};
  return {Finding::kWarn, "locked memory",
          absl::StrCat(
              "limit ", limit.rlim_cur / 1024,
              " KB; uRNIC locks none, but libibverbs will print a warning"),
          "ulimit -l 65536, to avoid the warning"};
}

Check CheckAddressSpace(uint64_t limit) {
  constexpr char kWhat[] = "address space";
  constexpr uint64_t kGigabyte = uint64_t{1} << 30;
  if (limit == RLIM_INFINITY) return {Finding::kOk, kWhat, "unlimited", ""};
  const std::string found =
      absl::StrCat("limited to ", limit / kGigabyte, " GB");
  if (limit >= 64 * kGigabyte) return {Finding::kOk, kWhat, found, ""};
  return {Finding::kWarn, kWhat,
          found + "; DPDK reserves address space, with huge pages tens of GB",
          "ulimit -v unlimited, or URNIC_HUGEPAGES=off"};
}

Check CheckCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  const int allowed = CPU_COUNT(&set);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const std::string found =
      absl::StrCat("this process may use ", allowed, " of ", online);
  if (allowed >= 2) return {Finding::kOk, "CPUs", found, ""};
  return {Finding::kWarn, "CPUs",
          found + "; two programs that poll share one core",
          "give each program its own core: taskset -c 0, taskset -c 1"};
}

Check CheckTun() {
  if (access("/dev/net/tun", R_OK | W_OK) == 0)
    return {Finding::kOk, "/dev/net/tun", "usable", ""};
  return {Finding::kWarn, "/dev/net/tun", "not usable; only net_tap needs it",
          "modprobe tun, or run the container with --device /dev/net/tun"};
}

Check CheckLeftOvers() {
  constexpr char kWhat[] = "leftovers";
  const LeftOvers left = CleanLeftOvers({.remove = false});
  if (left.list.empty()) return {Finding::kOk, kWhat, "none", ""};
  return {Finding::kWarn, kWhat,
          absl::StrCat("of programs that died: ", left.list.size()),
          "urnic clean lists and removes them; so does, for the most part, the "
          "next program under urnic run"};
}

Check CheckKernelDevices() {
  std::string names;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/sys/class/infiniband", error))
    absl::StrAppend(&names, " ", entry.path().filename().string());
  if (names.empty()) return {Finding::kOk, "kernel RDMA devices", "none", ""};
  return {Finding::kWarn, "kernel RDMA devices",
          "programs under urnic run do not see them:" + names,
          "run a program without urnic run to use them"};
}

Check CheckRawSockets(bool needed) {
  constexpr char kWhat[] = "raw sockets";
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  syscall(SYS_capget, &header, data);
  // The driver of iface: ports opens a packet socket, and sets an address and
  // promiscuous mode.
  constexpr uint32_t kNeeded = 1u << CAP_NET_RAW | 1u << CAP_NET_ADMIN;
  if ((data[0].effective & kNeeded) == kNeeded)
    return {Finding::kOk, kWhat, "allowed (CAP_NET_RAW, CAP_NET_ADMIN)", ""};
  return {
      needed ? Finding::kFail : Finding::kWarn, kWhat,
      "not allowed; iface: ports need CAP_NET_RAW and CAP_NET_ADMIN",
      "run as root, or, for a test with interfaces of its own, under unshare "
      "-Urn"};
}

}  // namespace urnic
