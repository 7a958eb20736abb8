#pragma once

// What the headers of packets say of who sent one, and of third parties. Those
// of data are in data_headers.h.

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
// Of the sender's context, as the packet names it.
inline Party SenderOf(const RxPacket& packet, const wire::RudContext& context) {
  return {packet.peer, packet.base->sender_window(), IdOf(context)};
}
// REQUIRES: HasThird(packet.type)
inline Party ThirdOf(const RxPacket& packet) {
  const wire::RudThird& third = packet.third();
  return {packet.third_peer, third.number(), IdOf(third.context)};
}
// Who wants to know. Without a third party, none is told.
inline uint8_t WishesOf(const RxPacket& packet) {
  return HasThird(packet.type) ? packet.base->notify
                               : packet.base->notify & ~wire::kRudNotifyThird;
}

// Appends the third header, the last of a packet's.
inline void AppendThird(TxPacket& out, const Party& third) {
  wire::RudThird header;  // without the address, which the caller knows
  header.window = wire::Be<uint32_t>(third.window);
  header.context = ToWire(third.context);
  wire::Appender(out.headers + out.header_bytes).Append(header);
  out.header_bytes += sizeof(header);
  out.third_peer = third.peer;
}

// For the caller's address. REQUIRES: packet.third_peer != 0
inline wire::RudThird& ThirdAtEnd(const TxPacket& packet) {
  return *reinterpret_cast<wire::RudThird*>(
      packet.headers + packet.header_bytes - sizeof(wire::RudThird));
}

}  // namespace urnic::rud
