// Two endpoints over a wire on which segments are altered, lost and cut, while
// both programs do what they like. The fixture judges every access to memory;
// at the end nothing may be left.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tests/fuzz/hostile.h"
#include "tests/fuzz/input.h"
#include "transport/iwarp/qp/endpoint_fixture.h"

namespace urnic::iwarp {
namespace {

using urnic::testing::Input;

class Fuzzer {
 public:
  explicit Fuzzer(Input in) : in_(in), link_(in_.Byte()) {
    for (TestEnd* end : {&link_.a, &link_.b}) Choose(*end);
    link_.faults.reorder_percent = in_.Below(51);
    link_.tamper_to_a =
        link_.tamper_to_b = [this](Packet& packet) { return Tamper(packet); };
  }

  void Run() {
    link_.a.Connect(link_.now);
    for (int step = 0; step < 300 && !in_.empty(); ++step) Step();
    for (TestEnd* end : {&link_.a, &link_.b}) {
      if (end->endpoint->connection().state() == tcp::State::kClosed) continue;
      end->endpoint->Abort(link_.now);
      end->Finish(link_.now);
    }
    link_.Run();
    URNIC_CHECK(link_.a.clean());
    URNIC_CHECK(link_.b.clean() || link_.b.events.empty());
  }

 private:
  void Choose(TestEnd& end) {
    const uint8_t how = in_.Byte();
    end.stable = false;
    end.setup.crc = (how & 1) != 0;
    end.setup.markers = (how & 2) != 0;
    end.setup.revision = (how & 4) != 0 ? 1 : 2;
    end.setup.peer_to_peer = (how & 8) != 0;
    end.setup.rtr_kinds = static_cast<mpa::RtrKinds>(1 + in_.Below(7));
    end.tcp_config.offer.sack = (how & 16) == 0;
    end.tcp_config.offer.timestamps = (how & 32) == 0;
    if ((how & 64) != 0) end.tcp_config.window_bytes = 100 + in_.Below(5000);
    if ((how & 128) != 0) {
      end.tcp_config.offer.mss = static_cast<uint16_t>(100 + in_.Below(9000));
    }
    end.private_data.resize(in_.Byte());
    end.fpdus.SetFree(in_.Below(20));
    const uint8_t early = in_.Byte();
    end.tcp_config.offer.urnic = (early & 1) == 0;
    end.place_early = (early & 2) == 0;
    end.Renew();
  }

  bool Tamper(Packet& packet) {
    switch (in_.Below(16)) {
      case 0:
        return false;
      case 1:
        if (!packet.payload.empty()) {
          packet.payload[in_.Below(
              static_cast<uint32_t>(packet.payload.size()))] = in_.Byte();
        }
        return true;
      case 2:
        packet.payload.resize(
            in_.Below(static_cast<uint32_t>(packet.payload.size() + 1)));
        return true;
      case 3:
        packet.fields.flags ^= static_cast<uint8_t>(1u << in_.Below(8));
        return true;
      case 4:
        packet.fields.seq =
            packet.fields.seq + static_cast<uint32_t>(in_.Byte() - 128);
        return true;
      case 5:
        packet.fields.ack =
            packet.fields.ack + static_cast<uint32_t>(in_.Byte() - 128);
        return true;
      default:
        return true;
    }
  }

  void Post(TestEnd& end, TestEnd& peer) {
    const uint32_t bytes = in_.Below(4) == 0 ? in_.Below(9000) : in_.Byte();
    SendWr wr = {.opcode = static_cast<uint8_t>(in_.Below(17)),
                 .flags = static_cast<uint8_t>(in_.Byte() & 7),
                 .sges = {end.program.Sge(in_.Byte() * 64u, bytes)},
                 .remote_addr = peer.program.at(in_.Byte() * 64u),
                 .rkey = in_.Below(8) == 0 ? in_.Word() : peer.program.key()};
    (void)end.Post(wr);
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
        (void)end.program.Recv(1, {end.program.Sge(in_.Byte() * 64u, 9000)});
        break;
      case 4:
        Rare(end);
        end.Finish(link_.now);
        break;
      default:
        for (uint32_t n = 1 + in_.Below(4); n != 0; --n) {
          (void)link_.Step(link_.now + Duration::Seconds(10));
        }
    }
  }

  void Rare(TestEnd& end) {
    const bool begun =
        end.endpoint->connection().state() != tcp::State::kClosed;
    switch (in_.Below(8)) {
      case 0:
        urnic::testing::Scribble(in_, end.program.rings());
        return;
      case 1:
        urnic::testing::BreakMemory(in_, end.program.host());
        return;
      case 2:
        end.program.host().Restore();
        return;
      case 3:
        end.endpoint->OnTooBig(
            in_.Below(3000),
            end.endpoint->connection().sender().una() + in_.Below(5000),
            link_.now);
        return;
      case 4:
        if (begun) end.endpoint->Disconnect(link_.now);
        return;
      case 5:
        if (begun) end.endpoint->Abort(link_.now);
        return;
      case 6:
        if (begun) end.endpoint->Detach(link_.now);
        return;
      default:
        end.program.qp().Modify(QpState::kErr, {});
        if (begun) end.endpoint->Disconnect(link_.now);
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
