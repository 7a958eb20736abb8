#include "verbs/control/gid_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"
#include "transport/wire/address_text.h"

namespace urnic::control {

namespace {

constexpr uint8_t kLinkLocalBits = 64;
constexpr uint8_t kMappedBits = 96;  // in front of an IPv4 address

uint8_t PrefixBits(const urnic_ip_address& address) {
  return static_cast<uint8_t>(address.prefix_len +
                              (address.is_ipv6 != 0 ? 0 : kMappedBits));
}

wire::Gid GidOf(const urnic_ip_address& address) {
  wire::Gid gid;
  urnic_ip_address_gid(&address, gid.bytes.data());
  return gid;
}

// The identity of the port's RoCE device, with room for all addresses, even if
// the port has no RoCE device.
std::unique_ptr<urnic_device_identity> WithGidsOfAddresses(
    const urnic_device_identity& identity) {
  auto device = std::make_unique<urnic_device_identity>(identity);
  if (device->device_kind->gid_source != URNIC_GIDS_OF_ADDRESSES) {
    urnic_device_identity_become(device.get(), URNIC_DEVICE_ROCE);
  }
  return device;
}

bool SameConfiguration(const urnic_device_identity& a,
                       const urnic_device_identity& b) {
  return a.device_kind == b.device_kind && a.kinds == b.kinds &&
         std::strcmp(a.dev, b.dev) == 0 &&
         std::memcmp(a.mac, b.mac, sizeof(a.mac)) == 0 &&
         a.num_addresses == b.num_addresses &&
         std::memcmp(a.addresses, b.addresses, sizeof(a.addresses)) == 0;
}

}  // namespace

std::string AddressText(const wire::Gid& gid, uint8_t prefix_bits) {
  return absl::StrCat(wire::IpText(gid), "/",
                      prefix_bits - (gid.is_ipv4() ? kMappedBits : 0));
}

GidTable::GidTable(const urnic_device_identity& identity)
    : identity_(WithGidsOfAddresses(identity)) {
  prefix_bits_[0] = kLinkLocalBits;
  for (uint32_t i = 0; i + 1 < num_pairs() && i < identity.num_addresses; ++i) {
    prefix_bits_[i + 1] = PrefixBits(identity.addresses[i]);
    is_iwarp_[i + 1] = identity.addresses[i].is_iwarp != 0;
  }
}

std::shared_ptr<GidTable> GidTable::Of(const urnic_device_identity& identity) {
  // Never destroyed: contexts may outlive main().
  struct Tables {
    std::mutex mutex;
    struct Place {
      std::unique_ptr<urnic_device_identity> made_of;
      std::shared_ptr<GidTable> table;
    } places[URNIC_MAX_PORTS];
  };
  static Tables* const tables = new Tables;
  URNIC_CHECK(identity.ordinal >= 0 && identity.ordinal < URNIC_MAX_PORTS);
  std::lock_guard lock(tables->mutex);
  Tables::Place& place = tables->places[identity.ordinal];
  auto device = WithGidsOfAddresses(identity);
  if (place.table == nullptr || !SameConfiguration(*place.made_of, *device)) {
    place.made_of = std::move(device);
    place.table = std::make_shared<GidTable>(identity);
  }
  return place.table;
}

std::optional<GidTable::Entry> GidTable::At(uint32_t index) const {
  if (index >= size()) return std::nullopt;
  std::lock_guard lock(mutex_);
  const urnic_gid_entry& entry = identity_->gids[index];
  if (entry.type == URNIC_GID_NONE) return std::nullopt;
  return Entry{.gid = wire::Gid::FromIpv6(entry.gid),
               .roce_v1 = entry.type == URNIC_GID_ROCE_V1};
}

std::vector<GidPair> GidTable::Pairs() const {
  std::vector<GidPair> pairs;
  std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < num_pairs(); ++i) {
    if (prefix_bits_[i] == 0) continue;
    pairs.push_back({.gid = wire::Gid::FromIpv6(identity_->gids[2 * i].gid),
                     .prefix_bits = prefix_bits_[i],
                     .index = 2 * i,
                     .is_iwarp = is_iwarp_[i]});
  }
  return pairs;
}

std::unique_ptr<urnic_device_identity> GidTable::Snapshot() const {
  std::lock_guard lock(mutex_);
  return std::make_unique<urnic_device_identity>(*identity_);
}

uint32_t GidTable::Find(const wire::Gid& gid) const {
  for (uint32_t i = 0; i < num_pairs(); ++i) {
    if (prefix_bits_[i] != 0 &&
        std::memcmp(identity_->gids[2 * i].gid, gid.bytes.data(),
                    gid.bytes.size()) == 0) {
      return i;
    }
  }
  return num_pairs();
}

absl::Status GidTable::Add(const urnic_ip_address& address) {
  std::lock_guard lock(mutex_);
  const wire::Gid gid = GidOf(address);
  const uint8_t bits = PrefixBits(address);
  if (address.is_iwarp != 0 &&
      (identity_->kinds & 1u << URNIC_DEVICE_IWARP) == 0) {
    return Refusal(
        ErrorCode::kBadAddress,
        absl::StrCat(name(), ": ", AddressText(gid, bits),
                     " is marked iwarp, but the port has no iWARP device; "
                     "start the program with --transport both"));
  }
  if (const uint32_t at = Find(gid); at < num_pairs()) {
    return Refusal(
        ErrorCode::kAddressExists,
        absl::StrCat(name(), " has ", AddressText(gid, prefix_bits_[at]),
                     " already, at GID index ", 2 * at));
  }
  const auto end = prefix_bits_.begin() + num_pairs();
  const auto free = std::find(prefix_bits_.begin(), end, 0);
  if (free == end) {
    return Refusal(ErrorCode::kNoPlace,
                   absl::StrCat(name(), ": ", AddressText(gid, bits),
                                " is one too many; the limit is ",
                                num_pairs() - 1, " addresses"));
  }
  *free = bits;
  const auto pair = static_cast<uint32_t>(free - prefix_bits_.begin());
  is_iwarp_[pair] = address.is_iwarp != 0;
  urnic_device_identity_set_gid(identity_.get(), pair, gid.bytes.data());
  return absl::OkStatus();
}

absl::Status GidTable::Remove(const urnic_ip_address& address) {
  std::lock_guard lock(mutex_);
  const wire::Gid gid = GidOf(address);
  const uint8_t bits = PrefixBits(address);
  const uint32_t at = Find(gid);
  if (at == num_pairs() || prefix_bits_[at] != bits) {
    return Refusal(
        ErrorCode::kNoSuchAddress,
        absl::StrCat(name(), " has no address ", AddressText(gid, bits),
                     at < num_pairs()
                         ? ", but " + AddressText(gid, prefix_bits_[at])
                         : ""));
  }
  if (at == 0) {
    return Refusal(
        ErrorCode::kBadAddress,
        absl::StrCat(name(), ": ", AddressText(gid, bits),
                     " is derived from the MAC and cannot be removed"));
  }
  prefix_bits_[at] = 0;
  urnic_device_identity_set_gid(identity_.get(), at, nullptr);
  return absl::OkStatus();
}

}  // namespace urnic::control
