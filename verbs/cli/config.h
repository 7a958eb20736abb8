#pragma once

// The user's configuration, from three places. For each key, the first place
// that sets it wins:
//
//   flag                        environment     key in the file
//   --port P [--addr A]...      URNIC_PORTS     ports = ["P|A|route=R", ...]
//     [--route R]... ...
//   --mtu N                     URNIC_MTU       mtu = N
//   --pkey K...                 URNIC_PKEYS     pkeys = [K, ...]
//   --fault SPEC                URNIC_FAULT     fault = "SPEC"
//   --transport T               URNIC_TRANSPORT transport = "T"
//   --iwarp SPEC                URNIC_IWARP     iwarp = "SPEC"
//   --mode M                    URNIC_MODE      mode = "M"
//   --config FILE               URNIC_CONFIG    (names the file, TOML)
//
// A port is an entry of URNIC_PORTS as verbs/identity/device_identity.h defines
// it. mtu, pkeys, fault, transport and iwarp apply to the ports without mtu=,
// pkey=, fault=, transport= or iwarp=.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "verbs/cli/command_line.h"

namespace urnic {

// The settings of one place; empty if it does not set them.
struct ConfigSource {
  std::vector<std::string> ports;  // entries, no ';'
  std::optional<uint32_t> mtu;     // bytes of an IP packet
  std::vector<std::string> pkeys;  // hexadecimal
  std::optional<std::string> fault;
  std::optional<std::string> transport;
  std::optional<std::string> iwarp;
  std::optional<std::string> mode;
};

struct Config {
  std::string ports;  // the value of URNIC_PORTS; empty: no port is configured
  std::string mode;   // "embedded"
};

// The configuration flags of a subcommand. They outlive the command line.
class ConfigFlags {
 public:
  ConfigFlags() = default;
  ConfigFlags(const ConfigFlags&) = delete;
  ConfigFlags& operator=(const ConfigFlags&) = delete;

  // Once.
  void AddTo(Command& command);

  // After the parse: the flags, joined with the environment and the file.
  // InvalidArgument or NotFound, with a text for the user.
  absl::StatusOr<Config> Resolve() const;

 private:
  absl::StatusOr<ConfigSource> FromFlags() const;

  std::vector<OptionWord> ports_;  // --port, --addr and --route
  std::optional<std::string> mtu_;
  std::vector<std::string> pkeys_;
  std::optional<std::string> fault_;
  std::optional<std::string> transport_;
  std::optional<std::string> iwarp_;
  std::optional<std::string> mode_;
  std::string file_;
};

// Reads a TOML file. Unknown keys and wrong types are errors that name the line
// and the key: a misspelt key must not be ignored.
absl::StatusOr<ConfigSource> ReadConfigFile(const std::string& path);

// Reads URNIC_PORTS, URNIC_MTU, URNIC_PKEYS, URNIC_FAULT, URNIC_TRANSPORT,
// URNIC_IWARP and URNIC_MODE. Also checks URNIC_HUGEPAGES, which the program
// will read.
absl::StatusOr<ConfigSource> ReadConfigEnvironment();

// Merges the sources, the one with the highest priority first, and checks the
// result: the mode is built, and every port is well-formed, exists, and has a
// driver in this build.
absl::StatusOr<Config> JoinConfig(const std::vector<ConfigSource>& sources);

}  // namespace urnic
