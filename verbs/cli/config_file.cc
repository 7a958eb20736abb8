// The parser is compiled in, because the command also runs on machines without
// the library's package.
#undef TOML_SHARED_LIB
#undef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "absl/strings/str_cat.h"
#include "verbs/cli/config.h"
#include "verbs/identity/device_identity.h"

namespace urnic {
namespace {

absl::Status At(const std::string& path, const toml::node& node,
                std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ":", node.source().begin.line, ": ",
                   absl::string_view(text.data(), text.size())));
}

absl::Status ReadPorts(const std::string& path, const toml::node& node,
                       ConfigSource* source) {
  const toml::array* list = node.as_array();
  if (list == nullptr)
    return At(path, node, "ports must be a list: [\"DEV|IP/LEN\", ...]");
  for (const toml::node& element : *list) {
    const std::optional<std::string> port = element.value<std::string>();
    if (!port)
      return At(path, element, "a port must be a string: \"DEV|IP/LEN\"");
    if (port->find(';') != std::string::npos)
      return At(path, element,
                "a port contains \";\": write a string for each port");
    source->ports.push_back(*port);
  }
  return absl::OkStatus();
}

absl::Status ReadPkeys(const std::string& path, const toml::node& node,
                       ConfigSource* source) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return At(path, node, "pkeys must be a list: [0x8001]");
  for (const toml::node& element : *list) {
    const std::optional<int64_t> pkey = element.value_exact<int64_t>();
    if (!pkey || *pkey < 0 || *pkey > UINT16_MAX)
      return At(path, element,
                "a P_Key must be a 16-bit number, for example 0x8001");
    source->pkeys.push_back(absl::StrCat("0x", absl::Hex(*pkey)));
  }
  return absl::OkStatus();
}

absl::Status ReadKey(const std::string& path, std::string_view key,
                     const toml::node& node, ConfigSource* source) {
  if (key == "ports") return ReadPorts(path, node, source);
  if (key == "mtu") {
    const std::optional<int64_t> mtu = node.value_exact<int64_t>();
    if (!mtu || *mtu < URNIC_PORT_MTU_MIN || *mtu > URNIC_PORT_MTU_MAX)
      return At(path, node,
                absl::StrCat("mtu must be a number from ", URNIC_PORT_MTU_MIN,
                             " to ", URNIC_PORT_MTU_MAX));
    source->mtu = static_cast<uint32_t>(*mtu);
    return absl::OkStatus();
  }
  if (key == "pkeys") return ReadPkeys(path, node, source);
  if (key == "fault") {
    source->fault = node.value_exact<std::string>();
    if (!source->fault)
      return At(path, node, "fault must be a string, for example \"loss=1%\"");
    return absl::OkStatus();
  }
  if (key == "mode") {
    source->mode = node.value_exact<std::string>();
    if (!source->mode) return At(path, node, "mode must be a string");
    return absl::OkStatus();
  }
  return At(
      path, node,
      absl::StrCat("unknown key \"", absl::string_view(key.data(), key.size()),
                   "\"; the keys are ports, mtu, pkeys, fault and mode"));
}

}  // namespace

absl::StatusOr<ConfigSource> ReadConfigFile(const std::string& path) {
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& e) {
    const auto line = e.source().begin.line;
    return absl::InvalidArgumentError(absl::StrCat(
        path, line ? absl::StrCat(":", line) : "", ": ",
        absl::string_view(e.description().data(), e.description().size())));
  }
  ConfigSource source;
  for (const auto& [key, node] : table)
    if (absl::Status s = ReadKey(path, key.str(), node, &source); !s.ok())
      return s;
  return source;
}

}  // namespace urnic
