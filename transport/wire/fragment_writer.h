#pragma once

// Divides an IP packet into fragments.

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/wire/header_template.h"

namespace urnic::wire {

// A frame with a whole IP packet, longer than a link carries, as frames with
// its fragments.
class FragmentWriter {
 public:
  // `frame`: what `headers` has written, and what follows; it outlives this
  // object. `identification`: for IPv4, the lower half. `mtu`: the longest IP
  // packet. REQUIRES: mtu >= 68, and not a GRH.
  //= RFC 791 2.3, RFC 8200 4.5: the identification is another for each packet
  //= of the same addresses and protocol that may still be under way
  FragmentWriter(const HeaderTemplate& headers, std::span<const uint8_t> frame,
                 uint32_t identification, uint32_t mtu);

  bool done() const { return at_ == message_.size(); }
  // Writes the next frame, with the padding of a short one, and returns its
  // length. REQUIRES: !done(), and `out` has room for the MTU, the link's
  // header, and kEthernetMinBytes.
  size_t WriteNext(uint8_t* out);

 private:
  const std::span<const uint8_t> head_;     // up to the IP header's end
  const std::span<const uint8_t> message_;  // behind it
  const size_t ip_offset_;
  const bool ipv6_;
  const uint32_t identification_;
  uint32_t per_frame_;
  uint32_t at_ = 0;
};

}  // namespace urnic::wire
