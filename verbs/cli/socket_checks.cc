#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "verbs/cli/checks.h"

namespace urnic {
namespace {

using Arguments = std::map<std::string, std::string>;

// "net_x0,key=value,...": what stands behind the name.
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
  bool listens = false;  // this end makes the file
};

// The defaults are the drivers' own; datapath/port_spec.cc has the same.
SocketFile FindSocket(const std::string& dev) {
  const Arguments arguments = ParseArguments(dev);
  if (absl::StartsWith(dev, "net_vhost"))
    return {Get(arguments, "iface", ""), Get(arguments, "client", "0") == "0"};
  if (absl::StartsWith(dev, "net_virtio_user"))
    return {Get(arguments, "path", ""), Get(arguments, "server", "0") != "0"};
  if (absl::StartsWith(dev, "net_memif") &&
      Get(arguments, "socket-abstract", "yes") == "no") {
    const std::string role = Get(arguments, "role", "client");
    return {Get(arguments, "socket", "/run/memif.sock"),
            role == "server" || role == "master"};
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
  // The connecting end only looks for the file.
  const int need = socket.listens ? W_OK | X_OK : X_OK;
  if (access(directory.c_str(), need) == 0)
    return {
        {Finding::kOk, what,
         absl::StrCat(socket.path, socket.listens ? ", this end makes it"
                                                  : ", the other end makes it"),
         ""}};
  const int err = errno;
  return {{Finding::kFail, what,
           absl::StrCat("the directory ", directory, ": ", std::strerror(err)),
           err == ENOENT
               ? absl::StrCat("mkdir -p ", directory)
               : absl::StrCat("name a file in a directory that this user may ",
                              socket.listens ? "write to" : "look into")}};
}

}  // namespace urnic
