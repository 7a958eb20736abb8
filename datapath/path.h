#pragma once

// Where the packets of a queue pair go: everything that a packet needs, built
// once, so that no packet looks anything up.

#include <cstdint>

#include "transport/wire/address.h"
#include "transport/wire/header_template.h"
#include "transport/wire/icrc.h"

namespace urnic {

// The running ICRC over the headers before the BTH, per frame length: those
// headers depend on nothing else while identification is 0.
class IcrcPrefixCache {
 public:
  // `key` stands for everything in the headers that may differ between two
  // packets of this path and that the ICRC covers.
  template <typename Compute>
  uint32_t Get(uint64_t key, Compute&& compute) {
    // The lengths of RoCE packets are multiples of four: an acknowledgement
    // and a short send must not share an entry.
    Entry& entry = entries_[(key >> 2) & (kEntries - 1)];
    if (entry.key != key) entry = {key, compute()};
    return entry.state;
  }
  void Clear() {
    for (Entry& entry : entries_) entry = Entry{};
  }

 private:
  static constexpr size_t kEntries = 4;
  struct Entry {
    uint64_t key = 0;  // no real key is 0: lengths are not
    uint32_t state = 0;
  };
  Entry entries_[kEntries];
};

struct Path {
  wire::HeaderTemplate headers;
  IcrcPrefixCache sent;
  IcrcPrefixCache received;
  // Whom packets to us are for; of a path whose source is gone no packet's
  // destination: zero. What goes out bears `headers`.
  wire::Gid local;
  wire::Gid remote;
  bool loopback = false;   // `remote` is an address of this same device
  bool multicast = false;  // `remote` is a group
  // The source is no address of the device any more: nothing goes out.
  bool source_gone = false;
};

}  // namespace urnic
