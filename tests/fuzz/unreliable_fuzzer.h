#pragma once

// Any list of operations on two queue pairs without acknowledgements (UC, UD)
// that face each other: packets delivered in order, lost, duplicated, delayed,
// altered or made up; work requests of any bytes; rings scribbled over; memory
// taken away; state changes. Every placement must lie in a region that the
// queue pair may write. Every completion must be of a posted request, once and
// in order.

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "tests/fuzz/hostile.h"
#include "tests/fuzz/input.h"
#include "tests/support/endpoint.h"
#include "tests/support/unreliable_end.h"
#include "transport/base/check.h"

namespace urnic::testing {

template <typename Qp, bool kDatagrams>
class UnreliableFuzzer {
 public:
  explicit UnreliableFuzzer(Input input) : in_(input) {
    for (int i = 0; i < 2; ++i) {
      QpConfig& c = configs_[i];
      c.dest_qpn = QpnOf(1 - i);
      c.mtu = 256u << in_.Below(3);
      c.sq_psn = c.rq_psn = Psn(0xfffff0);
      c.qkey = kQkey;
      c.access = mem::kRemoteWrite;
      ends_[i].emplace(QpnOf(i), c);
      foreign_keys_[i] = ends_[i]->host().Register(2, 0, kMemoryBytes,
                                                   UnreliableEnd<Qp>::kAll);
    }
  }

  void Run() {
    for (int n = 0; n < kOperationMax && !in_.empty(); ++n) {
      Operate(static_cast<int>(in_.Below(2)));
      for (int i = 0; i < 2; ++i) Check(i);
    }
  }

 private:
  static constexpr int kOperationMax = 300;
  static constexpr size_t kInFlightMax = 256;
  static constexpr size_t kMemoryBytes = 16384;
  static constexpr uint32_t kQkey = 0x1234;

  static uint32_t QpnOf(int i) { return 0x11 * (static_cast<uint32_t>(i) + 1); }

  void Operate(int i) {
    switch (in_.Below(14)) {
      case 0:
      case 1:
        return Transmit(i);
      case 2:
      case 3:
      case 4:
        return Deliver(i, false);
      case 5:
        return Deliver(i, true);  // and keep it: a duplicate may follow
      case 6:
        if (!wire_[i].empty()) {
          wire_[i].erase(wire_[i].begin() + in_.Byte() % wire_[i].size());
        }
        return;
      case 7:
        return Invent(i);
      case 8:
        return AlterOne(in_, wire_[i]);
      case 9:
      case 10:
        return PostSend(i);
      case 11:
        return PostRecv(i);
      case 12:
        scribbled_[i] = true;
        return Scribble(in_, ends_[i]->rings());
      default:
        return Control(i);
    }
  }

  void Check(int i) {
    UnreliableEnd<Qp>& end = *ends_[i];
    end.Poll();
    if (!scribbled_[i]) {
      for (const RecvCompletion& done : end.received) {
        URNIC_CHECK(done.wr_id == received_[i]++);
        URNIC_CHECK(done.wr_id < receives_posted_[i]);
      }
      for (const SendCompletion& done : end.completed) {
        URNIC_CHECK(done.wr_id >= completed_[i]);
        URNIC_CHECK(done.wr_id < sends_posted_[i]);
        completed_[i] = done.wr_id + 1;
      }
    }
    end.received.clear();
    end.completed.clear();
    (void)end.TakeEvent();
  }

  void Transmit(int i) {
    for (Bytes& packet : ends_[i]->Transmit(1 + in_.Below(kRunMax))) {
      if (wire_[i].size() < kInFlightMax) wire_[i].push_back(std::move(packet));
    }
  }

  void Give(int i, const std::vector<Bytes>& burst) {
    static constexpr uint8_t kIp[40] = {0x45};
    static constexpr wire::Framing kFramings[] = {
        wire::Framing::kIpv4, wire::Framing::kIpv6, wire::Framing::kGrh,
        wire::Framing::kGrh};
    ends_[i]->Receive(burst, kIp, kFramings[in_.Byte() & 3]);
  }
  void Deliver(int i, bool keep) {
    const size_t count =
        std::min<size_t>(wire_[i].size(), 1 + in_.Below(kRunMax));
    if constexpr (!kDatagrams) {
      if (count % 4 == 3) ends_[1 - i]->qp().OnMarked(Time());
    }
    const std::vector<Bytes> burst(wire_[i].begin(), wire_[i].begin() + count);
    if (!keep) wire_[i].erase(wire_[i].begin(), wire_[i].begin() + count);
    GiveOwn(1 - i, burst);
  }
  // The engine passes on only packets of the queue pair's service.
  void GiveOwn(int i, std::vector<Bytes> burst) {
    const auto service = kDatagrams ? wire::Service::kUd : wire::Service::kUc;
    std::erase_if(burst, [&](const Bytes& bytes) {
      wire::RocePacket parsed;
      return wire::ParseRoce(bytes.data(), static_cast<uint32_t>(bytes.size()),
                             parsed) == RxVerdict::kAccept &&
             parsed.info->service != service;
    });
    Give(i, burst);
  }

