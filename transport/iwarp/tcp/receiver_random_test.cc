// Segments cut, overlapped, repeated, reordered and contradictory, beside a
// model.

#include <gtest/gtest.h>

#include "tests/support/random.h"
#include "transport/iwarp/tcp/receiver_model.h"

namespace urnic::tcp {
namespace {

using testing::Random;

class ReceiverRandomTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ReceiverRandomTest, AgreesWithAMapOfBytes) {
  Random random(GetParam());
  // The sequence numbers wrap early in the stream.
  ModelledReceiver model(0xffffff00u +
                         static_cast<uint32_t>(random.Below(512)));
  for (int i = 0; i < 400; ++i) {
    const auto distance = static_cast<int32_t>(random.Below(300)) - 60;
    const auto bytes = static_cast<uint32_t>(random.Below(80));
    const RxVerdict verdict =
        model.Segment(random.OneIn(4) ? 0 : distance, bytes, random.OneIn(300),
                      random.Byte());
    EXPECT_NE(verdict, RxVerdict::kTcpNoRoom);
  }
  model.CloseHoles();
}

// Of a custody that is nearly always full.
TEST_P(ReceiverRandomTest, AFullCustodyLosesNothingThatWasAcknowledged) {
  Random random(GetParam());
  ModelledReceiver model(static_cast<uint32_t>(random.Next()),
                         1 + static_cast<uint32_t>(random.Below(6)));
  model.end().frames.limit = random.Below(5);
  int no_room = 0;
  for (int i = 0; i < 400; ++i) {
    const auto distance = static_cast<int32_t>(random.Below(300)) - 60;
    const auto bytes = static_cast<uint32_t>(random.Below(80));
    no_room += model.Segment(random.OneIn(8) ? 0 : distance, bytes, false,
                             random.Byte()) == RxVerdict::kTcpNoRoom;
  }
  EXPECT_GT(no_room, 0);
  model.CloseHoles();
}

// A small window that opens and closes.
TEST_P(ReceiverRandomTest, KeepsToAWindowThatChanges) {
  Random random(GetParam());
  ModelledReceiver model(static_cast<uint32_t>(random.Next()));
  auto& end = model.end();
  end.config.window_bytes = 500;
  end.config.mss = 100;
  end.config.window_shift = static_cast<uint8_t>(random.Below(4));
  end.Start();
  for (int i = 0; i < 400; ++i) {
    if (random.OneIn(10)) {
      end.receiver.SetWindow(static_cast<uint32_t>(random.Below(700)));
    }
    const auto distance = static_cast<int32_t>(random.Below(900)) - 200;
    const auto bytes = static_cast<uint32_t>(random.Below(150));
    (void)model.Segment(random.OneIn(4) ? 0 : distance, bytes,
                        random.OneIn(300), random.Byte());
  }
  end.receiver.SetWindow(60000);
  model.CloseHoles();
}

INSTANTIATE_TEST_SUITE_P(Seeds, ReceiverRandomTest,
                         ::testing::Range<uint64_t>(1, 20));

}  // namespace
}  // namespace urnic::tcp
