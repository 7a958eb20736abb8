#include "verbs/provider/fresh_copy.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "verbs/control/debug_log.h"
#include "verbs/libc/file_size_signal.h"
#include "verbs/libc/high_fd.h"

namespace urnic::provider {
namespace {

constexpr char kDescriptors[] = "/proc/self/fd/";

// Where this library was loaded from.
const char* OwnPath() {
  Dl_info info = {};
  return dladdr(&URNIC_PROVIDER_ENTRY, &info) != 0 ? info.dli_fname : "";
}

// 0 or an errno.
int CopyBytes(int from, int to) {
  constexpr size_t kChunk = 1 << 16;
  const auto buffer = std::make_unique<char[]>(kChunk);
  for (;;) {
    const ssize_t got = read(from, buffer.get(), kChunk);
    if (got == 0) return 0;
    if (got < 0) return errno;
    for (ssize_t done = 0; done < got;) {
      const ssize_t put =
          write(to, buffer.get() + done, static_cast<size_t>(got - done));
      if (put < 0) return errno;
      done += put;
    }
  }
}

// A descriptor of this library's file, copied; or minus an errno.
int CopyOfThisLibrary() {
  const int from = open(OwnPath(), O_RDONLY | O_CLOEXEC);
  if (from < 0) return -errno;
  const int to = urnic_move_fd_high(memfd_create("urnic", MFD_CLOEXEC));
  int error = to < 0 ? errno : 0;
  if (error == 0) {
    urnic_file_size_signal signal;
    urnic_file_size_signal_off(&signal);
    error = CopyBytes(from, to);
    urnic_file_size_signal_back(&signal);
  }
  close(from);
  if (error == 0) return to;
  if (to >= 0) close(to);
  return -error;
}

const Entry* Load() {
  const char* const path = OwnPath();
  const int fd = CopyOfThisLibrary();
  if (fd < 0) {
    control::ComplainLoudly(
        absl::StrCat("a forked child has no RNIC of its own: no copy of ", path,
                     ": ", strerror(-fd)));
    return nullptr;
  }
  // The descriptor stays open: a child of this child copies from it.
  const std::string copy = absl::StrCat(kDescriptors, fd);
  void* const library = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto* const entry = library == nullptr
                                ? nullptr
                                : static_cast<const Entry*>(dlsym(
                                      library, "urnic_provider_entry_v1"));
  if (entry == nullptr) {
    control::ComplainLoudly(
        absl::StrCat("a forked child has no RNIC of its own: ", dlerror()));
    close(fd);
  }
  return entry;
}

}  // namespace

bool IsFreshCopy() {
  return std::strncmp(OwnPath(), kDescriptors, sizeof(kDescriptors) - 1) == 0;
}

const Entry* FreshCopy() {
  static std::mutex mutex;
  static const Entry* entry = nullptr;
  std::lock_guard lock(mutex);
  if (entry == nullptr) entry = Load();
  return entry;
}

}  // namespace urnic::provider
