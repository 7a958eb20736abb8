#pragma once

// The sender and the third party of a packet, in its headers. data_headers.h
// writes the headers of data packets.

#include <cstdint>

#include "transport/rud/context_pool.h"
#include "transport/rud/types.h"
#include "transport/wire/appender.h"
#include "transport/wire/rud.h"

namespace urnic::rud {

constexpr bool HasThird(wire::RudType type) {
  return type == wire::RudType::kThirdReadRequest ||
         type == wire::RudType::kThirdData;
}
// The sender, with the context that the packet contains.
inline Party SenderOf(const RxPacket& packet, const wire::RudContext& context) {
  return {packet.peer, packet.base->sender_window(), IdOf(context)};
}
// REQUIRES: HasThird(packet.type)
inline Party ThirdOf(const RxPacket& packet) {
  const wire::RudThird& third = packet.third();
  return {packet.third_peer, third.number(), IdOf(third.context)};
}
// Who wants to be told of the completion. A third party only if the packet has
// one.
inline uint8_t WishesOf(const RxPacket& packet) {
  return HasThird(packet.type) ? packet.base->notify
                               : packet.base->notify & ~wire::kRudNotifyThird;
}

// Appends the third header, which is the last one.
inline void AppendThird(TxPacket& out, const Party& third) {
  wire::RudThird header;  // without the address, which the caller adds
  header.window = wire::Be<uint32_t>(third.window);
  header.context = ToWire(third.context);
  wire::Appender(out.headers + out.header_bytes).Append(header);
  out.header_bytes += sizeof(header);
  out.third_peer = third.peer;
}

// The third header, where the caller adds the address. REQUIRES:
// packet.third_peer != 0
inline wire::RudThird& ThirdAtEnd(const TxPacket& packet) {
  return *reinterpret_cast<wire::RudThird*>(
      packet.headers + packet.header_bytes - sizeof(wire::RudThird));
}

}  // namespace urnic::rud
