// The program's side of the rings against the RNIC's side.

#include "transport/rud/upper/rings.h"

#include <gtest/gtest.h>

#include <vector>

#include "transport/rud/receive_fifo.h"
#include "transport/rud/send_fifo.h"

namespace urnic::rud::upper {
namespace {

constexpr uint32_t kEntries = 4;
constexpr uint32_t kSlotBytes = 64;

struct Memory {
  std::vector<urnic_rud_send> sends = std::vector<urnic_rud_send>(kEntries);
  std::vector<urnic_rud_receive> receives =
      std::vector<urnic_rud_receive>(kEntries);
  std::vector<uint8_t> slots = std::vector<uint8_t>(kEntries * kSlotBytes);
  urnic_queue_indices send_indices = {};
  urnic_queue_indices receive_indices = {};

  RingMemory Rings() {
    return {.sends = sends.data(),
            .send_indices = &send_indices,
            .send_slots = slots.data(),
            .receives = receives.data(),
            .receive_indices = &receive_indices,
            .receive_slots = slots.data(),
            .send_count = kEntries,
            .send_slot_bytes = kSlotBytes,
            .receive_count = kEntries,
            .receive_slot_bytes = kSlotBytes};
  }
};

TEST(SendRing, TheRnicSeesWhatIsPublishedAndMakesRoom) {
  Memory memory;
  SendRing ring(memory.Rings());
  SendFifo rnic(memory.sends.data(), kEntries, &memory.send_indices,
                memory.slots.data(), kSlotBytes);
  for (uint32_t turn = 0; turn < 3; ++turn) {
    for (uint32_t i = 0; i < kEntries; ++i) {
      ASSERT_TRUE(ring.HasRoom());
      ring.Next().tid = turn * kEntries + i;
      ring.Post();
    }
    EXPECT_FALSE(ring.HasRoom());
    EXPECT_EQ(rnic.Waiting(), 0u);
    ring.Publish();
    EXPECT_FALSE(ring.HasUnpublished());
    for (uint32_t i = 0; i < kEntries; ++i) {
      urnic_rud_send read;
      rnic.Read(read);
      EXPECT_EQ(read.tid, turn * kEntries + i);
      rnic.Finish(i == 2 ? URNIC_RUD_OLD_TID : URNIC_RUD_SENT);
    }
    rnic.Publish();
    std::vector<uint64_t> refused;
    ring.Collect(
        [&](const urnic_rud_send& entry) { refused.push_back(entry.tid); });
    EXPECT_EQ(refused, std::vector<uint64_t>{turn * kEntries + 2});
    EXPECT_EQ(ring.Room(), kEntries);
  }
}

TEST(SendRing, AnIndexThatMakesNoSenseIsNotBelieved) {
  Memory memory;
  SendRing ring(memory.Rings());
  ring.Post();
  ring.Publish();
  memory.send_indices.consumer = 7;
  ring.Collect([](const urnic_rud_send&) { FAIL(); });
  EXPECT_EQ(ring.Room(), kEntries - 1);
}

TEST(ReceiveRing, EntriesComeInTheirOrderAndAreGivenBackTogether) {
  Memory memory;
  ReceiveRing ring(memory.Rings());
  ReceiveFifo rnic(memory.receives.data(), kEntries, &memory.receive_indices,
                   memory.slots.data(), kSlotBytes);
  uint64_t written = 0;
  uint64_t read = 0;
  for (uint32_t turn = 0; turn < 5; ++turn) {
    urnic_rud_receive entry = {};
    entry.type = URNIC_RUD_GOT_DATA;
    uint8_t byte = 0;
    do {
      entry.tid = ++written;
      byte = static_cast<uint8_t>(written);
    } while (rnic.Push(entry, {&byte, 1}));
    --written;
    EXPECT_EQ(ring.Front(), nullptr);
    rnic.Publish();
    while (ring.Front() != nullptr) {
      EXPECT_EQ(ring.Front()->tid, ++read);
      EXPECT_EQ(*ring.FrontSlot(), static_cast<uint8_t>(read));
      ring.Pop();
    }
    EXPECT_EQ(read, written);
    // There is no room before the entries are returned.
    EXPECT_FALSE(rnic.Push(entry, {}));
    ring.Return();
  }
}

}  // namespace
}  // namespace urnic::rud::upper
