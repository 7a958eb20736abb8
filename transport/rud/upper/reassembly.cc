#include "transport/rud/upper/reassembly.h"

#include <cstring>
#include <utility>

#include "transport/base/mutation.h"
#include "transport/rud/upper/types.h"
#include "transport/wire/rud.h"

namespace urnic::rud::upper {
namespace {

// Longer buffers are not kept for other messages.
constexpr uint64_t kKeptBytes = 1 << 20;
constexpr size_t kKept = 16;  // buffers

uint64_t UnitBytes(uint32_t stride) { return uint64_t{stride} * kUnitPackets; }

}  // namespace

bool Reassembly::Fits(const Message& message, const MessageTag& tag,
                      const urnic_rud_receive& entry) {
  if (tag.units != message.units || entry.stride != message.stride)
    return false;
  if (tag.unit + 1 != tag.units)
    return entry.total == UnitBytes(message.stride);
  return message.last_packets == 0 || entry.total == message.last_bytes;
}

Reassembly::Message* Reassembly::Begin(const MessageTag& tag,
                                       const urnic_rud_receive& entry) {
  const uint64_t bytes = tag.units * UnitBytes(entry.stride);
  const auto fits = [&] {
    return open_.size() < limits_.messages && bytes <= limits_.bytes &&
           open_bytes_ <= limits_.bytes - bytes;
  };
  if (!fits()) DropPast();
  if (!fits()) return nullptr;
  std::unique_ptr<Message> message;
  if (unused_.empty()) {
    message = std::make_unique<Message>();
  } else {
    message = std::move(unused_.back());
    unused_.pop_back();
  }
  message->sequence = tag.sequence;
  message->units = tag.units;
  message->stride = entry.stride;
  message->arrived = message->last_packets = message->last_bytes = 0;
  message->reserved = bytes;
  message->bits.assign(tag.units, 0);
  if (message->capacity < bytes) {
    message->bytes = std::make_unique_for_overwrite<uint8_t[]>(bytes);
    message->capacity = bytes;
  }
  open_bytes_ += bytes;
  open_.push_back(std::move(message));
  return open_.back().get();
}

// Drops messages whose senders have given them up.
void Reassembly::DropPast() {
  std::erase_if(open_, [this](const std::unique_ptr<Message>& message) {
    if (!taken_.IsPast(message->sequence)) return false;
    open_bytes_ -= message->reserved;
    return true;
  });
}

Reassembly::Message* Reassembly::Find(const MessageTag& tag,
                                      const urnic_rud_receive& entry) {
  for (const std::unique_ptr<Message>& message : open_) {
    if (message->sequence != tag.sequence) continue;
    return Fits(*message, tag, entry) ? message.get() : nullptr;
  }
  if (tag.unit + 1 != tag.units && entry.total != UnitBytes(entry.stride))
    return nullptr;
  return Begin(tag, entry);
}

std::optional<std::span<const uint8_t>> Reassembly::OnPacket(
    const urnic_rud_receive& entry, const uint8_t* payload) {
  const MessageTag tag = MessageTag::Of(entry.pvo);
  // The adapter has checked that total, stride, number and bytes are
  // consistent.
  const uint32_t packets = wire::RudPackets(entry.total, entry.stride);
  if (tag.unit >= tag.units || packets > kUnitPackets) {
    ++refused_;
    return std::nullopt;
  }
  if (tag.units == 1 && packets == 1) {
    if (taken_.Take(tag.sequence) ||
        MUTATION(rud_upper_hands_a_message_out_twice, false, true))
      return std::span<const uint8_t>(payload, entry.bytes);
    ++duplicates_;
    return std::nullopt;
  }
  if (taken_.WasTaken(tag.sequence)) {
    ++duplicates_;
    return std::nullopt;
  }
  Message* const message = Find(tag, entry);
  if (message == nullptr) {
    ++refused_;
    return std::nullopt;
  }
  const auto bit = static_cast<uint16_t>(1u << entry.number);
  MUTATION_SKIPS(rud_upper_counts_a_packet_twice)
  if ((message->bits[tag.unit] & bit) != 0) {
    ++duplicates_;
    return std::nullopt;
  }
  message->bits[tag.unit] |= bit;
  ++message->arrived;
  if (tag.unit + 1 == tag.units) {
    message->last_packets = packets;
    message->last_bytes = entry.total;
  }
  std::memcpy(message->bytes.get() + tag.unit * UnitBytes(message->stride) +
                  entry.offset,
              payload, entry.bytes);
  if (message->last_packets == 0 ||
      message->arrived !=
          (message->units - 1) * kUnitPackets + message->last_packets) {
    return std::nullopt;
  }
  (void)taken_.Take(tag.sequence);
  open_bytes_ -= message->reserved;
  for (std::unique_ptr<Message>& open : open_) {
    if (open.get() != message) continue;
    handed_out_.push_back(std::move(open));
    open = std::move(open_.back());
    open_.pop_back();
    break;
  }
  return std::span<const uint8_t>(
      message->bytes.get(),
      (message->units - 1) * UnitBytes(message->stride) + message->last_bytes);
}

void Reassembly::Recycle() {
  for (std::unique_ptr<Message>& message : handed_out_) {
    if (unused_.size() < kKept && message->capacity <= kKeptBytes)
      unused_.push_back(std::move(message));
  }
  handed_out_.clear();
}

}  // namespace urnic::rud::upper
