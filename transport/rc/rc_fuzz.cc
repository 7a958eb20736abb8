// Any sequence of operations on two connected queue pairs: packets delivered,
// lost, duplicated, delayed, altered or invented; work requests of any bytes;
// rings overwritten; memory removed; state changes; time. The endpoint aborts
// if the core touches a byte that it was not given. The invariants are checked
// after each operation.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "tests/fuzz/hostile.h"
#include "tests/fuzz/input.h"
#include "tests/support/endpoint.h"
#include "transport/base/check.h"
#include "transport/work/timers.h"

namespace urnic::rc {
namespace {

using testing::Endpoint;
using testing::FakeHost;
using testing::Input;
using testing::Packet;

constexpr size_t kMemoryBytes = 32 * 1024;
constexpr uint32_t kAllRights = mem::kLocalWrite | mem::kRemoteWrite |
                                mem::kRemoteRead | mem::kRemoteAtomic;
constexpr int kOperationMax = 400;
constexpr size_t kInFlightMax = 512;

class Fuzzer {
 public:
  explicit Fuzzer(Input input) : in_(input) {
    for (int i = 0; i < 2; ++i) {
      testing::EndpointOptions options;
      options.qpn = 0x11 * (i + 1);
      options.sq_entries = options.rq_entries = 8;
      options.max_sge = 1 + in_.Below(4);
      options.max_inline = in_.Byte();
      hosts_[i].emplace(kMemoryBytes);
      Register(i);
      ends_[i].emplace(*hosts_[i], options);
    }
    Configure();
    for (int i = 0; i < 2; ++i) ends_[i]->Connect(configs_[i]);
  }

  void Run() {
    for (int n = 0; n < kOperationMax && !in_.empty(); ++n) {
      Operate();
      for (auto& end : ends_) {
        end->Poll();
        end->qp().CheckInvariants();
        (void)end->TakeCompletions();
        (void)end->TakeEvent();
      }
    }
  }

 private:
  void Configure() {
    const uint8_t shape = in_.Byte();
    for (int i = 0; i < 2; ++i) {
      QpConfig& c = configs_[i];
      c.dest_qpn = 0x11 * (2 - i);
      c.mtu = 256u << (shape % 3);
      c.sq_psn = Psn(i == 0 ? 0xfffff0 : 0x123456);
      c.rq_psn = Psn(i == 1 ? 0xfffff0 : 0x123456);
      c.access = kAllRights;
      c.timeout = AckTimeout(8);
      c.retry_count = c.rnr_retry = 7;
      c.max_rd_atomic = c.max_dest_rd_atomic =
          static_cast<uint8_t>(1 + (shape >> 4));
      c.window_packets = 4 + in_.Byte();
      if (c.window_packets % 16 == 0) c.bits_per_second = 100'000'000;
    }
  }

  void Register(int i) {
    keys_[i] = hosts_[i]->Register(1, 0, kMemoryBytes, kAllRights);
    // One without remote rights, one of another protection domain.
    local_keys_[i] =
        hosts_[i]->Register(1, 0, kMemoryBytes / 2, mem::kLocalWrite);
    foreign_keys_[i] = hosts_[i]->Register(2, 0, kMemoryBytes, kAllRights);
  }

  void Operate() {
    const int i = in_.Below(2);
    switch (in_.Below(16)) {
      case 0:
      case 1:
      case 2:
        return Transmit(i);
      case 3:
      case 4:
      case 5:
        return Deliver(i, false);
      case 6:
        return Deliver(i, true);  // and keep it: a duplicate may follow
      case 7:
        return Drop(i);
      case 8:
        return Invent(i);
      case 9:
        return testing::AlterOne(in_, wire_[i]);
      case 10:
      case 11:
        return PostSend(i);
      case 12:
        return PostRecv(i);
      case 13:
        return Advance();
      case 14:
        return testing::Scribble(in_, ends_[i]->rings());
      default:
        return Control(i);
    }
  }

  // What end `i` sends waits in queue `i` for the other end.
  void Transmit(int i) {
    const uint32_t slots = 1 + in_.Below(32);
    for (Packet& packet : ends_[i]->Transmit(now_, slots)) {
      if (wire_[i].size() < kInFlightMax) wire_[i].push_back(std::move(packet));
    }
  }

  void Deliver(int i, bool keep) {
    const size_t count =
        std::min<size_t>(wire_[i].size(), 1 + in_.Below(kRunMax));
    const std::vector<Packet> burst(wire_[i].begin(), wire_[i].begin() + count);
    if (!keep) wire_[i].erase(wire_[i].begin(), wire_[i].begin() + count);
    // Some are marked "congestion experienced".
    const uint64_t marked = count % 4 == 3 ? uint64_t{0x5a5a5a5a} : 0;
    (void)ends_[1 - i]->Deliver(burst, now_, marked);
  }

  void Drop(int i) {
    if (wire_[i].empty()) return;
    const size_t at = in_.Below(256) % wire_[i].size();
    wire_[i].erase(wire_[i].begin() + at);
  }

