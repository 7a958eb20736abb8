// Any ULPDUs, work requests and acknowledgements. rdmap_end.h judges every
// access; the core checks its invariants.

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/hostile.h"
#include "tests/fuzz/input.h"
#include "transport/iwarp/rdmap/raw_ulpdu.h"
#include "transport/iwarp/rdmap/rdmap_end.h"

namespace urnic::rdmap::testing {
namespace {

using urnic::testing::Input;

class Fuzzer {
 public:
  explicit Fuzzer(Input in) : in_(in), end_({.memory = 16384}) {
    plain_ = end_.host().Register(kPd, 64, 4000, mem::kRemoteRead);
  }

  void Run() {
    for (int step = 0; step < 400 && !in_.empty(); ++step) Step();
    end_.qp().Abort();
    end_.Settle({});
  }

 private:
  uint32_t Key() {
    switch (in_.Below(4)) {
      case 0:
        return plain_;
      case 1:
        return in_.Word();
      default:
        return end_.key();
    }
  }
  uint64_t Address() {
    if (in_.Below(16) == 0) return UINT64_MAX - in_.Byte();
    return end_.at(in_.Below(4) * 2048) + in_.Byte();
  }
  uint32_t Msn() {
    return in_.Below(16) == 0 ? in_.Word() : msn_[in_.Below(4)]++;
  }

  Bytes Ulpdu() {
    const auto opcode = static_cast<wire::RdmapOpcode>(in_.Below(16));
    const bool last = in_.Below(3) != 0;
    const size_t payload = in_.Below(4) == 0 ? in_.Below(9000) : in_.Byte();
    switch (in_.Below(5)) {
      case 0:
        return Raw(RawTagged{.opcode = in_.Below(2) == 0
                                           ? wire::RdmapOpcode::kReadResponse
                                           : opcode,
                             .last = last,
                             .stag = Key(),
                             .offset = Address(),
                             .payload = payload});
      case 1:
        return Raw(RawRead{.msn = Msn(),
                           .stag = Key(),
                           .address = Address(),
                           .bytes = urnic::testing::PickLength(in_)});
      case 2:
        return Raw(RawAtomic{.msn = Msn(),
                             .operation = in_.Below(4),
                             .stag = Key(),
                             .address = Address() & ~uint64_t{in_.Byte() & 7u},
                             .swap_or_add = in_.Word(),
                             .mask = in_.Word()});
      case 3: {
        Bytes raw(in_.Below(80));
        for (uint8_t& byte : raw) byte = in_.Byte();
        return raw;
      }
      default:
        return Raw(RawUntagged{.opcode = opcode,
                               .last = last,
                               .queue = in_.Below(5),
                               .msn = Msn(),
                               .offset = in_.Below(3) == 0 ? in_.Byte() : 0u,
                               .stag = Key(),
                               .payload = payload});
    }
  }

  void Receive() {
    std::vector<Bytes> burst(1 + in_.Below(4));
    for (Bytes& ulpdu : burst) {
      ulpdu = Ulpdu();
      if (in_.Below(8) == 0 && !ulpdu.empty()) {
        ulpdu[in_.Byte() % std::min<size_t>(ulpdu.size(), 46)] = in_.Byte();
      }
    }
    Random cuts(in_.Byte());
    end_.Receive(burst, in_.Below(2) == 0 ? &cuts : nullptr);
  }

  void Post() {
    SendWr wr = {.opcode = static_cast<uint8_t>(in_.Below(17)),
                 .flags = in_.Byte(),
                 .remote_addr = Address(),
                 .rkey = Key(),
                 .imm_or_key = Key()};
    wr.flags &= static_cast<uint8_t>(~URNIC_SEND_INLINE);
    for (uint32_t n = in_.Below(RdmapEnd::kMaxSge + 1); n > 0; --n) {
      wr.sges.push_back(
          {Address(), urnic::testing::PickLength(in_) % 5000, Key()});
    }
    if (in_.Below(4) == 0) wr.inline_data.assign(in_.Below(65), 7);
    end_.Send(wr);
  }

  void Step() {
    switch (in_.Below(10)) {
      case 0:
        Post();
        break;
      case 1:
        end_.Recv(0, {{Address(), in_.Byte() * 16u, Key()}});
        break;
      case 2:
        end_.SetMulpdu(128 + in_.Below(5000));
        end_.can_keep = in_.Below(4) != 0;
        end_.keep_small = in_.Below(2) != 0;
        end_.Transmit(in_.Byte());
        break;
      case 3:
        end_.Ack(in_.Byte());
        break;
      case 4:
        Rare();
        break;
      default:
        Receive();
    }
  }

  void Rare() {
    switch (in_.Below(6)) {
      case 0:
        urnic::testing::Scribble(in_, end_.rings());
        break;
      case 1:
        urnic::testing::BreakMemory(in_, end_.host());
        break;
      case 2:
        end_.host().Restore();
        break;
      case 3:
        end_.Ack();
        end_.qp().Modify(QpState::kReset, {});
        end_.qp().Modify(QpState::kRts, kDefaultConfig);
        for (uint32_t& msn : msn_) msn = 1;
        break;
      case 4:
        if (end_.qp().state() == QpState::kRts) {
          end_.qp().Terminate({ddp::kMpaLayer, 0, in_.Byte()});
        }
        break;
      default:
        end_.qp().Abort();
    }
  }

  Input in_;
  RdmapEnd end_;
  uint32_t plain_ = 0;
  uint32_t msn_[4] = {1, 1, 1, 1};
};

}  // namespace
}  // namespace urnic::rdmap::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  urnic::rdmap::testing::Fuzzer(urnic::testing::Input(data, size)).Run();
  return 0;
}
