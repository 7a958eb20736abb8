#pragma once

// Messages of one peer that arrive in parts. A packet of a message comes once
// or more often, in any order; the message is handed out once, when all of it
// is there. A message of one packet needs no memory: it is handed out where it
// lies.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/rud/upper/message_tag.h"
#include "verbs/abi/rud_abi.h"

namespace urnic::rud::upper {

struct ReassemblyLimits {
  uint64_t bytes = 0;  // of all that are not complete
  uint32_t messages = 0;
};

class Reassembly {
 public:
  explicit Reassembly(const ReassemblyLimits& limits) : limits_(limits) {}

  // A packet, `entry.bytes` long. A message that is now complete; it is valid
  // until Recycle(), or as long as `payload` is. Packets that do not fit to
  // what has arrived, or for which the limits leave no memory, are dropped and
  // counted: no peer of our kind sends them.
  std::optional<std::span<const uint8_t>> OnPacket(
      const urnic_rud_receive& entry, const uint8_t* payload);
  // The program does not need the messages any more that were handed out.
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
    uint32_t last_packets = 0;  // of the last unit; 0: not known
    uint32_t last_bytes = 0;
    uint64_t reserved = 0;       // bytes of the limit
    std::vector<uint16_t> bits;  // of each unit
    std::unique_ptr<uint8_t[]> bytes;
    uint64_t capacity = 0;
  };

  void DropPast();
  // Null: the packet is dropped.
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
