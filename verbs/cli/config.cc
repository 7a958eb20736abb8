#include "verbs/cli/config.h"

#include <arpa/inet.h>

#include <array>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "datapath/port/port_driver.h"
#include "ras/errors/refusal.h"
#include "transport/impair/fault_spec.h"
#include "transport/iwarp/options/options_spec.h"
#include "verbs/identity/device_identity.h"

namespace urnic {
namespace {

const char* NonEmptyEnv(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

bool Says(const std::string& port, std::string_view field) {
  return port.find(field) != std::string::npos;
}

absl::StatusOr<uint32_t> ReadMtu(const char* name, const std::string& text) {
  uint32_t value;
  if (absl::SimpleAtoi(text, &value)) return value;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " \"", text, "\" is not a number"));
}

// --addr takes a single address: other fields of a port belong in --port. The
// prefix length is checked with the port.
absl::Status CheckAddr(const std::string& value) {
  if (value.find_first_of("|;") != std::string::npos)
    return absl::InvalidArgumentError(
        absl::StrCat("--addr \"", value,
                     "\" is not a single address; give --addr once for each"));
  const std::string ip = value.substr(0, value.find('/'));
  in6_addr bytes;
  if (inet_pton(AF_INET, ip.c_str(), &bytes) == 1 ||
      inet_pton(AF_INET6, ip.c_str(), &bytes) == 1)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--addr \"", value,
                   "\" is not IP/LEN, for example 10.0.0.1/24 or fd00::1/64"));
}

absl::Status CheckRoute(const std::string& value) {
  if (value.find_first_of("|;") == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--route \"", value,
                   "\" is not a single route; give --route once for each"));
}

absl::Status CheckHugePages(const std::string& wish) {
  if (wish == "on" || wish == "off" || wish == "auto") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("URNIC_HUGEPAGES \"", wish, "\" is not on, off or auto"));
}

absl::Status CheckMode(const std::string& mode) {
  if (mode == "embedded") return absl::OkStatus();
  if (mode == "service")
    return absl::InvalidArgumentError(
        "mode service is not built yet; use --mode embedded");
  return absl::InvalidArgumentError(
      absl::StrCat("unknown mode \"", mode, "\"; the only mode is embedded"));
}

absl::Status CheckTransport(const std::string& transport) {
  if (transport == "roce" || transport == "iwarp" || transport == "both") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown transport \"", transport, "\"; use roce, iwarp or both"));
}

// A value for all ports, which becomes a part of each. It must not add another
// part, or a port.
absl::Status CheckValue(const char* name, const std::string& value) {
  const size_t at = value.find_first_of("|;");
  if (at == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " \"", value, "\" contains ",
                   value[at] == ';' ? "\";\", which separates ports"
                                    : "\"|\", which only a port may contain"));
}

// What the identity leaves to others to parse.
absl::Status CheckSpecs(const urnic_device_identity& device) {
  absl::Status status;
  if (device.fault[0] != '\0')
    status = impair::ParseFaultSpec(device.fault).status();
  if (status.ok()) status = iwarp::ParseOptions(device.iwarp).status();
  if (status.ok()) return status;
  return Prefixed(
      absl::StrCat("port ", device.ordinal + 1, " (\"", device.dev, "\"): "),
      status);
}

