#include "datapath/port/port_spec.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <rte_mbuf_core.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "datapath/port/port.h"
#include "ras/errors/refusal.h"
#include "verbs/libc/owner_dir.h"

namespace urnic {
namespace {

using Pairs = DriverText::Pairs;

// The most that the kernel puts before a frame in its receive ring.
constexpr uint32_t kRingSlotHeader = 80;
constexpr uint32_t kRingSlotAlign = 1024;
constexpr uint32_t kRingSlotBytesMax = 32768;
constexpr uint32_t kSlotsPerBlock = 4;
constexpr uint32_t kRingSlotsMax = 1024;
constexpr uint32_t kRingSlotsMin = 64;

std::string S(std::string_view v) { return std::string(v); }

absl::Status Bad(std::string_view dev, std::string_view why) {
  return Refusal(ErrorCode::kBadSpec,
                 absl::StrCat("port ", S(dev), ": ", S(why)));
}

const std::string* Find(const Pairs& pairs, std::string_view key) {
  for (const auto& [k, v] : pairs) {
    if (k == key) return &v;
  }
  return nullptr;
}

std::string Get(const Pairs& pairs, std::string_view key,
                std::string_view fallback) {
  const std::string* value = Find(pairs, key);
  return value != nullptr ? *value : S(fallback);
}

std::optional<uint32_t> ParseNumber(std::string_view text) {
  uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

// [DDDD:]BB:DD.F, optionally followed by ",args".
bool LooksLikePci(std::string_view dev) {
  dev = dev.substr(0, dev.find(','));
  const size_t dot = dev.rfind('.');
  if (dot == dev.npos || dot + 2 != dev.size()) return false;
  const std::string_view head = dev.substr(0, dot);
  if (head.size() != 5 && head.size() != 10) return false;
  return std::all_of(head.begin(), head.end(), [](char c) {
    return c == ':' || absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
}

std::optional<uint32_t> InterfaceMtu(const std::string& name) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  ifreq request = {};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  const int rc = ioctl(fd, SIOCGIFMTU, &request);
  close(fd);
  if (rc < 0) return std::nullopt;
  return static_cast<uint32_t>(request.ifr_mtu);
}

absl::Status ChooseMtu(std::string_view dev, uint16_t wish, PortSpec& spec) {
  if (wish != 0 && (wish < kMtuMin || wish > kMtuMax)) {
    return Bad(dev, absl::StrCat("MTU ", wish, " is out of range: ", kMtuMin,
                                 " to ", kMtuMax));
  }
  spec.mtu = wish != 0 ? wish : kVirtualMtu;
  if (spec.kind == PortKind::kAfPacket) {
    const std::optional<uint32_t> actual = InterfaceMtu(spec.name);
    if (actual && wish > *actual) {
      return Bad(
          dev, absl::StrCat("MTU ", wish, " is above the interface's ", *actual,
                            "; run: ip link set ", spec.name, " mtu ", wish));
    }
    if (actual && *actual < kMtuMin) {
      return Bad(dev, absl::StrCat("the interface's MTU ", *actual,
                                   " is below ", kMtuMin));
    }
    // Room for every RDMA packet, even if the interface's MTU grows.
    if (wish == 0) {
      spec.mtu = static_cast<uint16_t>(
          std::clamp<uint32_t>(actual.value_or(0), kVirtualMtu, kMtuMax));
    }
  }
  spec.frame_bytes_max = static_cast<uint16_t>(spec.mtu + kL2HeaderBytesMax);
  spec.data_room = static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM +
                                         ((spec.frame_bytes_max + 63) & ~63));
  return absl::OkStatus();
}

// The driver maps its rings with MAP_LOCKED, which is limited for ordinary
// users. PROT_NONE checks the limit without taking any memory.
bool CanLock(size_t bytes) {
  void* const p = mmap(nullptr, bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, bytes);
  return true;
}

uint32_t RingSlots(uint32_t slot_bytes) {
  uint32_t slots = kRingSlotsMax;
  while (slots > kRingSlotsMin && !CanLock(size_t{2} * slots * slot_bytes)) {
    slots /= 2;
  }
  return slots;
}

absl::Status FitAfPacket(std::string_view dev, Pairs& pairs, PortSpec& spec) {
  // One byte more than the longest frame, to detect longer ones.
  uint32_t slot = (kRingSlotHeader + spec.frame_bytes_max + kRingSlotAlign) /
                  kRingSlotAlign * kRingSlotAlign;
  if (!Find(pairs, "framesz") && !Find(pairs, "blocksz") &&
      !Find(pairs, "framecnt")) {
    pairs.emplace_back("framesz", absl::StrCat(slot));
    pairs.emplace_back("blocksz", absl::StrCat(slot * kSlotsPerBlock));
    pairs.emplace_back("framecnt", absl::StrCat(RingSlots(slot)));
  } else {
    // One byte more than the longest frame, as above.
    const uint32_t least = kRingSlotHeader + spec.frame_bytes_max + 1;
    const std::string text = Get(pairs, "framesz", "2048");
    const std::optional<uint32_t> given = ParseNumber(text);
    if (!given || *given < least || *given > kRingSlotBytesMax) {
      return Bad(
          dev, absl::StrCat("framesz ", text, " is out of range: ", least,
                            " to ", kRingSlotBytesMax, " for MTU ", spec.mtu));
    }
    slot = *given;
  }
  spec.ring_slots = static_cast<uint16_t>(
      ParseNumber(Get(pairs, "framecnt", "512")).value_or(512));
  // The driver refuses a buffer that is smaller than a whole slot.
  spec.data_room = static_cast<uint16_t>(
      RTE_PKTMBUF_HEADROOM + slot - (TPACKET2_HDRLEN - sizeof(sockaddr_ll)));
  return absl::OkStatus();
}

// Adds arguments that the user has left out, if our default is better than the
// driver's.
absl::Status AddDefaults(std::string_view dev, Pairs& pairs, PortSpec& spec) {
  switch (spec.kind) {
    case PortKind::kAfPacket:
      return FitAfPacket(dev, pairs, spec);
    case PortKind::kMemif:
      if (!Find(pairs, "bsize")) {
        const uint32_t room = spec.data_room - RTE_PKTMBUF_HEADROOM;
        pairs.emplace_back("bsize", absl::StrCat(std::max(room, 2048u)));
      }
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

bool IsAbstract(const Pairs& pairs) {
  return Get(pairs, "socket-abstract", "no").find("yes") != std::string::npos;
}

// DPDK's default is an abstract name, which any user of the network namespace
// may join, and a user who joins a memif can do anything (docs/trust.md). Our
// default is a file of this user's own.
absl::Status ChooseMemifSocket(std::string_view dev, Pairs& pairs,
                               PortSpec& spec) {
  if (!Find(pairs, "socket-abstract")) {
    pairs.emplace_back("socket-abstract", "no");
  }
  if (IsAbstract(pairs)) return absl::OkStatus();
  if (const std::string* socket = Find(pairs, "socket")) {
    if (socket->starts_with('/')) return absl::OkStatus();
    return Bad(dev, absl::StrCat("socket=", *socket,
                                 " is a file, so it must begin with /; for an "
                                 "abstract name add socket-abstract=yes"));
  }
  char directory[64];
  const int error = urnic_owner_dir(directory, sizeof(directory), /*make=*/1);
  if (error != 0) {
    return Bad(
        dev, absl::StrCat("its socket needs a private directory of this user; ",
                          directory, " is not one: ", strerror(-error),
                          "; write socket=PATH"));
  }
  spec.socket_is_private = true;
  pairs.emplace_back("socket",
                     absl::StrCat(directory, "/" URNIC_OWNER_MEMIF_SOCKET));
  return absl::OkStatus();
}

absl::Status Identify(std::string_view dev, const Pairs& pairs,
                      PortSpec& spec) {
  switch (spec.kind) {
    case PortKind::kAfPacket:
      spec.name = Get(pairs, "iface", "");
      if (spec.name.empty() || spec.name.size() >= IFNAMSIZ) {
        return Bad(dev, "an interface name has 1 to 15 characters");
      }
      // Frames of the other queues would never be read.
      if (Get(pairs, "qpairs", "1") != "1") {
        return Bad(dev, "qpairs must be 1: a port has one queue");
      }
      spec.identity = absl::StrCat("iface:", spec.name);
      return absl::OkStatus();
    case PortKind::kVirtioUser:
      spec.socket_path = Get(pairs, "path", "");
      if (spec.socket_path.empty()) return Bad(dev, "path= is missing");
      spec.listens = spec.probe_waits = Get(pairs, "server", "0") != "0";
      spec.ring_slots = static_cast<uint16_t>(
          ParseNumber(Get(pairs, "queue_size", "256")).value_or(256));
      spec.identity = absl::StrCat("virtio_user:", spec.socket_path);
      return absl::OkStatus();
    case PortKind::kVhost:
      spec.socket_path = Get(pairs, "iface", "");
      if (spec.socket_path.empty()) return Bad(dev, "iface= is missing");
      spec.listens = Get(pairs, "client", "0") == "0";
      spec.identity = absl::StrCat("vhost:", spec.socket_path);
      return absl::OkStatus();
    case PortKind::kMemif: {
      const std::string role = Get(pairs, "role", "client");
      const std::string path = Get(pairs, "socket", "/run/memif.sock");
      spec.listens = role == "server" || role == "master";
      const bool abstract = IsAbstract(pairs);
      if (!abstract) spec.socket_path = path;
      spec.socket = abstract ? absl::StrCat("@", path) : path;
      spec.ring_slots = static_cast<uint16_t>(
          1u << std::min(ParseNumber(Get(pairs, "rsize", "10")).value_or(10),
                         14u));
      spec.identity =
          absl::StrCat("memif:", path, ":", Get(pairs, "id", "0"), ":", role);
      return absl::OkStatus();
    }
    default:
      spec.identity = S(dev);
      return absl::OkStatus();
  }
}

// DPDK would truncate a longer path and use another file.
absl::Status CheckSocketPath(std::string_view dev, const std::string& path) {
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() <= kLongest) return absl::OkStatus();
  return Bad(dev, absl::StrCat("the socket path has ", path.size(),
                               " characters, the limit is ", kLongest));
}

absl::StatusOr<PortSpec> ParseRing(std::string_view dev, uint16_t mtu) {
  PortSpec spec;
  spec.kind = PortKind::kRing;
  const std::string_view rest = dev.substr(5);
  const size_t colon = rest.rfind(':');
  const std::string_view side =
      colon == rest.npos ? "" : rest.substr(colon + 1);
  if (colon == 0 || colon > 16 || (side != "a" && side != "b")) {
    return Bad(dev, "must be ring:NAME:a or ring:NAME:b, NAME up to 16 long");
  }
  spec.name = S(rest.substr(0, colon));
  spec.side = side == "b";
  spec.driver = "net_ring";
  spec.ring_slots = kRingPairSlots;
  spec.identity = S(dev);
  if (absl::Status s = ChooseMtu(dev, mtu, spec); !s.ok()) return s;
  return spec;
}

absl::StatusOr<PortSpec> ParseVdev(std::string_view dev, uint16_t mtu) {
  absl::StatusOr<DriverText> text = ParseDriverText(dev);
  if (!text.ok()) return text.status();
  Pairs* const pairs = &text->pairs;
  PortSpec spec;
  spec.kind = text->driver->kind;
  spec.driver = text->driver->dpdk_name;
  if (spec.kind == PortKind::kMemif) {
    if (absl::Status s = ChooseMemifSocket(dev, *pairs, spec); !s.ok())
      return s;
  }
  if (absl::Status s = Identify(dev, *pairs, spec); !s.ok()) return s;
  if (absl::Status s = CheckSocketPath(dev, spec.socket_path); !s.ok()) {
    return s;
  }
  if (absl::Status s = ChooseMtu(dev, mtu, spec); !s.ok()) return s;
  if (absl::Status s = AddDefaults(dev, *pairs, spec); !s.ok()) return s;
  for (const auto& [key, value] : *pairs) {
    absl::StrAppend(&spec.args, ",", key, "=", value);
  }
  return spec;
}

}  // namespace

std::string PortSpec::Devargs(unsigned number) const {
  return absl::StrCat(driver, "_u", number, args);
}

absl::StatusOr<PortSpec> ParsePortSpec(std::string_view dev, uint16_t mtu) {
  if (dev.empty()) return Bad(dev, "the device is missing");
  if (dev == "loop") {
    PortSpec spec;
    spec.identity = S(dev);
    if (absl::Status s = ChooseMtu(dev, mtu, spec); !s.ok()) return s;
    return spec;
  }
  if (dev.starts_with("ring:")) return ParseRing(dev, mtu);
  if (dev.starts_with("iface:")) {
    if (dev.find(',') != dev.npos) {
      return Bad(dev, "takes no arguments; use net_af_packet0,iface=NAME,...");
    }
    return ParseVdev("net_af_packet,iface=" + S(dev.substr(6)), mtu);
  }
  if (dev.starts_with("xdp:") || LooksLikePci(dev)) {
    return Refusal(
        ErrorCode::kNoDriver,
        absl::StrCat(
            "port ", S(dev),
            ": this build carries no driver for NICs by PCI address or af_xdp; "
            "use iface:NAME for a kernel interface"));
  }
  return ParseVdev(dev, mtu);
}

}  // namespace urnic
