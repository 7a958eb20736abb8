// Images of connections in any state, with any members changed. Each is
// refused, or yields a connection that goes on, whatever happens then, and
// leaves nothing behind. The fixture judges every access to memory.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "tests/fuzz/input.h"
#include "tests/support/image_map.h"
#include "transport/iwarp/qp/endpoint_fixture.h"
#include "transport/iwarp/qp/image_fields.h"

namespace urnic::iwarp {
namespace {

using urnic::testing::ImageMap;
using urnic::testing::Input;

class Fuzzer {
 public:
  explicit Fuzzer(Input in) : in_(in), link_(in_.Byte()) {
    uint8_t early = in_.Byte();
    for (TestEnd* end : {&link_.a, &link_.b}) {
      end->tcp_config.offer.urnic = (early & 1) == 0;
      end->place_early = (early & 2) == 0;
      early >>= 2;
      Choose(*end);
    }
    link_.faults.loss_percent = in_.Below(10);
    link_.faults.reorder_percent = in_.Below(30);
  }

  void Run() {
    link_.a.Connect(link_.now);
    for (uint32_t n = in_.Below(40); n != 0; --n) Step();
    TestEnd& end = in_.Below(2) == 0 ? link_.a : link_.b;
    if (!end.begun()) return;
    Bytes image = end.Image(link_.now);
    Alter(ImageMap(*end.endpoint), image);
    const auto ahead = Duration::Microseconds(in_.Word());
    if (!end.Become(image, link_.now, ahead).ok()) {
      ExpectNothingLeft(end);
      return;
    }
    end.program.qp().CheckInvariants();
    for (uint32_t n = 24; n != 0; --n) {
      Step();
      end.program.qp().CheckInvariants();
    }
    End();
  }

 private:
  void Choose(TestEnd& end) {
    const uint8_t how = in_.Byte();
    // A changed image sends other bytes.
    end.stable = false;
    end.checks_stream = false;
    end.setup.crc = (how & 1) != 0;
    end.setup.markers = (how & 2) != 0;
    end.setup.revision = (how & 4) != 0 ? 1 : 2;
    end.setup.peer_to_peer = (how & 8) != 0;
    end.tcp_config.offer.sack = (how & 16) == 0;
    end.tcp_config.offer.timestamps = (how & 32) == 0;
    if ((how & 64) != 0) end.tcp_config.window_bytes = 100 + in_.Below(5000);
    if ((how & 128) != 0) {
      end.tcp_config.offer.mss = static_cast<uint16_t>(300 + in_.Below(9000));
    }
    end.private_data.resize(in_.Below(64));
    end.fpdus.SetFree(1 + in_.Below(20));
    end.Renew();
  }
  // Changes some members, or bytes of the header, and corrects length and CRC.
  void Alter(const ImageMap& map, Bytes& image) {
    const auto& fields = map.fields();
    for (uint32_t n = in_.Below(4); n != 0; --n) {
      const auto& field = fields[in_.Word() % fields.size()];
      uint64_t old = 0;
      std::memcpy(&old, image.data() + field.at, field.bytes);
      switch (in_.Below(4)) {
        case 0:  // nearby
          ImageMap::Set(image, field, old + static_cast<int8_t>(in_.Byte()));
          break;
        case 1:
          ImageMap::Set(image, field, in_.Below(4));
          break;
        case 2:
          ImageMap::Set(image, field, uint64_t{in_.Word()} << 32 | in_.Word());
          break;
        default:
          ImageMap::Set(image, field, ~uint64_t{0} >> in_.Below(64));
      }
    }
    if (in_.Below(8) != 0) return;
    image.resize((image.size() + 4 * in_.Below(16)) & ~size_t{3});
    if (in_.Below(2) == 0) image.resize(20 + (in_.Word() % image.size() & ~3u));
    const auto length = static_cast<uint32_t>(image.size());
    std::memcpy(image.data() + 12, &length, sizeof(length));
    ImageMap::Seal(image);
  }

  void Post(TestEnd& end, TestEnd& peer) {
    const uint32_t bytes = in_.Below(4) == 0 ? in_.Below(9000) : in_.Byte();
    (void)end.Post({.opcode = static_cast<uint8_t>(in_.Below(10)),
                    .sges = {end.program.Sge(in_.Byte() * 64u, bytes)},
                    .remote_addr = peer.program.at(in_.Byte() * 64u),
                    .rkey = in_.Below(16) == 0 ? 5 : peer.program.key()});
  }
  void Step() {
    const bool first = in_.Below(2) == 0;
    TestEnd& end = first ? link_.a : link_.b;
    TestEnd& peer = first ? link_.b : link_.a;
    switch (in_.Below(16)) {
      case 0:
      case 1:
      case 2:
        Post(end, peer);
        break;
      case 3:
      case 4:
        (void)end.program.Recv(1, {end.program.Sge(in_.Byte() * 64u, 9000)});
        break;
      case 5:
        if (end.begun()) Rare(end);
        break;
      default:
        for (uint32_t n = 1 + in_.Below(4); n != 0; --n) {
          (void)link_.Step(link_.now + Duration::Seconds(10));
        }
    }
  }
  void Rare(TestEnd& end) {
    switch (in_.Below(8)) {
      case 0:
        end.endpoint->Disconnect(end.Local(link_.now));
        break;
      case 1:
        end.endpoint->OnTooBig(
            in_.Below(3000),
            end.endpoint->connection().sender().una() + in_.Below(5000),
            end.Local(link_.now));
        break;
      default:
        return;
    }
    end.Finish(link_.now);
  }
  static void ExpectNothingLeft(TestEnd& end) {
    end.Renew();
    URNIC_CHECK(end.frames.kept() == 0 && end.fpdus.kept() == 0 &&
                end.early.free_count() == TestEnd::kEarly);
  }
  void End() {
    for (TestEnd* end : {&link_.a, &link_.b}) {
      if (!end->begun()) continue;
      end->endpoint->Abort(end->Local(link_.now));
      end->Finish(link_.now);
    }
    link_.Run();
    for (TestEnd* end : {&link_.a, &link_.b}) {
      URNIC_CHECK(end->clean() || !end->begun());
      ExpectNothingLeft(*end);
    }
  }

  Input in_;
  Link link_;
};

}  // namespace
}  // namespace urnic::iwarp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const urnic::testing::Input input(data, size);
  std::make_unique<urnic::iwarp::Fuzzer>(input)->Run();
  return 0;
}