absl::Status CheckPorts(const std::string& ports) {
  static std::array<urnic_device_identity, URNIC_MAX_DEVICES> devices;
  char error[512];
  const int count =
      urnic_device_identity_parse(ports.c_str(), urnic_host_identity(),
                                  devices.data(), error, sizeof(error));
  if (count < 0) return absl::InvalidArgumentError(error);
  for (int i = 0; i < count; ++i) {
    const urnic_device_identity& d = devices[i];
    if (d.port_kind == URNIC_PORT_XDP)
      return absl::InvalidArgumentError(absl::StrCat(
          "port ", d.ordinal + 1, " (\"", d.dev,
          "\"): this build has no af_xdp driver; use iface:", d.ifname,
          " (af_packet)"));
    if (d.port_kind == URNIC_PORT_PCI)
      return absl::InvalidArgumentError(
          absl::StrCat("port ", d.ordinal + 1, " (\"", d.dev,
                       "\"): this build has no drivers for physical NICs; use "
                       "iface:NAME with the NIC's kernel interface"));
    // The ends of a ring have no driver's text.
    const bool is_ring = std::string_view(d.dev).starts_with("ring:");
    if (d.port_kind == URNIC_PORT_VDEV && !is_ring) {
      if (auto text = ParseDriverText(d.dev); !text.ok()) return text.status();
    }
    if (absl::Status s = CheckSpecs(d); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

void ConfigFlags::AddTo(Command& command) {
  command.AddOption(
      "--port", &ports_,
      "What the RNIC sends through: iface:NAME is a network interface, loop is "
      "a port without a wire, net_... is a DPDK device. The first port is "
      "device urnic0, the second urnic1; repeatable. For two programs of one "
      "user: net_memif0,role=server and net_memif0,role=client. urnic-run(1) "
      "has more kinds",
      {.type = "DEV"});
  command.AddOption(
      "--addr", &ports_,
      "An address of the RNIC on the port before it. No host may have it, not "
      "even this one; repeatable. IP/LEN,iwarp: rdma_cm takes the iWARP device "
      "for it",
      {.type = "IP/LEN"});
  command.AddOption(
      "--route", &ports_,
      "A route of the port before it, in ip-route(8) syntax: PREFIX [via IP] "
      "[metric N] [src IP]; repeatable. Without any, an iface: port uses the "
      "kernel's routes",
      {.type = "ROUTE"});
  command.AddOption(
      "--mtu", &mtu_,
      "Largest IP packet in bytes, for all ports; without it, the interface's "
      "MTU or 4200 (URNIC_MTU)",
      {.type = "N"});
  command.AddOption(
      "--pkey", &pkeys_,
      "The P_Key of a partition in addition to 0xffff, for all ports: 0x8001 "
      "for a full member, 0x0001 for a limited one; repeatable (URNIC_PKEYS)",
      {.type = "0x8001"});
  command.AddOption("--fault", &fault_,
                    "Deliberate faults of the wire, for all ports: "
                    "loss=1%,delay=1ms,.. (URNIC_FAULT; docs/faults.md)",
                    {.type = "SPEC"});
  command.AddOption(
      "--transport", &transport_,
      "The devices of all ports: roce (urnic0, ..), iwarp (iwurnic0, ..) or "
      "both. Default: roce, and both for a port with an address marked iwarp "
      "(URNIC_TRANSPORT)",
      {.type = "T"});
  command.AddOption(
      "--iwarp", &iwarp_,
      "Choices for the iWARP devices of all ports: crc=off, markers=on, mpa=1, "
      "rtr=zero|write|read|none, ecn=classic|dctcp, timeout=SECONDS, joined by "
      "commas (URNIC_IWARP)",
      {.type = "SPEC"});
  command.AddOption("--mode", &mode_,
                    "embedded, the only mode: the RNIC runs inside the program "
                    "(URNIC_MODE)",
                    {.type = "MODE"});
  command.AddOption("--config", &file_,
                    "TOML file with the keys ports, mtu, pkeys, fault, "
                    "transport, iwarp, mode (URNIC_CONFIG)",
                    {.type = "FILE", .environment = "URNIC_CONFIG"});
}

absl::StatusOr<ConfigSource> ConfigFlags::FromFlags() const {
  ConfigSource source;
  if (mtu_) {
    const absl::StatusOr<uint32_t> mtu = ReadMtu("--mtu", *mtu_);
    if (!mtu.ok()) return mtu.status();
    source.mtu = *mtu;
  }
  source.pkeys = pkeys_;
  source.fault = fault_;
  source.transport = transport_;
  source.iwarp = iwarp_;
  source.mode = mode_;
  for (const auto& [option, value] : ports_) {
    if (option == "--port") {
      if (value.find(';') != std::string::npos)
        return absl::InvalidArgumentError(
            absl::StrCat("--port ", value,
                         ": \";\" separates ports in URNIC_PORTS; give --port "
                         "once for each"));
      source.ports.push_back(value);
      continue;
    }
    if (source.ports.empty())
      return absl::InvalidArgumentError(
          absl::StrCat(option, " ", value, " must follow a --port"));
    const bool is_route = option == "--route";
    absl::StrAppend(&source.ports.back(), "|", is_route ? "route=" : "", value);
    const absl::Status status = is_route ? CheckRoute(value) : CheckAddr(value);
    if (!status.ok()) return status;
  }
  return source;
}

absl::StatusOr<Config> ConfigFlags::Resolve() const {
  absl::StatusOr<ConfigSource> flags = FromFlags();
  if (!flags.ok()) return flags.status();
  absl::StatusOr<ConfigSource> environment = ReadConfigEnvironment();
  if (!environment.ok()) return environment.status();
  ConfigSource file;
  if (!file_.empty()) {
    absl::StatusOr<ConfigSource> read = ReadConfigFile(file_);
    if (!read.ok()) return read.status();
    file = *std::move(read);
  }
  return JoinConfig({*flags, *environment, file});
}

absl::StatusOr<ConfigSource> ReadConfigEnvironment() {
  ConfigSource source;
  if (const char* ports = NonEmptyEnv("URNIC_PORTS")) {
    source.ports = absl::StrSplit(ports, ';');
    if (source.ports.back().empty()) source.ports.pop_back();
  }
  if (const char* text = NonEmptyEnv("URNIC_MTU")) {
    const absl::StatusOr<uint32_t> mtu = ReadMtu("URNIC_MTU", text);
    if (!mtu.ok()) return mtu.status();
    source.mtu = *mtu;
  }
  if (const char* pkeys = NonEmptyEnv("URNIC_PKEYS")) {
    source.pkeys = absl::StrSplit(pkeys, ',');
  }
  if (const char* fault = NonEmptyEnv("URNIC_FAULT")) source.fault = fault;
  if (const char* transport = NonEmptyEnv("URNIC_TRANSPORT"))
    source.transport = transport;
  if (const char* iwarp = NonEmptyEnv("URNIC_IWARP")) source.iwarp = iwarp;
  if (const char* mode = NonEmptyEnv("URNIC_MODE")) source.mode = mode;
  if (const char* wish = NonEmptyEnv("URNIC_HUGEPAGES")) {
    if (absl::Status s = CheckHugePages(wish); !s.ok()) return s;
  }
  return source;
}

absl::StatusOr<Config> JoinConfig(const std::vector<ConfigSource>& sources) {
  ConfigSource chosen;
  for (const ConfigSource& source : sources) {
    if (chosen.ports.empty()) chosen.ports = source.ports;
    if (!chosen.mtu) chosen.mtu = source.mtu;
    if (chosen.pkeys.empty()) chosen.pkeys = source.pkeys;
    if (!chosen.fault) chosen.fault = source.fault;
    if (!chosen.transport) chosen.transport = source.transport;
    if (!chosen.iwarp) chosen.iwarp = source.iwarp;
    if (!chosen.mode) chosen.mode = source.mode;
  }
  Config config;
  config.mode = chosen.mode.value_or("embedded");
  if (absl::Status s = CheckMode(config.mode); !s.ok()) return s;
  if (chosen.transport) {
    if (absl::Status s = CheckTransport(*chosen.transport); !s.ok()) return s;
  }
  if (chosen.fault) {
    if (absl::Status s = CheckValue("fault", *chosen.fault); !s.ok()) return s;
  }
  if (chosen.iwarp) {
    if (absl::Status s = CheckValue("iwarp", *chosen.iwarp); !s.ok()) return s;
  }
  for (const std::string& pkey : chosen.pkeys) {
    if (absl::Status s = CheckValue("pkey", pkey); !s.ok()) return s;
  }
  for (std::string& port : chosen.ports) {
    if (chosen.mtu && !Says(port, "|mtu="))
      absl::StrAppend(&port, "|mtu=", *chosen.mtu);
    if (chosen.fault && !Says(port, "|fault="))
      absl::StrAppend(&port, "|fault=", *chosen.fault);
    if (chosen.transport && !Says(port, "|transport="))
      absl::StrAppend(&port, "|transport=", *chosen.transport);
    if (chosen.iwarp && !Says(port, "|iwarp="))
      absl::StrAppend(&port, "|iwarp=", *chosen.iwarp);
    if (Says(port, "|pkey=")) continue;
    for (const std::string& pkey : chosen.pkeys)
      absl::StrAppend(&port, "|pkey=", pkey);
  }
  config.ports = absl::StrJoin(chosen.ports, ";");
  if (absl::Status s = CheckPorts(config.ports); !s.ok()) return s;
  return config;
}

}  // namespace urnic