  // A made-up packet.
  void Invent(int i) {
    wire::PacketFields f;
    f.opcode = kDatagrams ? 0x64 + in_.Below(2) : 0x20 + in_.Byte() % 12;
    if (!wire::InfoOf(f.opcode).valid()) return;
    const uint8_t flags = in_.Byte();
    f.solicited = (flags & 1) != 0;
    f.dest_qp = Qpn{QpnOf(i)};
    f.src_qp = Qpn{in_.Byte()};
    f.qkey = (flags & 2) != 0 ? kQkey : in_.Byte();
    f.psn = Psn(0xfffff0) + static_cast<int8_t>(in_.Byte());
    f.virtual_address =
        ends_[i]->host().address(0) + in_.Below(kMemoryBytes + 64);
    f.rkey = PickKey(i, flags >> 4);
    f.dma_length = in_.Word() >> in_.Below(32);
    std::vector<uint8_t> payload(in_.Below(5) * 128 + in_.Below(4), 0xab);
    if ((flags & 0x80) != 0) payload.resize(configs_[i].mtu);
    f.payload = payload;
    GiveOwn(i, {MakePacket(f)});
  }
  uint32_t PickKey(int i, uint8_t choice) {
    switch (choice & 7) {
      case 0:
        return foreign_keys_[i];
      case 1:
        return in_.Word();
      default:
        return ends_[i]->key();
    }
  }
  urnic_sge PickSge(int i) {
    const uint32_t length = PickLength(in_);
    return {ends_[i]->host().address(in_.Below(64) * 8), length,
            PickKey(i, in_.Byte())};
  }
  void PostSend(int i) {
    SendWr wr{
        .opcode = static_cast<uint8_t>(in_.Byte() % (kRequestOpcodesEnd + 1)),
        .flags = static_cast<uint8_t>(in_.Byte() & 7)};
    wr.wr_id = sends_posted_[i];
    if (kDatagrams) {
      wr.remote_addr = uint64_t{QpnOf(1 - i)} << 32 | 1;
      wr.rkey = in_.Below(4) == 0 ? in_.Byte() : kQkey;
    } else {
      wr.remote_addr = ends_[1 - i]->host().address(0) + (in_.Below(256) << 3);
      wr.rkey = PickKey(1 - i, in_.Byte());
    }
    wr.imm_or_key = wr.rkey;
    for (uint32_t n = in_.Below(5); n != 0; --n) wr.sges.push_back(PickSge(i));
    if (ends_[i]->rings().PostSend(wr)) ++sends_posted_[i];
  }
  void PostRecv(int i) {
    RecvWr wr{.wr_id = receives_posted_[i]};
    for (uint32_t n = in_.Below(5); n != 0; --n) wr.sges.push_back(PickSge(i));
    if (ends_[i]->rings().PostRecv(wr)) ++receives_posted_[i];
  }

  void Control(int i) {
    Qp& qp = ends_[i]->qp();
    FakeHost& host = ends_[i]->host();
    switch (in_.Below(6)) {
      case 0:
        return qp.Modify(QpState::kErr, configs_[i]);
      case 1:  // a new life of the queue pair
        qp.Modify(QpState::kReset, configs_[i]);
        received_[i] = receives_posted_[i];
        completed_[i] = sends_posted_[i];
        for (const QpState s : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
          qp.Modify(s, configs_[i]);
        }
        return;
      case 2:
        if (qp.state() == QpState::kRts) qp.Modify(QpState::kSqd, configs_[i]);
        return;
      case 3:
        if (qp.state() == QpState::kSqd || qp.state() == QpState::kSqe) {
          qp.Modify(QpState::kRts, configs_[i]);
        }
        return;
      case 4:
        return BreakMemory(in_, host);
      default:
        return host.Restore();
    }
  }

  Input in_;
  QpConfig configs_[2];
  std::optional<UnreliableEnd<Qp>> ends_[2];
  uint32_t foreign_keys_[2] = {};
  std::vector<Bytes> wire_[2];
  bool scribbled_[2] = {};
  uint64_t sends_posted_[2] = {};
  uint64_t receives_posted_[2] = {};
  uint64_t completed_[2] = {};
  uint64_t received_[2] = {};
};

}  // namespace urnic::testing
