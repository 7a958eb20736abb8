#pragma once

// The addresses of a port, which may change while it is open, and the GIDs of
// its RoCE device that follow from them. (The GID of an iWARP device does not
// depend on addresses.) Each address has a pair of indices, for RoCE v1 and v2.
// The order is that of Linux: the link-local GID, which never changes, then the
// addresses. A removed address leaves its pair empty, and a new one takes the
// first empty pair (Linux: ib_cache_gid_add). The table starts with the
// configured addresses.
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
  uint8_t prefix_bits = 0;  // prefix length of its link, within the GID's 128
  uint32_t index = 0;       // of RoCE v1; v2 has the next one
  bool is_iwarp = false;    // marked for iWARP: see urnic_rdma_cm_kind()
};

class GidTable {
 public:
  explicit GidTable(const urnic_device_identity& identity);
  GidTable(const GidTable&) = delete;
  GidTable& operator=(const GidTable&) = delete;

  // The only table of this device's port in this process. Like the files in
  // sysfs, it exists before the port is opened and after it is closed. A port
  // whose configuration differs from that of its predecessor gets a new table.
  static std::shared_ptr<GidTable> Of(const urnic_device_identity& identity);

  const char* name() const { return identity_->port_name; }
  // The number of indices, empty ones included.
  uint32_t size() const { return identity_->device_kind->gid_table_len; }

  struct Entry {
    wire::Gid gid;
    bool roce_v1 = false;
  };
  // None: the index is empty, or beyond the table.
  std::optional<Entry> At(uint32_t index) const;
  // All GIDs in use, by index.
  std::vector<GidPair> Pairs() const;
  // The identity of the RoCE device with its current GIDs, for rendering.
  std::unique_ptr<urnic_device_identity> Snapshot() const;

  // ALREADY_EXISTS: the table has this address; RESOURCE_EXHAUSTED: the table
  // is full; INVALID_ARGUMENT: the address is marked for iWARP, and the port
  // has no iWARP device.
  absl::Status Add(const urnic_ip_address& address);
  // NOT_FOUND: no such address, or its prefix length differs. INVALID_ARGUMENT:
  // the link-local one, which is derived from the MAC.
  absl::Status Remove(const urnic_ip_address& address);

 private:
  static constexpr uint32_t kPairs = URNIC_GID_TABLE_LEN / 2;

  // Each address has a pair of indices; the link-local one has the first.
  uint32_t num_pairs() const { return size() / 2; }
  // The pair with this GID; num_pairs() if there is none.
  uint32_t Find(const wire::Gid& gid) const;

  mutable std::mutex mutex_;
  const std::unique_ptr<urnic_device_identity> identity_;  // its GIDs change
  std::array<uint8_t, kPairs> prefix_bits_ = {};           // 0: empty
  std::array<bool, kPairs> is_iwarp_ = {};
};

// "10.1.0.1/24".
std::string AddressText(const wire::Gid& gid, uint8_t prefix_bits);

}  // namespace urnic::control
