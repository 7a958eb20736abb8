#include "datapath/port/port_factory.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/guest/eal.h"
#include "datapath/memory/packet_pool.h"
#include "datapath/port/dpdk_port.h"
#include "datapath/port/fault_port.h"
#include "datapath/port/loop_port.h"
#include "datapath/port/port_keeper.h"
#include "datapath/port/port_spec.h"
#include "datapath/port/stale_socket.h"
#include "ras/errors/refusal.h"
#include "verbs/identity/device_identity.h"

namespace urnic {
namespace {

absl::StatusOr<wire::MacAddress> InterfaceMac(const std::string& name) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request = {};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  const int rc = fd < 0 ? -1 : ioctl(fd, SIOCGIFHWADDR, &request);
  if (fd >= 0) close(fd);
  if (rc != 0) {
    return Refusal(ErrorCode::kNoInterface,
                   absl::StrCat("mac=port: there is no interface ", name));
  }
  wire::MacAddress mac;
  std::memcpy(&mac, request.ifr_hwaddr.sa_data, sizeof(mac));
  return mac;
}

absl::StatusOr<wire::MacAddress> ChooseMac(const PortConfig& config,
                                           const PortSpec& spec) {
  if (config.mac_of_interface) {
    if (spec.kind != PortKind::kAfPacket) {
      return Refusal(ErrorCode::kBadSpec,
                     absl::StrCat("port ", config.dev,
                                  ": mac=port needs a kernel interface"));
    }
    return InterfaceMac(spec.name);
  }
  if (config.mac != wire::MacAddress()) return config.mac;
  wire::MacAddress mac;
  urnic_derive_mac(urnic_host_identity(), spec.identity.c_str(), /*ordinal=*/0,
                   /*address=*/nullptr, mac.bytes.data());
  return mac;
}

// A name for this process, to which pairs of rings are private. (Another PID
// namespace may have a process with the same number.)
std::string ProcessName() {
  struct stat space = {};
  (void)stat("/proc/self/ns/pid", &space);
  return absl::StrCat(getpid(), ".", space.st_ino);
}

// Without faults of the wire.
absl::StatusOr<std::unique_ptr<Port>> CreatePlainPort(
    const PortConfig& config, const impair::DeviceFaults& faults) {
  absl::StatusOr<PortSpec> spec = ParsePortSpec(config.dev, config.mtu);
  if (!spec.ok()) return spec.status();
  spec->faults = faults;
  const absl::StatusOr<wire::MacAddress> mac = ChooseMac(config, *spec);
  if (!mac.ok()) return mac.status();
  absl::StatusOr<PortClaim> claim =
      PortClaim::Take(spec->kind == PortKind::kRing
                          ? absl::StrCat(spec->identity, ":", ProcessName())
                          : spec->identity);
  if (!claim.ok()) return claim.status();
  for (const std::string& line : claim->warnings()) {
    if (config.warn != nullptr) config.warn(line);
  }
  if (spec->listens && IsStaleSocket(spec->socket_path) &&
      RemoveStaleSocket(spec->socket_path) == 0 && config.removed != nullptr) {
    config.removed(absl::StrCat("socket ", spec->socket_path,
                                ", at which no process listened"));
  }
  absl::Status status = StartEal({.memory_mb = config.memory_mb});
  if (!status.ok()) return status;
  const absl::StatusOr<unsigned> lcore = AllocateLcore();
  if (!lcore.ok()) return lcore.status();
  const absl::StatusOr<rte_mempool*> pool =
      TakePool(spec->data_room, PoolSize(config.rx_ring, config.tx_ring));
  if (!pool.ok()) {
    FreeLcore(*lcore);
    return pool.status();
  }
  if (spec->kind == PortKind::kLoop) {
    return std::make_unique<LoopPort>(std::move(*claim), spec->mtu, *mac, *pool,
                                      *lcore);
  }
  spec->may_leave_tcp_checksums =
      config.fault.empty() &&
      (spec->kind == PortKind::kVhost || spec->kind == PortKind::kVirtioUser);
  absl::StatusOr<std::shared_ptr<PortKeeper>> keeper = PortKeeper::Start(
      *spec, *pool, config.rx_ring, config.tx_ring, config.report, config.warn);
  if (!keeper.ok()) {
    ReturnPool(*pool);
    FreeLcore(*lcore);
    return keeper.status();
  }
  // With the interface's own MAC, long frames may be for the kernel.
  const bool explains_long =
      spec->kind == PortKind::kAfPacket && !config.mac_of_interface;
  return std::make_unique<DpdkPort>(
      std::move(*claim), *spec, *mac, *pool, *lcore, std::move(*keeper),
      explains_long ? config.warn : PortWarning());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Port>> CreatePort(const PortConfig& config) {
  if (config.fault.empty()) return CreatePlainPort(config, {});
  const absl::StatusOr<impair::FaultSpec> spec =
      impair::ParseFaultSpec(config.fault);
  if (!spec.ok()) return spec.status();
  const std::string note =
      absl::StrCat("with deliberate faults: ", config.fault);
  PortConfig plain = config;
  if (config.report != nullptr) {
    plain.report = [note, report = config.report](PortInfo info) {
      info.text = FaultPort::WithNote(info.text, note);
      report(info);
    };
  }
  absl::StatusOr<std::unique_ptr<Port>> port =
      CreatePlainPort(plain, spec->device);
  if (!port.ok()) return port.status();
  return FaultPort::Create(std::move(*port), *spec, note);
}

}  // namespace urnic
