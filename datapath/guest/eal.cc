#include "datapath/guest/eal.h"

#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datapath/guest/asymmetric_fence.h"
#include "datapath/guest/debug_file.h"
#include "datapath/guest/engine_thread.h"
#include "ras/errors/refusal.h"
#include "verbs/libc/file_size_signal.h"

// Functions of the EAL that the linker redirects here (--wrap in BUILD.bazel).
// The names are the linker's.
extern "C" {

int __real_eal_cpu_detected(unsigned cpu);
int __wrap_eal_cpu_detected(unsigned cpu);
int __wrap_eal_create_runtime_dir();
int __wrap_rte_vfio_enable(const char* module);

// The EAL knows only CPUs that it finds in /sys, which chroots and sandboxes
// may not have. Any CPU that we may run on exists.
int __wrap_eal_cpu_detected(unsigned cpu) {
  if (__real_eal_cpu_detected(cpu) != 0) return 1;
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  return cpu < CPU_SETSIZE && CPU_ISSET(cpu, &set) ? 1 : 0;
}

// Without shared configuration the EAL does not use its runtime directory. But
// it fails if it cannot create the directory, and otherwise leaves it behind.
int __wrap_eal_create_runtime_dir() { return 0; }

// Our ports do not use VFIO. The EAL looks for its module in /sys and fails
// without it.
int __wrap_rte_vfio_enable(const char*) { return 0; }

}  // extern "C"

namespace urnic {
namespace {

constexpr uint32_t kDefaultMemoryMb = 512;
constexpr uint32_t kDefaultHugeMemoryMb = 64;
constexpr uint32_t kHugePageMb = 2;
// The EAL uses a few pages besides the memory that it is asked for.
constexpr uint32_t kSparePages = 4;
constexpr int kLowFds = 10;
constexpr size_t kErrorBytes = 256;

enum class State : uint8_t { kOff, kUsable, kFailed, kForked };

// Nothing here has a destructor: our threads still run while the program's
// exit() destroys static objects.
std::atomic<State> g_state{State::kOff};
std::mutex g_start_mutex;
const absl::Status* g_failure = nullptr;
bool g_huge_pages = false;
std::atomic<uint64_t> g_lcores[2];
thread_local char g_last_error[kErrorBytes];

ssize_t WriteLog(void*, const char* text, size_t bytes) {
  // A log that cannot be written must not cause a failure.
  if (DebugFd() >= 0) {
    urnic_file_size_signal signal;
    urnic_file_size_signal_off(&signal);
    [[maybe_unused]] const ssize_t written = write(DebugFd(), text, bytes);
    urnic_file_size_signal_back(&signal);
  }
  if (rte_log_cur_msg_loglevel() <= static_cast<int>(RTE_LOG_WARNING)) {
    size_t n = std::min(bytes, kErrorBytes - 1);
    while (n > 0 && text[n - 1] == '\n') --n;
    if (n > 0) {
      std::memcpy(g_last_error, text, n);
      g_last_error[n] = 0;
    }
  }
  return static_cast<ssize_t>(bytes);
}

void OpenLog() {
  cookie_io_functions_t functions = {};
  functions.write = WriteLog;
  FILE* log = fopencookie(nullptr, "w", functions);
  if (log == nullptr) return;
  setvbuf(log, nullptr, _IONBF, 0);
  rte_openlog_stream(log);
}

// "0,2,3": the CPUs that the caller may run on.
std::string AffinityList() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::string list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    absl::StrAppend(&list, list.empty() ? "" : ",", cpu);
  }
  return list;
}

