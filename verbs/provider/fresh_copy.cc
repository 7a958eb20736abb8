#include "verbs/provider/fresh_copy.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "datapath/guest/give_way.h"
#include "datapath/port/inherited_sockets.h"
#include "verbs/control/debug_log.h"
#include "verbs/libc/file_size_signal.h"
#include "verbs/libc/high_fd.h"

namespace urnic::provider {
namespace {

// A thread may have descriptors of its own (unshare(2)).
constexpr char kDescriptors[] = "/proc/thread-self/fd/";

// This library's file, or the errno of the attempt to map it.
struct Image {
  const char* bytes = nullptr;
  size_t size = 0;
  int error = ENOENT;
};
constinit Image g_image;

// A failure or an unfinished load of the parent does not concern this process,
// so both are stored with the id of their process.
constinit std::atomic<const Entry*> g_entry{nullptr};
constinit std::atomic<pid_t> g_loading{0};
constinit std::atomic<pid_t> g_failed{0};

// Where this library was loaded from.
const char* OwnPath() {
  Dl_info info = {};
  return dladdr(&URNIC_PROVIDER_ENTRY, &info) != 0 ? info.dli_fname : "";
}

bool IsFreshCopy() {
  return std::strncmp(OwnPath(), kDescriptors, sizeof(kDescriptors) - 1) == 0;
}

void MapOwnFile() {
  const int fd = open(OwnPath(), O_RDONLY | O_CLOEXEC);
  struct stat info = {};
  if (fd < 0 || fstat(fd, &info) != 0) {
    g_image.error = errno;
  } else {
    const auto size = static_cast<size_t>(info.st_size);
    void* const at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    g_image = at == MAP_FAILED ? Image{.error = errno}
                               : Image{static_cast<const char*>(at), size, 0};
  }
  if (fd >= 0) close(fd);
}

// 0 or an errno.
int WriteImage(int to) {
  for (size_t done = 0; done < g_image.size;) {
    const ssize_t put = write(to, g_image.bytes + done, g_image.size - done);
    if (put < 0 && errno != EINTR) return errno;
    if (put > 0) done += static_cast<size_t>(put);
  }
  return 0;
}

// Moves `fd` to a number that no earlier copy had: to the loader, the same name
// is the same library. Returns it, or minus an errno.
int NextNumber(int fd) {
  if (fd < 0) return fd;
  const int before =
      IsFreshCopy() ? std::atoi(OwnPath() + sizeof(kDescriptors) - 1) : 0;
  const int next =
      fcntl(fd, F_DUPFD_CLOEXEC, std::max(before + 1, URNIC_HIGH_FD_MIN));
  const int error = errno;
  close(fd);
  errno = error;
  return next;
}

// Returns a descriptor of a copy of this library's file, or minus an errno.
int CopyOfThisLibrary() {
  if (g_image.error != 0) return -g_image.error;
  const int to = NextNumber(memfd_create("urnic", MFD_CLOEXEC));
  if (to < 0) return -errno;
  urnic_file_size_signal signal;
  urnic_file_size_signal_off(&signal);
  const int error = WriteImage(to);
  urnic_file_size_signal_back(&signal);
  if (error == 0) return to;
  close(to);
  return -error;
}

const Entry* Load() {
  const int fd = CopyOfThisLibrary();
  if (fd < 0) {
    control::ComplainLoudly(
        absl::StrCat("a forked child has no RNIC of its own: no copy of ",
                     OwnPath(), ": ", strerror(-fd)));
    return nullptr;
  }
  const std::string copy = absl::StrCat(kDescriptors, fd);
  void* const library = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto* const entry = library == nullptr
                                ? nullptr
                                : static_cast<const Entry*>(dlsym(
                                      library, "urnic_provider_entry_v1"));
  if (entry == nullptr) {
    control::ComplainLoudly(
        absl::StrCat("a forked child has no RNIC of its own: ", dlerror()));
  }
  close(fd);
  return entry;
}

}  // namespace

bool KeepOrBeFreshCopy() {
  MapOwnFile();
  if (!IsFreshCopy()) return false;
  IgnoreSocketsOpenNow();
  return true;
}

const Entry* FreshCopy() {
  const pid_t me = getpid();
  for (;;) {
    if (const Entry* entry = g_entry.load()) return entry;
    if (g_failed.load() == me) return nullptr;
    pid_t loading = g_loading.load();
    if (loading == me) {
      GiveWay();
      continue;
    }
    if (!g_loading.compare_exchange_strong(loading, me)) continue;
    // Another thread may have loaded it meanwhile.
    if (g_entry.load() == nullptr && g_failed.load() != me) {
      const Entry* const entry = Load();
      if (entry == nullptr) g_failed.store(me);
      g_entry.store(entry);
    }
    g_loading.store(0);
  }
}

}  // namespace urnic::provider
