// Any acknowledgements, windows and times. In the end the peer becomes honest,
// and everything must be acknowledged.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tests/fuzz/input.h"
#include "transport/iwarp/tcp/sender_model.h"

namespace urnic::tcp {
namespace {

constexpr int kOperationMax = 400;
constexpr uint32_t kMss = 1000;

class Fuzz {
 public:
  explicit Fuzz(testing::Input in) : in_(in) {
    const uint8_t how = in_.Byte();
    SenderConfig config;
    config.mss = kMss;
    config.sack = (how & 1) == 0;
    config.timestamps = (how & 2) == 0;
    config.ecn = (how & 4) != 0;
    config.max_order = how >> 6;
    sender_.Start(config, &slab_, SeqNum(in_.Word()), SeqNum(1), 1 << 16);
    sender_.cc.packets = 1 + in_.Below(64);
  }

  void Run() {
    for (int n = 0; n < kOperationMax && !in_.empty(); ++n) Step();
    sender_.Finish();
    for (int n = 0; n < 10000 && !sender_.fin_acked(); ++n) {
      Transmit();
      wire::TcpSegment segment;
      segment.seq = SeqNum(5);
      segment.ack = sender_.nxt();
      (void)sender_.OnAck(segment, 1 << 20, now_, upper_);
      CheckRecords(sender_.scoreboard(), sender_.una(), sender_.nxt());
      if (sender_.fin_acked()) break;
      if (!sender_.deadline().IsInfinite()) {
        now_ = std::max(now_, sender_.deadline());
        sender_.OnTimer(now_);
      }
    }
    URNIC_CHECK(sender_.fin_acked() && sender_.idle());
    URNIC_CHECK(upper_.acked == upper_.starts.size());
    URNIC_CHECK(sender_.deadline().IsInfinite());
    URNIC_CHECK(sender_.pipe() == 0 && slab_.free_blocks() == kBlocks);
  }

 private:
  static constexpr uint32_t kBlocks = 4;

  // A number near what is under way.
  SeqNum Near() {
    const uint8_t how = in_.Byte();
    if (how == 0xff) return SeqNum(in_.Word());
    // Mostly the boundaries of segments.
    const uint32_t at = (how & 63) * 500 + ((how & 64) != 0 ? in_.Byte() : 0);
    return how >= 0xf0 ? SeqNum(sender_.una().value() - at)
                       : sender_.una() + at;
  }

  void Transmit() {
    std::array<SegmentToSend, 8> out;
    uint32_t n = 0;
    do {
      n = sender_.Transmit(now_, out, upper_);
      for (uint32_t i = 0; i < n; ++i) {
        URNIC_CHECK(out[i].bytes <= sender_.mss() || !out[i].is_retransmission);
        URNIC_CHECK(out[i].seq + out[i].bytes - sender_.nxt() <= 0);
        URNIC_CHECK(out[i].bytes == 0 || MayBeginSegment(out[i].offset));
      }
    } while (n == out.size());
  }

  void Step() {
    const uint8_t how = in_.Byte();
    switch (how & 7) {
      case 0:
        upper_.Add(1 + in_.Below(8), 500 * (1 + (how >> 3 & 1)));
        break;
      case 1:
        now_ = now_ + Duration::Microseconds(100 * in_.Below(256));
        break;
      case 2:
        if (!sender_.deadline().IsInfinite()) {
          now_ = std::max(now_, sender_.deadline());
        }
        sender_.OnTimer(now_);
        break;
      case 3:
        if (how == 3) sender_.OnMss(std::max(sender_.mss() / 2, 100u));
        if (how == 0x13 && !sender_.mtu_probe_under_way()) {
          sender_.ProbeMtu(1500);
        }
        Transmit();
        break;
      default:
        Acknowledge(how);
    }
    CheckRecords(sender_.scoreboard(), sender_.una(), sender_.nxt());
  }

  void Acknowledge(uint8_t how) {
    wire::TcpSegment segment;
    segment.seq = SeqNum(1);
    segment.flags = wire::kTcpAck | (how & 8 ? wire::kTcpEce : 0);
    segment.ack = how & 16 ? Near() : sender_.una();
    segment.options.sack_count = how >> 5 & 3;
    for (uint8_t i = 0; i < segment.options.sack_count; ++i) {
      segment.options.sack[i] = {Near(), Near()};
    }
    if ((how & 128) != 0) {
      // Of the last 128 ms, or of the future.
      const auto ticks = static_cast<uint32_t>(now_.ns() / 1'000'000);
      segment.options.timestamps = {.value = 1,
                                    .echo = ticks - in_.Byte() + 128};
    }
    const uint32_t window = in_.Byte() * 256;
    (void)sender_.OnAck(segment, window, now_, upper_);
  }

  testing::Input in_;
  SegmentSlab slab_{kBlocks};
  TestUpper upper_;
  Sender<TestWindow> sender_;
  Time now_ = Time::FromNs(1'000'000'000);
};

}  // namespace
}  // namespace urnic::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::make_unique<urnic::tcp::Fuzz>(urnic::testing::Input(data, size))->Run();
  return 0;
}
