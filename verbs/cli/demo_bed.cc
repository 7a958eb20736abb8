#include "verbs/cli/demo_bed.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

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

void RemoveNamespace(const std::string& name) {
  const auto pids = RunTool({"ip", "netns", "pids", name});
  std::istringstream list(pids.ok() ? *pids : "");
  for (pid_t pid; list >> pid;) kill(pid, SIGKILL);
  static_cast<void>(Tool({"ip", "netns", "del", name}));
}

std::vector<std::string> DeadNames(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (IsDead(OwnerOf(name))) names.push_back(name);
  }
  return names;
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
  for (const std::string& name : namespaces_) RemoveNamespace(name);
  std::error_code ignored;
  if (!directory_.empty()) fs::remove_all(directory_, ignored);
}

absl::Status DemoBed::AddNamespace(const std::string& suffix) {
  const std::string name = absl::StrCat(kPrefix, getpid(), "-", suffix);
  if (absl::Status s = Tool({"ip", "netns", "add", name}); !s.ok()) return s;
  namespaces_.push_back(name);
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

std::vector<std::string> FindDeadBeds() {
  std::vector<std::string> paths;
  for (const fs::path& folder : {fs::path(kNamespaces), TemporaryFolder()})
    for (const std::string& name : DeadNames(folder))
      paths.push_back((folder / name).string());
  return paths;
}

void RemoveDeadBeds() {
  if (geteuid() == 0) {
    for (const std::string& name : DeadNames(kNamespaces))
      RemoveNamespace(name);
  }
  for (const std::string& name : DeadNames(TemporaryFolder())) {
    std::error_code ignored;
    fs::remove_all(TemporaryFolder() / name, ignored);
  }
}

}  // namespace urnic
