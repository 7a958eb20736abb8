#pragma once

// Assembles messages of one peer that arrive in parts. Packets of a message may
// arrive more than once and in any order. The message is handed out once, when
// it is complete. A message of one packet needs no memory: it is handed out in
// its slot.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/rud/upper/message_tag.h"
#include "verbs/abi/rud_abi.h"

namespace urnic::rud::upper {

struct ReassemblyLimits {
  uint64_t bytes = 0;  // of all incomplete messages
  uint32_t messages = 0;
};

class Reassembly {
 public:
  explicit Reassembly(const ReassemblyLimits& limits) : limits_(limits) {}

  // Takes a packet of `entry.bytes` bytes. If its message is now complete,
  // returns the message. It is valid until Recycle(), or, in a slot, as long as
  // `payload` is. Packets that contradict earlier ones, or that the limits
  // leave no memory for, are dropped and counted: no correct peer sends them.
  std::optional<std::span<const uint8_t>> OnPacket(
      const urnic_rud_receive& entry, const uint8_t* payload);
  // The program no longer needs the messages that were handed out.
  void Recycle();
  bool HoldsMessages() const { return !handed_out_.empty(); }

  uint64_t refused() const { return refused_; }
  uint64_t duplicates() const { return duplicates_; }

 private:
  struct Message {
    uint32_t sequence = 0;
    uint32_t units = 0;
    uint32_t stride = 0;
    uint32_t arrived = 0;       // packets
    uint32_t last_packets = 0;  // of the last unit; 0: unknown
    uint32_t last_bytes = 0;
    uint64_t reserved = 0;       // bytes that count for the limit
    std::vector<uint16_t> bits;  // packets of each unit
    std::unique_ptr<uint8_t[]> bytes;
    uint64_t capacity = 0;
  };

  void DropPast();
  // The message of a packet. Null: the packet is dropped.
  Message* Find(const MessageTag& tag, const urnic_rud_receive& entry);
  Message* Begin(const MessageTag& tag, const urnic_rud_receive& entry);
  static bool Fits(const Message& message, const MessageTag& tag,
                   const urnic_rud_receive& entry);

  const ReassemblyLimits limits_;
  MessageWindow taken_;
  std::vector<std::unique_ptr<Message>> open_;
  std::vector<std::unique_ptr<Message>> handed_out_;
  std::vector<std::unique_ptr<Message>> unused_;
  uint64_t open_bytes_ = 0;
  uint64_t refused_ = 0;
  uint64_t duplicates_ = 0;
};

}  // namespace urnic::rud::upper
