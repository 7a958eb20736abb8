// Any segments, beside a model (receiver_model.h), with custody and a window
// that change.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tests/fuzz/input.h"
#include "transport/iwarp/tcp/receiver_model.h"

namespace urnic::tcp {
namespace {

constexpr int kOperationMax = 300;

void Run(testing::Input in) {
  auto model = std::make_unique<ModelledReceiver>(in.Word(), 1 + in.Below(256));
  ReceiverEnd<>& end = model->end();
  for (int n = 0; n < kOperationMax && !in.empty(); ++n) {
    const uint8_t how = in.Byte();
    switch (how & 15) {
      case 0:
        // The limit is not set below what is kept.
        end.frames.limit = end.frames.kept() + in.Below(64);
        break;
      case 1:
        end.receiver.SetWindow(in.Below(4000));
        break;
      case 2:
        end.now = end.now + Duration::Microseconds(in.Below(2000));
        end.receiver.OnTimer(end.now);
        break;
      default: {
        auto distance = static_cast<int32_t>(in.Below(256)) - 64;
        if ((how & 16) != 0) distance *= 31;
        if ((how & 32) != 0) distance = 0;
        const uint32_t bytes = in.Below(256) * ((how & 64) != 0 ? 9 : 1);
        (void)model->Segment(distance, bytes, how >= 0xf0, in.Byte());
      }
    }
  }
  end.frames.limit = 1000;
  end.receiver.SetWindow(60000);
  model->CloseHoles();
}

}  // namespace
}  // namespace urnic::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  urnic::tcp::Run(urnic::testing::Input(data, size));
  return 0;
}
