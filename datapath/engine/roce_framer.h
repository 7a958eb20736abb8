#pragma once

// The framer of one wire: RoCE v2 and v1. It builds frames from a path and a
// slot that a core has filled, and checks received frames against the path of
// their queue pair. Its only state is in the paths' caches of hashed headers.
//
// Token holder only; inline, for the loop that includes it.

#include <rte_mbuf.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "datapath/engine/roce_path.h"
#include "datapath/memory/address_space.h"
#include "transport/wire/frame.h"
#include "transport/wire/icrc.h"
#include "transport/work/types.h"

namespace urnic {

class RoceFramer {
 public:
  // --- Out -----------------------------------------------------------------

  // Builds the frame. Seal() adds the ICRC later if the payload is short.
  // False: the payload's memory is not mapped.
  static bool Build(RocePath& path, AddressSpace& memory, const TxSlot& slot,
                    rte_mbuf* frame) {
    return HashesOnTheWay(slot) ? BuildHashed(path, memory, slot, frame)
                                : BuildPlain(path, memory, slot, frame);
  }

  // Adds the ICRC of a small packet, in a second pass over the burst. Directly
  // after the stores of the headers, the loads would stall: 13 ns a packet
  // instead of 6.
  static void Seal(RocePath& path, const TxSlot& slot, rte_mbuf* frame) {
    if (HashesOnTheWay(slot)) return;
    uint8_t* const start = rte_pktmbuf_mtod(frame, uint8_t*);
    uint8_t* const bth = start + path.headers.size();
    const uint32_t covered = CoveredBytes(slot);
    wire::StoreIcrc(
        bth + covered,
        wire::IcrcExtend(PrefixOfSent(path, slot, start), bth, covered));
  }

  // --- In ------------------------------------------------------------------

  // True if the frame comes from the peer of a connected queue pair: its
  // addresses and its framing are those of the path.
  static bool IsFromPeer(const RocePath& path, const wire::FrameView& view) {
    return view.framing == path.headers.framing() && view.src == path.remote &&
           view.dst == path.local;
  }

  // Returns the running ICRC up to the BTH, if the frame has the same headers
  // as an earlier one from the path's peer; otherwise null. Such a frame is
  // plain (wire::PlainHeaders), complete, of our VLAN and without a congestion
  // mark. REQUIRES: frame.size() >= sizeof(wire::PlainHeaders).
  static const uint32_t* FindKnown(const RocePath& path,
                                   std::span<const uint8_t> frame) {
    const auto& [eth, ip, udp] =
        *reinterpret_cast<const wire::PlainHeaders*>(frame.data());
    const uint32_t ip_bytes = ip.total_length.value();
    if (eth.ether_type.value() != wire::kEtherTypeIpv4 ||
        path.headers.is_tagged() || frame.size() < sizeof(eth) + ip_bytes ||
        udp.length.value() + uint32_t{sizeof(ip)} != ip_bytes ||
        wire::Gid::FromIpv4(ip.src) != path.remote ||
        wire::Gid::FromIpv4(ip.dst) != path.local) {
      return nullptr;
    }
    return path.received.Find(reinterpret_cast<const uint8_t*>(&ip));
  }

  // Checks the ICRC, and keeps the headers of a peer's packet for FindKnown().
  // REQUIRES: the frame was parsed and is of our VLAN; `from_peer` is the
  // result of IsFromPeer().
  static bool IcrcIsRight(RocePath& path, const wire::FrameView& view,
                          bool from_peer) {
    if (__builtin_expect(!from_peer || view.framing != wire::Framing::kIpv4 ||
                             view.congestion_experienced(),
                         0)) {
      return wire::VerifyIcrc(view.l3, view.framing, view.payload_bytes);
    }
    const uint32_t* const known = path.received.Find(view.l3);
    const uint32_t prefix =
        known != nullptr ? *known : wire::IcrcPrefix(view.l3, view.framing);
    if (!wire::VerifyIcrcAfter(prefix, view.payload, view.payload_bytes)) {
      return false;
    }
    if (known == nullptr) path.received.Keep(view.l3, prefix);
    return true;
  }

