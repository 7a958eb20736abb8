#include "verbs/cli/demo_bed.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "verbs/cli/child_process.h"

namespace urnic {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "urnic-demo-";
constexpr char kNamespaces[] = "/run/netns";
constexpr char kInterface[] = "u0";
constexpr char kVethMtu[] = "9000";  // carries an IB MTU of 4096

absl::Status Tool(const std::vector<std::string>& words) {
  return RunTool(words).status();
}

fs::path TemporaryFolder() {
  std::error_code error;
  const fs::path path = fs::temp_directory_path(error);
  return error ? fs::path("/tmp") : path;
}

// The process id in the name of a bed; 0: it is not the name of a bed.
pid_t OwnerOf(const std::string& name) {
  if (name.rfind(kPrefix, 0) != 0) return 0;
  return std::atoi(name.c_str() + std::strlen(kPrefix));
}

bool IsDead(pid_t pid) {
  return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

// A descriptor that locks a namespace or a directory until it is closed; -1:
// somebody has locked it, or it is not this user's. A pid alone says nothing of
// a demo in a container that shares the folder.
int Lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  struct stat info = {};
  if (fd >= 0 && fstat(fd, &info) == 0 && info.st_uid == geteuid() &&
      flock(fd, LOCK_EX | LOCK_NB) == 0) {
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

absl::Status RemoveNamespace(const std::string& name) {
  const auto pids = RunTool({"ip", "netns", "pids", name});
  std::istringstream list(pids.ok() ? *pids : "");
  for (pid_t pid; list >> pid;) kill(pid, SIGKILL);
  return Tool({"ip", "netns", "del", name});
}

std::vector<DeadBed> DeadBedsIn(const fs::path& folder) {
  std::vector<DeadBed> beds;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const pid_t pid = OwnerOf(entry.path().filename().string());
    const int lock = IsDead(pid) ? Lock(entry.path().string()) : -1;
    if (lock < 0) continue;
    close(lock);
    beds.push_back({entry.path().string(), pid});
  }
  return beds;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DemoBed>> DemoBed::MakeHosts() {
  std::unique_ptr<DemoBed> bed(new DemoBed);
  bed->urnic_ = fs::read_symlink("/proc/self/exe").string();
  bed->server_address_ = "10.77.0.1";
  for (int n = 0; n < 2; ++n) {
    if (absl::Status s = bed->AddNamespace(n == 0 ? "a" : "b"); !s.ok())
      return s;
    bed->sides_[n] = {.name_space = bed->namespaces_.back(),
                      .port = absl::StrCat("iface:", kInterface),
                      .address = absl::StrCat("10.1.0.", n + 1, "/24")};
  }
  if (absl::Status s = bed->JoinHosts(); !s.ok()) return s;
  return bed;
}

absl::StatusOr<std::unique_ptr<DemoBed>> DemoBed::MakeSharedMemory() {
  std::unique_ptr<DemoBed> bed(new DemoBed);
  bed->urnic_ = fs::read_symlink("/proc/self/exe").string();
  bed->server_address_ = "127.0.0.1";
  if (geteuid() == 0) {
    if (absl::Status s = bed->AddNamespace("s"); !s.ok()) return s;
  }
  std::string directory =
      (TemporaryFolder() / absl::StrCat(kPrefix, getpid(), "-XXXXXX")).string();
  if (mkdtemp(directory.data()) == nullptr)
    return absl::InternalError(
        absl::StrCat(directory, ": ", std::strerror(errno)));
  bed->directory_ = directory;
  bed->HoldLock(directory);
  const std::string socket = directory + "/port.sock";
  for (int n = 0; n < 2; ++n) {
    bed->sides_[n] = {
        .name_space = bed->namespaces_.empty() ? "" : bed->namespaces_[0],
        .port = n == 0 ? absl::StrCat("net_virtio_user0,server=1,path=", socket,
                                      ",queue_size=1024")
                       : absl::StrCat("net_vhost0,iface=", socket, ",client=1"),
        .address = absl::StrCat("10.1.0.", n + 1, "/24")};
  }
  return bed;
}

DemoBed::~DemoBed() {
  for (const std::string& name : namespaces_)
    static_cast<void>(RemoveNamespace(name));
  std::error_code ignored;
  if (!directory_.empty()) fs::remove_all(directory_, ignored);
  for (const int lock : locks_) close(lock);
}

void DemoBed::HoldLock(const std::string& path) {
  const int lock = Lock(path);
  if (lock >= 0) locks_.push_back(lock);
}

absl::Status DemoBed::AddNamespace(const std::string& suffix) {
  const std::string name = absl::StrCat(kPrefix, getpid(), "-", suffix);
  if (absl::Status s = Tool({"ip", "netns", "add", name}); !s.ok()) return s;
  namespaces_.push_back(name);
  HoldLock(absl::StrCat(kNamespaces, "/", name));
  return Tool({"ip", "-n", name, "link", "set", "lo", "up"});
}

absl::Status DemoBed::JoinHosts() {
  absl::Status status =
      Tool({"ip", "-n", namespaces_[0], "link", "add", kInterface, "type",
            "veth", "peer", "name", kInterface, "netns", namespaces_[1]});
  for (int n = 0; n < 2 && status.ok(); ++n) status = ConfigureHost(n);
  return status;
}

absl::Status DemoBed::ConfigureHost(int side) {
  const std::string& name = namespaces_[static_cast<size_t>(side)];
  // The kernel's frames must look as on a wire: with checksums, and no longer
  // than the MTU.
  absl::Status status =
      Tool({"ip", "netns", "exec", name, "ethtool", "-K", kInterface, "tx",
            "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off"});
  if (!status.ok()) return status;
  status = Tool(
      {"ip", "-n", name, "link", "set", kInterface, "mtu", kVethMtu, "up"});
  if (!status.ok()) return status;
  // For perftest's TCP connection. The RNIC has other addresses.
  return Tool({"ip", "-n", name, "addr", "add",
               absl::StrCat("10.77.0.", side + 1, "/24"), "dev", kInterface});
}

std::vector<std::string> DemoBed::Command(
    int side, const std::vector<std::string>& program) const {
  const Side& end = sides_[side];
  std::vector<std::string> words = {urnic_,   "run",       "--port", end.port,
                                    "--addr", end.address, "--"};
  words.insert(words.end(), program.begin(), program.end());
  return HostCommand(side, words);
}

std::vector<std::string> DemoBed::HostCommand(
    int side, const std::vector<std::string>& program) const {
  const Side& end = sides_[side];
  std::vector<std::string> words;
  if (!end.name_space.empty()) words = {"ip", "netns", "exec", end.name_space};
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

std::string DemoBed::server_namespace() const {
  if (sides_[0].name_space.empty()) return "";
  return absl::StrCat(kNamespaces, "/", sides_[0].name_space);
}

std::vector<DeadBed> FindDeadBeds() {
  std::vector<DeadBed> beds = DeadBedsIn(TemporaryFolder());
  if (geteuid() == 0) {
    for (DeadBed& bed : DeadBedsIn(kNamespaces)) beds.push_back(std::move(bed));
  }
  return beds;
}

absl::Status RemoveDeadBed(const DeadBed& bed) {
  const fs::path path = bed.path;
  if (path.parent_path() == kNamespaces)
    return RemoveNamespace(path.filename().string());
  std::error_code error;
  fs::remove_all(path, error);
  return error ? absl::InternalError(error.message()) : absl::OkStatus();
}

}  // namespace urnic
