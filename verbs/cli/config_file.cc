// The parser is compiled in, because the command also runs on machines without
// the library's package.
#undef TOML_SHARED_LIB
#undef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "verbs/cli/config.h"
#include "verbs/cli/did_you_mean.h"
#include "verbs/identity/device_identity.h"

namespace urnic {
namespace {

constexpr char kPortExample[] = "\"loop|10.9.0.1/24\"";

// All messages have one form: FILE:LINE: what is wrong; what is expected.
absl::Status At(const std::string& path, const toml::node& node,
                std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ":", node.source().begin.line, ": ",
                   absl::string_view(text.data(), text.size())));
}

absl::Status CannotRead(const std::string& path, int error) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", std::strerror(error),
                   "; expected a TOML file for --config or URNIC_CONFIG"));
}

const char* TypeOf(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "a number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or a time";
  }
}

// `what`: the key, or "an entry of" the key.
absl::Status WrongType(const std::string& path, const toml::node& node,
                       std::string_view what, std::string_view expected) {
  return At(path, node,
            absl::StrCat(std::string(what), " is ", TypeOf(node), "; expected ",
                         std::string(expected)));
}

absl::Status ReadText(const std::string& path, const toml::node& node,
                      std::string_view key, std::string_view expected,
                      std::optional<std::string>* value) {
  *value = node.value_exact<std::string>();
  return *value ? absl::OkStatus() : WrongType(path, node, key, expected);
}

absl::Status ReadPorts(const std::string& path, const toml::node& node,
                       ConfigSource* source) {
  const toml::array* list = node.as_array();
  if (list == nullptr)
    return WrongType(
        path, node, "ports",
        absl::StrCat("a list of strings: ports = [", kPortExample, "]"));
  for (const toml::node& element : *list) {
    std::optional<std::string> port;
    const std::string expected = absl::StrCat("a string: ", kPortExample);
    if (absl::Status s =
            ReadText(path, element, "an entry of ports", expected, &port);
        !s.ok())
      return s;
    if (port->find(';') != std::string::npos)
      return At(path, element,
                "an entry of ports contains \";\"; expected a string for each "
                "port");
    source->ports.push_back(*port);
  }
  return absl::OkStatus();
}

absl::Status ReadMtu(const std::string& path, const toml::node& node,
                     ConfigSource* source) {
  const std::optional<int64_t> mtu = node.value_exact<int64_t>();
  const std::string range =
      absl::StrCat(URNIC_PORT_MTU_MIN, " to ", URNIC_PORT_MTU_MAX);
  if (!mtu)
    return WrongType(path, node, "mtu", absl::StrCat("a number, ", range));
  if (*mtu < URNIC_PORT_MTU_MIN || *mtu > URNIC_PORT_MTU_MAX)
    return At(path, node,
              absl::StrCat("mtu ", *mtu, " is out of range: ", range));
  source->mtu = static_cast<uint32_t>(*mtu);
  return absl::OkStatus();
}

absl::Status ReadPkeys(const std::string& path, const toml::node& node,
                       ConfigSource* source) {
  const toml::array* list = node.as_array();
  if (list == nullptr)
    return WrongType(path, node, "pkeys",
                     "a list of numbers: pkeys = [0x8001]");
  for (const toml::node& element : *list) {
    const std::optional<int64_t> pkey = element.value_exact<int64_t>();
    if (!pkey)
      return WrongType(path, element, "an entry of pkeys", "a number: 0x8001");
    const std::string text = absl::StrCat("0x", absl::Hex(*pkey));
    if (*pkey < 0 || *pkey > UINT16_MAX)
      return At(path, element,
                absl::StrCat("an entry of pkeys, ", text,
                             ", is out of range: 0x1 to 0xffff"));
    source->pkeys.push_back(text);
  }
  return absl::OkStatus();
}

absl::Status ReadKey(const std::string& path, std::string_view key,
                     const toml::node& node, ConfigSource* source) {
  if (key == "ports") return ReadPorts(path, node, source);
  if (key == "mtu") return ReadMtu(path, node, source);
  if (key == "pkeys") return ReadPkeys(path, node, source);
  if (key == "fault")
    return ReadText(path, node, key, "a string: fault = \"loss=1%\"",
                    &source->fault);
  if (key == "transport")
    return ReadText(path, node, key, "a string: transport = \"both\"",
                    &source->transport);
  if (key == "iwarp")
    return ReadText(path, node, key, "a string: iwarp = \"crc=off\"",
                    &source->iwarp);
  if (key == "mode")
    return ReadText(path, node, key, "a string: mode = \"embedded\"",
                    &source->mode);
  const std::string advice = DidYouMean(
      key, {"ports", "mtu", "pkeys", "fault", "transport", "iwarp", "mode"});
  return At(
      path, node,
      absl::StrCat("unknown key \"", std::string(key), "\"",
                   advice.empty() ? "; expected ports, mtu, pkeys, fault, "
                                    "transport, iwarp or mode"
                                  : advice));
}

// A directory can be opened, but not read.
absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return CannotRead(path, errno);
  std::string text;
  char part[1024];
  size_t bytes;
  while ((bytes = std::fread(part, 1, sizeof(part), file)) > 0)
    text.append(part, bytes);
  const int error = std::ferror(file) != 0 ? errno : 0;
  std::fclose(file);
  if (error != 0) return CannotRead(path, error);
  return text;
}

}  // namespace

absl::StatusOr<ConfigSource> ReadConfigFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  toml::table table;
  try {
    table = toml::parse(*text);
  } catch (const toml::parse_error& e) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ":", e.source().begin.line, ": ", std::string(e.description())));
  }
  ConfigSource source;
  for (const auto& [key, node] : table)
    if (absl::Status s = ReadKey(path, key.str(), node, &source); !s.ok())
      return s;
  return source;
}

}  // namespace urnic