 private:
  // Payloads from this size on are hashed while they are copied.
  static constexpr uint32_t kHashOnTheWay = 512;
  static bool HashesOnTheWay(const TxSlot& slot) {
    return slot.payload_bytes >= kHashOnTheWay && slot.segment_count == 1;
  }

  // The number of bytes from the BTH to the end of the padding.
  static uint32_t CoveredBytes(const TxSlot& slot) {
    return slot.header_bytes + slot.payload_bytes + slot.pad_bytes;
  }

  // Writes everything before the payload, and the lengths; returns the BTH.
  static uint8_t* WriteHeaders(const RocePath& path, const TxSlot& slot,
                               rte_mbuf* frame) {
    uint8_t* const start = rte_pktmbuf_mtod(frame, uint8_t*);
    const wire::HeaderTemplate& headers = path.headers;
    const auto roce_bytes =
        static_cast<uint16_t>(CoveredBytes(slot) + wire::kIcrcBytes);
    headers.Write(start, roce_bytes);
    uint8_t* const bth = start + headers.size();
    std::memcpy(bth, slot.headers, kMaxHeaderBytes);
    frame->data_len = static_cast<uint16_t>(headers.size() + roce_bytes);
    frame->pkt_len = frame->data_len;
    return bth;
  }

  static bool BuildPlain(const RocePath& path, AddressSpace& memory,
                         const TxSlot& slot, rte_mbuf* frame) {
    uint8_t* at = WriteHeaders(path, slot, frame) + slot.header_bytes;
    for (uint32_t i = 0; i < slot.segment_count; ++i) {
      const Segment& segment = slot.segments[i];
      if (!memory.Copy(at, reinterpret_cast<const void*>(segment.address),
                       segment.bytes)) {
        return false;
      }
      at += segment.bytes;
    }
    std::memset(at, 0, 4);  // the padding; the ICRC follows or overwrites it
    return true;
  }

  // The running ICRC over a frame's headers, up to the BTH.
  static uint32_t PrefixOfSent(RocePath& path, const TxSlot& slot,
                               const uint8_t* frame) {
    const wire::HeaderTemplate& headers = path.headers;
    const uint32_t length = CoveredBytes(slot) + wire::kIcrcBytes;
    return path.sent.Get(static_cast<uint16_t>(length), [&] {
      return wire::IcrcPrefix(frame + headers.ip_offset(), headers.framing());
    });
  }

  // Builds a frame with a long payload in one piece, including the ICRC.
  static bool BuildHashed(RocePath& path, AddressSpace& memory,
                          const TxSlot& slot, rte_mbuf* frame) {
    uint8_t* at = WriteHeaders(path, slot, frame) + slot.header_bytes;
    uint32_t hash = wire::IcrcExtend(
        PrefixOfSent(path, slot, rte_pktmbuf_mtod(frame, const uint8_t*)),
        slot.headers, slot.header_bytes);
    // Whole words first. The last word, which has padding, is copied, padded
    // and hashed separately.
    const uint32_t words = slot.payload_bytes & ~3u;
    const auto* source =
        reinterpret_cast<const uint8_t*>(slot.segments[0].address);
    if (!memory.CopyHashed(at, source, words, wire::kFoldingIcrc, &hash)) {
      return false;
    }
    at += words;
    if (slot.pad_bytes != 0) {
      std::memset(at, 0, 16);
      if (!memory.Copy(at, source + words, slot.payload_bytes - words)) {
        return false;
      }
      hash = wire::IcrcContinue(hash, at, 4);
      at += 4;
    }
    wire::StoreIcrc(at, hash);
    return true;
  }
};

}  // namespace urnic