  // A packet that was not sent, near what would fit now.
  void Invent(int i) {
    const Qp& target = ends_[i]->qp();
    wire::PacketFields f;
    // An opcode of RC, defined or not; or a notification.
    const uint8_t opcode = in_.Byte();
    f.opcode = opcode == 0xff ? static_cast<uint8_t>(wire::Opcode::kCnp)
                              : opcode % 0x20;
    const uint8_t flags = in_.Byte();
    f.ack_requested = (flags & 1) != 0;
    f.solicited = (flags & 2) != 0;
    f.mig_req = (flags & 4) != 0;
    f.dest_qp = Qpn{target.limits().qpn};
    const Psn base = wire::InfoOf(f.opcode).request()
                         ? target.responder().expected_psn()
                         : target.send_state().una_psn;
    f.psn = base + static_cast<int8_t>(in_.Byte());
    f.syndrome = in_.Byte();
    f.msn = in_.Byte();
    f.virtual_address = hosts_[i]->address(0) + in_.Below(kMemoryBytes + 64);
    if ((flags & 8) != 0) f.virtual_address &= ~uint64_t{7};
    f.rkey = PickKey(i, flags >> 4);
    f.dma_length = in_.Word() >> in_.Below(32);
    f.swap_or_add = in_.Byte();
    f.compare = in_.Byte();
    f.flush = static_cast<uint32_t>(f.compare);
    std::vector<uint8_t> payload(in_.Below(5) * 128 + in_.Below(4), 0xab);
    if ((flags & 0x80) != 0) payload.resize(configs_[i].mtu);
    if (!wire::InfoOf(f.opcode).has_payload) payload.clear();
    f.payload = payload;
    if (!wire::InfoOf(f.opcode).valid()) return;
    (void)ends_[i]->Deliver(testing::MakePacket(f), now_);
  }

  uint32_t PickKey(int i, uint8_t choice) {
    switch (choice & 7) {
      case 0:
        return local_keys_[i];
      case 1:
        return foreign_keys_[i];
      case 2:
        return in_.Word();
      default:
        return keys_[i];
    }
  }

  void PostSend(int i) {
    testing::SendWr wr{
        .opcode = static_cast<uint8_t>(in_.Byte() % (kRequestOpcodesEnd + 1)),
        .flags = static_cast<uint8_t>(in_.Byte() & 7)};
    wr.remote_addr = hosts_[1 - i]->address(0) + (in_.Below(256) << 3);
    wr.rkey = PickKey(1 - i, in_.Byte());
    wr.imm_or_key = wr.rkey;
    if (wr.opcode == URNIC_WR_LOCAL_INV && in_.Below(4) != 0) {
      wr.imm_or_key = hosts_[i]->Register(1, 0, 8, mem::kRemoteInvalidate);
    }
    const uint32_t sges = in_.Below(ends_[i]->options().max_sge + 1);
    for (uint32_t n = 0; n < sges; ++n) wr.sges.push_back(PickSge(i));
    (void)ends_[i]->PostSend(wr);
  }

  void PostRecv(int i) {
    testing::RecvWr wr;
    const uint32_t sges = in_.Below(ends_[i]->options().max_sge + 1);
    for (uint32_t n = 0; n < sges; ++n) wr.sges.push_back(PickSge(i));
    (void)ends_[i]->PostRecv(wr);
  }

  urnic_sge PickSge(int i) {
    const uint32_t length = testing::PickLength(in_);
    return {hosts_[i]->address(in_.Below(64) * 8), length,
            PickKey(i, in_.Byte())};
  }

  void Advance() {
    now_ = now_ + Duration::Microseconds(int64_t{1} << in_.Below(14));
    for (auto& end : ends_) end->AdvanceTo(now_);
  }

  void Control(int i) {
    Qp& qp = ends_[i]->qp();
    switch (in_.Below(8)) {
      case 0:
        return qp.Modify(QpState::kErr, configs_[i]);
      case 1:  // the queue pair is used again
        qp.Modify(QpState::kReset, configs_[i]);
        return ends_[i]->Connect(configs_[i]);
      case 2:
        if (qp.state() == QpState::kRts) {
          qp.Modify(QpState::kSqd, configs_[i]);
        }
        return;
      case 3:
        if (qp.state() == QpState::kSqd) {
          qp.Modify(QpState::kRts, configs_[i]);
        }
        return;
      case 4:
        if (hosts_[i]->mrs().Find(MrKey{keys_[i]}) != nullptr) {
          hosts_[i]->Deregister(keys_[i]);
        }
        return;
      case 5:
        if (hosts_[i]->mrs().Find(MrKey{keys_[i]}) == nullptr) {
          keys_[i] = hosts_[i]->Register(1, 0, kMemoryBytes,
                                         kAllRights | mem::kRemoteInvalidate);
        }
        return;
      case 6:
        return testing::BreakMemory(in_, *hosts_[i]);
      default:
        return hosts_[i]->Restore();
    }
  }

  Input in_;
  std::optional<FakeHost> hosts_[2];
  std::optional<Endpoint> ends_[2];
  QpConfig configs_[2];
  uint32_t keys_[2];
  uint32_t local_keys_[2];
  uint32_t foreign_keys_[2];
  std::vector<Packet> wire_[2];
  Time now_ = Time::FromNs(1000000);
};

}  // namespace
}  // namespace urnic::rc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  urnic::rc::Fuzzer(urnic::rc::Input(data, size)).Run();
  return 0;
}
