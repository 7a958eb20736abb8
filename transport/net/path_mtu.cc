#include "transport/net/path_mtu.h"

#include <algorithm>

namespace urnic::net {
namespace {

//= RFC 1191 7: if the router does not name an MTU, the next lower common value
//= (plateau) is tried
uint32_t NextPlateau(uint32_t packet_bytes) {
  constexpr uint32_t kPlateaus[] = {32000, 17914, 8166, 4352, 2002, 1492, 1006};
  for (const uint32_t plateau : kPlateaus) {
    if (plateau < packet_bytes) return plateau;
  }
  return 0;
}

}  // namespace

PathMtuCache::Entry* PathMtuCache::FindEntry(const wire::Gid& remote) {
  const auto at =
      std::find_if(entries_.begin(), entries_.end(),
                   [&remote](const Entry& e) { return e.remote == remote; });
  return at == entries_.end() ? nullptr : &*at;
}

uint32_t PathMtuCache::Find(const wire::Gid& remote, uint32_t link_mtu,
                            Time now) const {
  for (const Entry& entry : entries_) {
    if (entry.remote == remote && now < entry.until) {
      return std::min(entry.mtu, link_mtu);
    }
  }
  return link_mtu;
}

uint32_t PathMtuCache::ReportedMtu(const wire::Gid& remote, uint32_t mtu,
                                   uint32_t packet_bytes) {
  if (remote.is_ipv4()) {
    if (mtu == 0) mtu = NextPlateau(packet_bytes);
    mtu = std::max(mtu, kFloorIpv4);
  } else if (mtu < kFloorIpv6) {
    return 0;
  }
  // Otherwise the packet would have fitted.
  return mtu < packet_bytes ? mtu : 0;
}

bool PathMtuCache::Learn(const wire::Gid& remote, uint32_t mtu, Time now) {
  mtu = std::max(mtu, remote.is_ipv4() ? kFloorIpv4 : kFloorIpv6);
  Entry* entry = FindEntry(remote);
  if (entry != nullptr && now < entry->until && entry->mtu <= mtu) {
    // The same value again: it still holds.
    if (entry->mtu == mtu) entry->until = now + kLifetime;
    return false;
  }
  if (entry == nullptr && entries_.size() < capacity_) {
    entry = &entries_.emplace_back();
  } else if (entry == nullptr) {
    entry = &*std::min_element(
        entries_.begin(), entries_.end(),
        [](const Entry& a, const Entry& b) { return a.until < b.until; });
  }
  changes_ += entry->changed ? 0 : 1;
  *entry = Entry{remote, mtu, now + kLifetime, true};
  return true;
}

bool PathMtuCache::TakeChange(Change& out) {
  if (changes_ == 0) return false;
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [](const Entry& e) { return e.changed; });
  at->changed = false;
  --changes_;
  out = {at->remote, at->mtu};
  return true;
}

}  // namespace urnic::net
