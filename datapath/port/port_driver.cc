#include "datapath/port/port_driver.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"

namespace urnic {
namespace {

// The keys of DPDK 22.11. Its drivers ignore some mistakes silently.
constexpr std::string_view kAfPacketKeys =
    "iface qpairs blocksz framesz framecnt qdisc_bypass";
constexpr std::string_view kVirtioUserKeys =
    "path queue_size queues cq mac iface server mrg_rxbuf in_order packed_vq "
    "speed vectorized";
constexpr std::string_view kVhostKeys =
    "iface queues client iommu-support postcopy-support tso linear-buffer "
    "ext-buffer legacy-ol-flags";
constexpr std::string_view kMemifKeys =
    "id role bsize rsize socket socket-abstract owner-uid owner-gid mac "
    "zero-copy secret";
constexpr std::string_view kRingKeys = "nodeaction internal";
constexpr std::string_view kNullKeys = "size copy no-rx";

constexpr PortDriver kDrivers[] = {
    {"net_af_packet", "net_af_packet", PortKind::kAfPacket, kAfPacketKeys},
    {"eth_af_packet", "net_af_packet", PortKind::kAfPacket, kAfPacketKeys},
    {"net_virtio_user", "net_virtio_user", PortKind::kVirtioUser,
     kVirtioUserKeys},
    {"virtio_user", "net_virtio_user", PortKind::kVirtioUser, kVirtioUserKeys},
    {"net_vhost", "net_vhost", PortKind::kVhost, kVhostKeys},
    {"eth_vhost", "net_vhost", PortKind::kVhost, kVhostKeys},
    {"net_memif", "net_memif", PortKind::kMemif, kMemifKeys},
    {"net_ring", "net_ring", PortKind::kOther, kRingKeys},
    {"eth_ring", "net_ring", PortKind::kOther, kRingKeys},
    {"net_tap", "net_tap", PortKind::kOther, "iface mac remote persist"},
    {"net_null", "net_null", PortKind::kOther, kNullKeys},
    {"eth_null", "net_null", PortKind::kOther, kNullKeys},
};

std::string S(std::string_view v) { return std::string(v); }

absl::Status Bad(std::string_view dev, std::string_view why) {
  return Refusal(ErrorCode::kBadSpec,
                 absl::StrCat("port ", S(dev), ": ", S(why)));
}

absl::StatusOr<DriverText::Pairs> ParsePairs(std::string_view dev,
                                             std::string_view text) {
  DriverText::Pairs pairs;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view pair = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == pair.npos) {
      return Bad(dev, absl::StrCat("'", S(pair), "' is not key=value"));
    }
    pairs.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return pairs;
}

// `words` are separated by blanks.
bool HasWord(std::string_view words, std::string_view word) {
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

absl::Status CheckPairs(std::string_view dev, const PortDriver& driver,
                        const DriverText::Pairs& pairs) {
  for (const auto& [key, value] : pairs) {
    if (!HasWord(driver.keys, key)) {
      return Bad(dev, absl::StrCat("unknown key '", key, "'; ", driver.name,
                                   " has: ", S(driver.keys)));
    }
    if (HasWord("server client", key) && !HasWord("0 1", value)) {
      return Bad(dev, absl::StrCat(key, "=", value, " is not 0 or 1"));
    }
    if (key == "role" && !HasWord("server client master slave", value)) {
      return Bad(dev, absl::StrCat("unknown role '", value,
                                   "'; write role=server or role=client"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DriverText> ParseDriverText(std::string_view dev) {
  const size_t comma = std::min(dev.find(','), dev.size());
  std::string_view name = dev.substr(0, comma);
  while (!name.empty() && absl::ascii_isdigit(name.back())) {
    name.remove_suffix(1);
  }
  DriverText text;
  text.driver =
      std::find_if(std::begin(kDrivers), std::end(kDrivers),
                   [&](const PortDriver& d) { return name == d.name; });
  if (text.driver == std::end(kDrivers)) {
    return Refusal(
        ErrorCode::kNoDriver,
        absl::StrCat(
            "port ", S(dev), ": this build has no driver '", S(name),
            "'; it has iface:NAME, loop, ring:NAME:a|b, net_virtio_user, "
            "net_vhost, net_memif, net_af_packet, net_ring, net_tap, "
            "net_null"));
  }
  absl::StatusOr<DriverText::Pairs> pairs =
      ParsePairs(dev, comma < dev.size() ? dev.substr(comma + 1) : "");
  if (!pairs.ok()) return pairs.status();
  if (absl::Status s = CheckPairs(dev, *text.driver, *pairs); !s.ok()) return s;
  text.pairs = *std::move(pairs);
  return text;
}

}  // namespace urnic
