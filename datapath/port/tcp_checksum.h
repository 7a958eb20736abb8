#pragma once

// Offload of TCP checksums to ports. Only vhost and virtio_user finish them
// (Port::finishes_tcp_checksums()), if the peer has agreed: for a peer in
// shared memory the checksum is not computed at all, and the peer does not
// check it.

#include <rte_mbuf.h>

#include <cstdint>

namespace urnic {

// Asks the port to finish the checksum of the frame, a TCP segment whose
// checksum field has the sum of the pseudo header. REQUIRES: the port finishes
// checksums.
inline void AskForTcpChecksum(rte_mbuf* frame, uint32_t l2_bytes,
                              uint32_t l3_bytes, bool ipv6) {
  frame->l2_len = l2_bytes;
  frame->l3_len = l3_bytes;
  frame->ol_flags |= RTE_MBUF_F_TX_TCP_CKSUM |
                     (ipv6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4);
}

// The checksum of a received segment need not be checked: the port has checked
// it, or the peer in shared memory has not computed it.
inline bool TcpChecksumIsVouchedFor(const rte_mbuf& frame) {
  const uint64_t said = frame.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
  return said == RTE_MBUF_F_RX_L4_CKSUM_GOOD ||
         said == RTE_MBUF_F_RX_L4_CKSUM_NONE;
}

}  // namespace urnic