uint64_t FreeHugePages() {
  std::ifstream in("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  uint64_t pages = 0;
  in >> pages;
  return pages;
}

absl::Status ChooseMemory(const EalOptions& options, bool& huge,
                          uint32_t& memory_mb) {
  const char* env = std::getenv("URNIC_HUGEPAGES");
  const std::string_view wish = env == nullptr ? "auto" : env;
  if (wish != "auto" && wish != "on" && wish != "off" && !wish.empty()) {
    return Refusal(
        ErrorCode::kBadSpec,
        absl::StrCat("URNIC_HUGEPAGES=", env, ": must be on, off or auto"));
  }
  const uint32_t huge_mb =
      options.memory_mb != 0 ? options.memory_mb : kDefaultHugeMemoryMb;
  const uint64_t needed = huge_mb / kHugePageMb + kSparePages;
  const uint64_t free = wish == "off" ? 0 : FreeHugePages();
  huge = free >= needed;
  if (wish == "on" && !huge) {
    return Refusal(ErrorCode::kHugePages,
                   absl::StrCat("URNIC_HUGEPAGES=on, but ", free,
                                " huge pages of 2 MB are free and ", needed,
                                " are needed: sysctl vm.nr_hugepages=", needed,
                                " as root"));
  }
  memory_mb = huge                     ? huge_mb
              : options.memory_mb != 0 ? options.memory_mb
                                       : kDefaultMemoryMb;
  return absl::OkStatus();
}

struct StartArgs {
  std::vector<std::string> words;
  int result = 0;
  int error = 0;
  std::string message;
};

// DPDK parses its arguments with getopt and so shares getopt's state with the
// program: where the program's own parsing stopped, and which of its arguments
// were not options. This class resets the state, and restores the part that the
// program can see.
class FreshGetopt {
 public:
  FreshGetopt() : optind_(optind), optopt_(optopt), optarg_(optarg) {
    char name[] = "urnic";
    char* words[] = {name, nullptr};
    optind = 0;  // glibc: reinitialise
    getopt(1, words, "");
  }
  ~FreshGetopt() {
    optind = optind_;
    optopt = optopt_;
    optarg = optarg_;
  }
  FreshGetopt(const FreshGetopt&) = delete;
  FreshGetopt& operator=(const FreshGetopt&) = delete;

 private:
  int optind_;
  int optopt_;
  char* optarg_;
};

void* InitThread(void* arg) {
  auto* args = static_cast<StartArgs*>(arg);
  // DPDK keeps these pointers, and so does this for leak checkers.
  [[gnu::used]] static std::vector<std::string>* kept;
  kept = new std::vector<std::string>(args->words);
  [[gnu::used]] static std::vector<char*>* argv;
  argv = new std::vector<char*>;
  for (std::string& word : *kept) argv->push_back(word.data());
  argv->push_back(nullptr);
  LowFdsOccupied low;
  NewFdsCloseOnExec cloexec;
  const FreshGetopt getopt_state;
  args->result = rte_eal_init(static_cast<int>(argv->size()) - 1, argv->data());
  args->error = rte_errno;
  args->message = TakeLastEalError();
  return nullptr;
}

absl::Status RunInit(StartArgs& args) {
  const SignalsHeldBack held_back;
  pthread_t thread;
  const int rc = pthread_create(&thread, nullptr, InitThread, &args);
  if (rc != 0) {
    return Refusal(ErrorCode::kDpdkFailed,
                   absl::StrCat("DPDK: cannot create a thread to start it: ",
                                strerror(rc)));
  }
  pthread_join(thread, nullptr);
  if (args.result < 0) {
    return Refusal(
        ErrorCode::kDpdkFailed,
        absl::StrCat("DPDK did not start: ", rte_strerror(args.error), " (",
                     args.message, "); URNIC_DEBUG=- shows its messages"));
  }
  return absl::OkStatus();
}

absl::Status StartOnce(const EalOptions& options) {
  uint32_t memory_mb = 0;
  bool huge = false;
  if (absl::Status s = ChooseMemory(options, huge, memory_mb); !s.ok()) {
    return s;
  }
  EnableAsymmetricFence();
  OpenLog();
  StartArgs args;
  args.words = {"urnic",
                "--lcores",
                absl::StrCat("0@(", AffinityList(), ")"),
                "--no-shconf",
                "--no-telemetry",
                "--no-pci",
                "--iova-mode=va",
                "-m",
                absl::StrCat(memory_mb),
                absl::StrCat("--file-prefix=urnic", getpid())};
  if (huge) {
    args.words.push_back("--in-memory");
    // vhost accepts at most eight memory regions: one file per list, not per
    // page.
    args.words.push_back("--single-file-segments");
  } else {
    args.words.push_back("--no-huge");  // in memory anyway
  }
  if (absl::Status s = RunInit(args); !s.ok()) return s;
  g_huge_pages = huge;
  pthread_atfork(nullptr, nullptr, [] { g_state.store(State::kForked); });
  return absl::OkStatus();
}

// Calls fn(fd) for each open descriptor of the process.
template <typename F>
void ForEachFd(F fn) {
  DIR* dir = opendir("/proc/thread-self/fd");
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir)) {
    char* end;
    const long fd = std::strtol(entry->d_name, &end, 10);
    if (*end == 0 && end != entry->d_name && fd != dirfd(dir)) {
      fn(static_cast<int>(fd));
    }
  }
  closedir(dir);
}

}  // namespace

