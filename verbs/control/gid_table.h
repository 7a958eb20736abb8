#pragma once

// The GIDs of a device, which may change while it is open. A pair of indices
// for each address, RoCE v1 and v2, as Linux orders them: the link-local GID,
// which stays, then the addresses. One that is removed leaves its pair empty;
// one that is added takes the first empty pair (Linux: ib_cache_gid_add). What
// the configuration says is what the table begins with.
//
// Threads: any. The mutex is a leaf.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "transport/wire/address.h"
#include "verbs/identity/device_identity.h"

namespace urnic::control {

struct GidPair {
  wire::Gid gid;
  uint8_t prefix_bits = 0;  // of the GID's 128 that name its link
  uint32_t index = 0;       // RoCE v1; v2 is the next
};

class GidTable {
 public:
  explicit GidTable(const urnic_device_identity& identity);
  GidTable(const GidTable&) = delete;
  GidTable& operator=(const GidTable&) = delete;

  // The one table of this device in this process: it outlives the opening of
  // the device, as the files in sysfs do. A device that is configured
  // differently than the last one of its place gets a new one.
  static std::shared_ptr<GidTable> Of(const urnic_device_identity& identity);

  const char* name() const { return identity_->name; }
  // The number of indices, empty ones included.
  uint32_t size() const { return identity_->device_kind->gid_table_len; }

  struct Entry {
    wire::Gid gid;
    bool roce_v1 = false;
  };
  // Nothing: empty, or beyond the table.
  std::optional<Entry> At(uint32_t index) const;
  // All that are in use, by index.
  std::vector<GidPair> Pairs() const;
  // The identity with these GIDs, to be rendered.
  std::unique_ptr<urnic_device_identity> Snapshot() const;

  // ALREADY_EXISTS; RESOURCE_EXHAUSTED: the table is full.
  absl::Status Add(const urnic_ip_address& address);
  // NOT_FOUND, also with another prefix length; INVALID_ARGUMENT: the
  // link-local one, which is made of the MAC.
  absl::Status Remove(const urnic_ip_address& address);

 private:
  static constexpr uint32_t kPairs = URNIC_GID_TABLE_LEN / 2;

  // An address has a pair of indices, the link-local one the first.
  uint32_t num_pairs() const { return size() / 2; }
  // The pair that has the GID; num_pairs(): none.
  uint32_t Find(const wire::Gid& gid) const;

  mutable std::mutex mutex_;
  const std::unique_ptr<urnic_device_identity> identity_;  // its GIDs change
  std::array<uint8_t, kPairs> prefix_bits_ = {};           // 0: empty
};

// "10.1.0.1".
std::string IpText(const wire::Gid& gid);
// "10.1.0.1/24".
std::string AddressText(const wire::Gid& gid, uint8_t prefix_bits);

}  // namespace urnic::control
