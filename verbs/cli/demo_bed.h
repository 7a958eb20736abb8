#pragma once

// The environment of the two RNICs of `urnic demo`. A bed creates what it needs
// and removes it in its destructor. The names of its namespaces and directories
// contain this process's id, and it holds a lock on each, so that a later run
// finds the leftovers of a killed one.

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace urnic {

class DemoBed {
 public:
  // Two hosts: network namespaces joined by a veth pair with an MTU of 9000.
  // The RNICs use the kernel's interfaces, with other addresses than the
  // kernel's. Needs root. Errors name the command that failed.
  static absl::StatusOr<std::unique_ptr<DemoBed>> MakeHosts();
  // Two processes of one host that share memory: virtio_user and vhost. As root
  // they get their own namespace, otherwise they use the caller's.
  static absl::StatusOr<std::unique_ptr<DemoBed>> MakeSharedMemory();

  ~DemoBed();
  DemoBed(const DemoBed&) = delete;
  DemoBed& operator=(const DemoBed&) = delete;

  // The command line that runs `program` on the RNIC of a side, 0 or 1.
  std::vector<std::string> Command(
      int side, const std::vector<std::string>& program) const;
  // The command line that runs it on the host of a side, without an RNIC.
  std::vector<std::string> HostCommand(
      int side, const std::vector<std::string>& program) const;
  // The address at which a program of side 1 reaches side 0 by TCP.
  const std::string& server_address() const { return server_address_; }
  // The file of side 0's network namespace; "": the caller's.
  std::string server_namespace() const;

 private:
  struct Side {
    std::string name_space;  // "": the caller's
    std::string port;
    std::string address;  // the RNIC's, IP/LEN
  };
  DemoBed() = default;
  absl::Status AddNamespace(const std::string& suffix);
  void HoldLock(const std::string& path);
  absl::Status JoinHosts();
  absl::Status ConfigureHost(int side);

  std::string urnic_;  // this program
  std::vector<std::string> namespaces_;
  std::string directory_;
  std::vector<int> locks_;  // of both, while they are in use
  Side sides_[2];
  std::string server_address_;
};

// A namespace or directory of a run whose process is dead.
struct DeadBed {
  std::string path;
  pid_t pid = 0;
};

// Those that this user may remove: namespaces only as root.
std::vector<DeadBed> FindDeadBeds();

// Removes it; also ends the programs that are left in a namespace. Errors name
// what failed.
absl::Status RemoveDeadBed(const DeadBed& bed);

}  // namespace urnic