absl::Status StartEal(const EalOptions& options) {
  std::lock_guard lock(g_start_mutex);
  switch (g_state.load()) {
    case State::kUsable:
      return absl::OkStatus();
    case State::kForked:
      return Refusal(
          ErrorCode::kDpdkAfterFork,
          "DPDK runs in the parent process and cannot be used after fork()");
    case State::kFailed:
      return *g_failure;
    case State::kOff:
      break;
  }
  absl::Status status = StartOnce(options);
  if (!status.ok()) g_failure = new absl::Status(status);
  g_state.store(status.ok() ? State::kUsable : State::kFailed);
  return status;
}

bool EalUsable() {
  return g_state.load(std::memory_order_relaxed) == State::kUsable;
}

bool EalHasHugePages() { return g_huge_pages; }

std::string TakeLastEalError() {
  std::string text = g_last_error;
  g_last_error[0] = 0;
  return text;
}

LowFdsOccupied::LowFdsOccupied() {
  for (;;) {
    const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    if (fd >= kLowFds) {
      close(fd);
      return;
    }
    occupied_ |= 1u << fd;
  }
}

LowFdsOccupied::~LowFdsOccupied() {
  // The program may have put a file of its own there meanwhile.
  struct stat null_device, now;
  if (stat("/dev/null", &null_device) != 0) null_device.st_rdev = 0;
  for (int fd = 0; fd < kLowFds; ++fd) {
    if ((occupied_ >> fd & 1) != 0 && fstat(fd, &now) == 0 &&
        now.st_rdev == null_device.st_rdev) {
      close(fd);
    }
  }
}

NewFdsCloseOnExec::NewFdsCloseOnExec() {
  ForEachFd([this](int fd) {
    const auto n = static_cast<size_t>(fd);
    if (before_.size() <= n) before_.resize(n + 1, 0);
    before_[n] = 1;
  });
}

NewFdsCloseOnExec::~NewFdsCloseOnExec() {
  ForEachFd([this](int fd) {
    const auto n = static_cast<size_t>(fd);
    if (n < before_.size() && before_[n] != 0) return;
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  });
}

absl::StatusOr<unsigned> AllocateLcore() {
  static_assert(RTE_MAX_LCORE >= 128);
  for (unsigned word = 0; word < 2; ++word) {
    uint64_t taken = g_lcores[word].load();
    while (~taken != 0) {
      const auto bit = static_cast<unsigned>(__builtin_ctzll(~taken));
      if (g_lcores[word].compare_exchange_weak(taken, taken | 1ull << bit)) {
        return word * 64 + bit;
      }
    }
  }
  return Refusal(ErrorCode::kTooManyPorts,
                 "128 ports are open in this process");
}

void FreeLcore(unsigned lcore) {
  g_lcores[lcore / 64].fetch_and(~(1ull << (lcore % 64)));
}

}  // namespace urnic
