// Any fragments of a few packets, true and false, with time and a full custody.
// A reassembled packet has each byte that was sent in its place. What is kept
// is bounded, and in the end nothing is kept.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>

#include "tests/fuzz/input.h"
#include "tests/support/fragments.h"
#include "transport/base/check.h"
#include "transport/net/reassembly.h"

namespace urnic::net {
namespace {

using testing::FrameBytes;
using testing::GidOf;
using testing::Input;

constexpr int kOperationMax = 2000;
constexpr size_t kCustody = 200;
constexpr uint32_t kLengthMax = 65535;

class Fuzzer {
 public:
  explicit Fuzzer(Input input) : in_(input) {}

  void Run() {
    for (int n = 0; n < kOperationMax && !in_.empty(); ++n) {
      Operate();
      URNIC_CHECK(frames_.kept() == reassembly_.frames_kept());
      URNIC_CHECK(frames_.kept() <=
                  std::min<size_t>(Reassembly::kMaxFrames, frames_.limit));
      URNIC_CHECK(reassembly_.NextDeadline() > now_);
    }
    Pass(Reassembly::kLifetime);
    URNIC_CHECK(frames_.kept() == 0);
    URNIC_CHECK(reassembly_.NextDeadline().IsInfinite());
  }

 private:
  static uint8_t ByteOf(uint32_t packet, uint32_t at) {
    return static_cast<uint8_t>((packet * 31 + at) * 2654435761u >> 24);
  }

  void Operate() {
    switch (in_.Below(8)) {
      case 0:
        return Pass(Duration::Milliseconds(in_.Word() & 0xffff));
      case 1:
        // The limit is not set below what is kept.
        frames_.limit = frames_.kept() + in_.Below(kCustody);
        return;
      case 2:
        for (uint32_t i = in_.Byte(); i != 0; --i) Give(in_.Byte() + 256 * i);
        return;
      default:
        return Give(in_.Below(4));
    }
  }
  void Pass(Duration time) {
    now_ = now_ + time;
    reassembly_.OnTimer(now_);
  }

  // A fragment of a packet whose bytes are known; sometimes with a wrong byte.
  void Give(uint32_t packet) {
    wire::Fragment fragment;
    fragment.identification = packet >> 1;
    fragment.src = GidOf(static_cast<uint8_t>(1 + packet % 7));
    fragment.dst = GidOf(static_cast<uint8_t>(packet & 1));
    const uint32_t how = in_.Byte();
    fragment.offset = in_.Below(64) * 8 * ((how & 1) != 0 ? 100 : 1);
    fragment.last = (how & 6) == 6;
    uint32_t bytes = 8 * (1 + in_.Below(16)) * ((how & 8) != 0 ? 10 : 1);
    if (fragment.last) bytes -= in_.Below(8);
    FrameBytes data(bytes);
    for (uint32_t i = 0; i < bytes; ++i) {
      data[i] = ByteOf(packet, fragment.offset + i);
    }
    const bool lie = (how & 0xf0) == 0xf0;
    if (lie) data[0] ^= 1;
    if (fragment.offset + bytes > kLengthMax) return;
    lies_[packet] = lies_[packet] || lie;
    (void)frames_.Give(data, [&](const ReceivedFrame& frame) {
      fragment.data = frame.bytes;
      const RxVerdict verdict = reassembly_.OnFragment(fragment, frame, now_);
      if (verdict == RxVerdict::kAccept) CheckWhole(packet);
      return verdict;
    });
  }
  void CheckWhole(uint32_t packet) {
    uint32_t at = 0;
    for (const auto& piece : reassembly_.message()) {
      for (const uint8_t byte : piece) {
        URNIC_CHECK(byte == ByteOf(packet, at) || lies_[packet]);
        ++at;
      }
    }
    URNIC_CHECK(at != 0 && at <= kLengthMax);
    reassembly_.Finish();
  }

  Input in_;
  Time now_ = Time::FromNs(1000000000);
  testing::HostFrames frames_;
  Reassembly reassembly_{&frames_};
  std::map<uint32_t, bool> lies_;  // by packet: whether there was one
};

}  // namespace
}  // namespace urnic::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const urnic::testing::Input input(data, size);
  std::make_unique<urnic::net::Fuzzer>(input)->Run();
  return 0;
}
