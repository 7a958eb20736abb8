#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "verbs/cli/checks.h"
#include "verbs/libc/owner_dir.h"

namespace urnic {
namespace {

using Arguments = std::map<std::string, std::string>;

// The arguments of "net_x0,key=value,...".
Arguments ParseArguments(const std::string& dev) {
  Arguments arguments;
  for (absl::string_view word : absl::StrSplit(dev, ','))
    arguments.insert(absl::StrSplit(word, absl::MaxSplits('=', 1)));
  return arguments;
}

std::string Get(const Arguments& arguments, const char* key,
                const char* fallback) {
  const auto found = arguments.find(key);
  return found == arguments.end() ? fallback : found->second;
}

struct SocketFile {
  std::string path;
  bool listens = false;  // this end creates the file
  // In this user's private directory, which is created on demand, unless there
  // is an error (negative).
  bool own_directory = false;
  int error = 0;
};

// datapath/port/port_spec.cc has the same defaults.
SocketFile FindSocket(const std::string& dev) {
  const Arguments arguments = ParseArguments(dev);
  if (absl::StartsWith(dev, "net_vhost"))
    return {Get(arguments, "iface", ""), Get(arguments, "client", "0") == "0"};
  if (absl::StartsWith(dev, "net_virtio_user"))
    return {Get(arguments, "path", ""), Get(arguments, "server", "0") != "0"};
  if (absl::StartsWith(dev, "net_memif") &&
      !absl::StrContains(Get(arguments, "socket-abstract", "no"), "yes")) {
    const std::string role = Get(arguments, "role", "client");
    const bool listens = role == "server" || role == "master";
    const std::string path = Get(arguments, "socket", "");
    if (!path.empty()) return {path, listens};
    char directory[64];
    const int error = urnic_owner_dir(directory, sizeof(directory), /*make=*/0);
    return {absl::StrCat(directory, "/" URNIC_OWNER_MEMIF_SOCKET), listens,
            true, error};
  }
  return {};
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::vector<Check> CheckSocket(const urnic_device_identity& d) {
  const SocketFile socket = FindSocket(d.dev);
  if (socket.path.empty()) return {};
  const std::string what = absl::StrCat(d.name, " socket");
  const std::string directory = DirectoryOf(socket.path);
  if (socket.own_directory) {
    if (socket.error == 0)
      return {{Finding::kOk, what,
               absl::StrCat(socket.path, ", for programs of this user"), ""}};
    return {{Finding::kFail, what,
             absl::StrCat("this user has no private directory: ", directory,
                          ": ", std::strerror(-socket.error)),
             "add socket=PATH to the port"}};
  }
  // The connecting end only looks for the file.
  const int need = socket.listens ? W_OK | X_OK : X_OK;
  if (access(directory.c_str(), need) == 0)
    return {
        {Finding::kOk, what,
         absl::StrCat(socket.path,
                      socket.listens ? ", created by the program with this port"
                                     : ", created by the peer"),
         ""}};
  const int err = errno;
  return {{Finding::kFail, what,
           absl::StrCat("the directory ", directory, ": ", std::strerror(err)),
           err == ENOENT
               ? absl::StrCat("mkdir -p ", directory)
               : absl::StrCat("use a file in a directory that this user can ",
                              socket.listens ? "write to" : "search")}};
}

}  // namespace urnic
