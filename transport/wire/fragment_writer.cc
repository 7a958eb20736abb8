#include "transport/wire/fragment_writer.h"

#include <algorithm>
#include <cstring>

#include "transport/base/check.h"
#include "transport/wire/checksum.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"

namespace urnic::wire {

FragmentWriter::FragmentWriter(const HeaderTemplate& headers,
                               std::span<const uint8_t> frame,
                               uint32_t identification, uint32_t mtu)
    : head_(frame.first(headers.ip_end())),
      message_(frame.subspan(headers.ip_end())),
      ip_offset_(headers.ip_offset()),
      ipv6_(headers.framing() == Framing::kIpv6),
      identification_(identification) {
  const size_t ip_header =
      head_.size() - ip_offset_ + (ipv6_ ? sizeof(Ipv6Fragment) : 0);
  URNIC_CHECK(mtu >= 68);
  //= RFC 791 3.2, RFC 8200 4.5: each fragment but the last has a multiple of 8
  //= bytes
  per_frame_ = static_cast<uint32_t>(mtu - ip_header) & ~7u;
}

size_t FragmentWriter::WriteNext(uint8_t* out) {
  const auto left = static_cast<uint32_t>(message_.size()) - at_;
  const uint32_t bytes = std::min(per_frame_, left);
  const bool more = bytes < left;
  std::memcpy(out, head_.data(), head_.size());
  size_t size = head_.size();
  if (ipv6_) {
    auto& ip = *reinterpret_cast<Ipv6*>(out + ip_offset_);
    Ipv6Fragment fragment;
    fragment.next_header = ip.next_header;
    fragment.offset_more = Be<uint16_t>(
        static_cast<uint16_t>(at_ | (more ? Ipv6Fragment::kMoreFragments : 0)));
    fragment.identification = Be<uint32_t>(identification_);
    ip.next_header = kIpv6NextFragment;
    ip.payload_length =
        Be<uint16_t>(static_cast<uint16_t>(sizeof(fragment) + bytes));
    std::memcpy(out + size, &fragment, sizeof(fragment));
    size += sizeof(fragment);
  } else {
    auto& ip = *reinterpret_cast<Ipv4*>(out + ip_offset_);
    ip.total_length = Be<uint16_t>(static_cast<uint16_t>(sizeof(ip) + bytes));
    ip.identification = Be<uint16_t>(static_cast<uint16_t>(identification_));
    ip.flags_fragment = Be<uint16_t>(
        static_cast<uint16_t>(at_ / 8 | (more ? Ipv4::kMoreFragments : 0)));
    ip.checksum = Be<uint16_t>(0);
    ip.checksum = Be<uint16_t>(ChecksumSum().AddHeader(ip).Finish());
  }
  std::memcpy(out + size, message_.data() + at_, bytes);
  size += bytes;
  at_ += bytes;
  if (size < kEthernetMinBytes) {
    std::memset(out + size, 0, kEthernetMinBytes - size);
    size = kEthernetMinBytes;
  }
  return size;
}

}  // namespace urnic::wire
