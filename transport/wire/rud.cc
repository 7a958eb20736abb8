#include "transport/wire/rud.h"

namespace urnic::wire {
namespace {

// Flags that say something else of the payload do not go with a list.
bool ListFits(const RudPacket& packet) {
  return packet.type == RudType::kData &&
         (packet.base->flags & (kRudToFifo | kRudAnswersRead)) == 0 &&
         RudListFits({packet.payload, packet.payload_bytes});
}

bool DataFits(const RudPacket& packet) {
  const RudData& data = packet.data();
  return RudDataFits(data.total.value(), data.offset.value(),
                     data.stride.value(), data.number, packet.payload_bytes) &&
         (!packet.is_list() || ListFits(packet));
}

bool ReadFits(const RudRead& read) {
  return RudPacketsFit(read.packets.value(), read.total.value(),
                       read.stride.value());
}

bool CompletionsFit(const RudPacket& packet) {
  constexpr uint32_t kEach = sizeof(RudCompletion);
  const uint32_t bytes = packet.payload_bytes;
  if (bytes == 0 || bytes % kEach != 0 || bytes > kRudMaxCompletions * kEach)
    return false;
  for (uint32_t i = 0; i < packet.completions(); ++i) {
    if (packet.completion(i).status !=
        static_cast<uint8_t>(RudStatus::kComplete)) {
      return false;
    }
  }
  return true;
}

bool Fits(const RudPacket& packet) {
  switch (packet.type) {
    case RudType::kData:
    case RudType::kThirdData:
      return DataFits(packet);
    case RudType::kReadRequest:
    case RudType::kThirdReadRequest:
      return packet.payload_bytes == 0 && ReadFits(packet.read());
    case RudType::kFifo:
      return true;
    case RudType::kCompletion:
      return CompletionsFit(packet);
    case RudType::kNotice:
      return packet.payload_bytes == 0 && packet.notice().reason < kRudReasons;
    case RudType::kStateRequest:
      return packet.payload_bytes == 0;
  }
  return false;
}

}  // namespace

bool RudListFits(std::span<const uint8_t> list) {
  for (uint32_t i = 0; i < kRudMaxWrites; ++i) {
    if (list.size() < sizeof(RudListEntry)) return false;
    const auto& write = *reinterpret_cast<const RudListEntry*>(list.data());
    const size_t bytes = sizeof(write) + write.bytes.value();
    if (list.size() < bytes) return false;
    list = list.subspan(bytes);
    if (list.empty()) return true;
  }
  return false;
}

RxVerdict ParseRud(const uint8_t* bytes, uint32_t length, RudPacket& out) {
  if (length < sizeof(RudBase) + kRudCrcBytes) return RxVerdict::kTruncated;
  const RudBase& base = *reinterpret_cast<const RudBase*>(bytes);
  if (base.version() != kRudVersion) return RxVerdict::kRudBadVersion;
  const uint32_t headers = RudHeaderBytes(base.type());
  if (headers == 0) return RxVerdict::kRudMalformed;
  if (length < headers + kRudCrcBytes) return RxVerdict::kTruncated;
  out.base = &base;
  out.type = static_cast<RudType>(base.type());
  out.payload = bytes + headers;
  out.payload_bytes = length - headers - kRudCrcBytes;
  const bool known =
      (base.flags & ~kRudFlags) == 0 && (base.notify & ~kRudNotifications) == 0;
  if (!known || out.payload_bytes != base.payload_bytes.value() || !Fits(out)) {
    return RxVerdict::kRudMalformed;
  }
  return RxVerdict::kAccept;
}

Crc32c RudCrcOfAddresses(const Gid& source, const Gid& target) {
  Crc32c crc;
  crc.Add(source.bytes).Add(target.bytes);
  return crc;
}

}  // namespace urnic::wire
