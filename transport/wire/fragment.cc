#include "transport/wire/fragment.h"

#include "transport/wire/reader.h"
#include "transport/wire/wires.h"

namespace urnic::wire {
namespace {

constexpr uint32_t kLengthMax = 65535;  // the largest value of a length field

}  // namespace

RxVerdict ParseFragment(const FrameView& view, Fragment& out) {
  out.src = view.src;
  out.dst = view.dst;
  out.marked = view.congestion_experienced();
  Reader reader(view.payload_span());
  uint8_t& protocol = out.protocol;
  uint32_t length_max = kLengthMax;
  if (view.ipv6()) {
    const Ipv6Fragment* header = reader.Take<Ipv6Fragment>();
    if (header == nullptr) return RxVerdict::kBadFragment;
    protocol = header->next_header;
    out.identification = header->identification.value();
    out.offset = header->offset();
    out.last = !header->more();
  } else {
    const Ipv4& header = *reinterpret_cast<const Ipv4*>(view.l3);
    protocol = header.protocol;
    length_max -= sizeof(Ipv4);
    out.identification = header.identification.value();
    out.offset = header.fragment_offset();
    out.last = !header.more_fragments();
  }
  out.data = reader.rest();
  if (protocol != kIpProtocolUdp &&
      FindWire(view.ipv6() ? Carrier::kIpv6 : Carrier::kIpv4, protocol) !=
          Wire::kIcmp) {
    return RxVerdict::kIpFragment;
  }
  //= RFC 8200 4.5: each fragment but the last has a multiple of 8 bytes, and
  //= the length of the packet is at most 65535
  if (out.data.empty() || (!out.last && out.data.size() % 8 != 0) ||
      out.end() > length_max) {
    return RxVerdict::kBadFragment;
  }
  return RxVerdict::kAccept;
}

}  // namespace urnic::wire
