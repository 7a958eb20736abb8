#pragma once

// What the headers of packets say: who sent one, and where data belongs.

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

// The fields by which a data packet says where it belongs.
struct DataPlace {
  ContextId to;
  ContextId from;
  uint64_t tid;
  uint64_t pvo;  // of the transfer
  uint32_t total;
  uint16_t stride;
};

// Appends the headers of packet `number`, and returns its payload's offset in
// the transfer.
inline uint32_t AppendData(TxPacket& out, wire::RudBase base,
                           const DataPlace& place, uint8_t number) {
  using wire::Be;
  const uint32_t offset = uint32_t{number} * place.stride;
  out.payload_bytes = wire::RudPayloadOf(place.total, place.stride, number);
  base.payload_bytes = Be<uint16_t>(static_cast<uint16_t>(out.payload_bytes));
  wire::RudTransfer transfer;
  transfer.context = ToWire(place.to);
  transfer.tid = Be<uint64_t>(place.tid);
  wire::RudData data;
  data.pvo = Be<uint64_t>(place.pvo + offset);
  data.total = Be<uint32_t>(place.total);
  data.offset = Be<uint32_t>(offset);
  data.stride = Be<uint16_t>(place.stride);
  data.number = number;
  data.source = ToWire(place.from);
  wire::Appender appender(out.headers);
  appender.Append(base);
  appender.Append(transfer);
  appender.Append(data);
  out.header_bytes = static_cast<uint16_t>(appender.size());
  return offset;
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
