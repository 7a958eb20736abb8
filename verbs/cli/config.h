#pragma once

// What the user configured, from three places; the first that says something
// about a key wins:
//
//   flag                        environment     key in the file
//   --port P [--addr A]...      URNIC_PORTS     ports = ["P|A|route=R", ...]
//     [--route R]... ...
//   --mtu N                     URNIC_MTU       mtu = N
//   --pkey K...                 URNIC_PKEYS     pkeys = [K, ...]
//   --fault SPEC                URNIC_FAULT     fault = "SPEC"
//   --mode M                    URNIC_MODE      mode = "M"
//   --config FILE               URNIC_CONFIG    (names the file, TOML)
//
// A port is an entry of URNIC_PORTS as verbs/identity/device_identity.h defines
// it; mtu, pkeys and fault are for the ports that do not say mtu=, pkey= or
// fault= themselves.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace urnic {

// What one of the places said; empty where it said nothing.
struct ConfigSource {
  std::vector<std::string> ports;  // entries, no ';'
  std::optional<uint32_t> mtu;     // bytes of an IP packet
  std::vector<std::string> pkeys;  // hexadecimal
  std::optional<std::string> fault;
  std::optional<std::string> mode;
};

struct Config {
  std::string ports;  // ready for URNIC_PORTS; empty if no port is configured
  std::string mode;   // "embedded"
};

// The configuration flags of a subcommand. Must outlive the parse.
class ConfigFlags {
 public:
  explicit ConfigFlags(CLI::App& command);

  // After the parse: the flags, joined with the environment and the file.
  // InvalidArgument or NotFound, with a text for the user.
  absl::StatusOr<Config> Resolve() const;

 private:
  absl::StatusOr<ConfigSource> FromFlags() const;

  CLI::App& command_;
  CLI::Option* port_option_;
  CLI::Option* addr_option_;
  CLI::Option* route_option_;
  std::vector<std::string> ports_;
  std::vector<std::string> addrs_;
  std::vector<std::string> routes_;
  std::optional<std::string> mtu_;
  std::vector<std::string> pkeys_;
  std::optional<std::string> fault_;
  std::optional<std::string> mode_;
  std::string file_;
};

// Reads a TOML file. Unknown keys and wrong types are errors that name line and
// key: a misspelt key must not pass for a default.
absl::StatusOr<ConfigSource> ReadConfigFile(const std::string& path);

// Reads URNIC_PORTS, URNIC_MTU, URNIC_PKEYS, URNIC_FAULT and URNIC_MODE, and
// looks whether URNIC_HUGEPAGES, which the program will read, is a word that it
// will take.
absl::StatusOr<ConfigSource> ReadConfigEnvironment();

// Joins the sources, best first, and checks the result: the mode is one that is
// built and every port is well-formed, exists and has a driver in this build.
absl::StatusOr<Config> JoinConfig(const std::vector<ConfigSource>& sources);

}  // namespace urnic
