#pragma once

// One queue pair of a service without acknowledgements (ud::Qp, uc::Qp) with a
// host, rings and a caller that does what rc/qp.h asks of it. Aborts if the
// core touches a byte that it was not given.

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/fake_host.h"
#include "tests/support/fake_rings.h"
#include "transport/base/check.h"
#include "transport/uc/image.h"
#include "transport/ud/image.h"
#include "transport/work/types.h"

namespace urnic::testing {

using Bytes = std::vector<uint8_t>;

template <typename Qp>
class UnreliableEnd {
 public:
  static constexpr uint32_t kPd = 1;
  static constexpr uint32_t kAll =
      mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;

  UnreliableEnd(uint32_t qpn, const QpConfig& config, bool to_rts = true)
      : config_(config), qpn_(qpn), core_(std::make_unique<Core>(*this)) {
    key_ = host_.Register(kPd, 0, host_.size(), kAll);
    if (!to_rts) return;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      qp().Modify(state, config_);
    }
  }

  FakeHost& host() { return host_; }
  FakeRings& rings() { return rings_; }
  // Another one after each move.
  Qp& qp() { return core_->qp; }
  uint32_t key() const { return key_; }
  urnic_sge Sge(uint64_t offset, uint32_t bytes) const {
    return {host_.address(offset), bytes, key_};
  }
  void Fill(size_t offset, size_t bytes, uint8_t first) {
    for (uint8_t& byte : host_.bytes(offset, bytes)) byte = first++;
  }

  // What it has to send: BTH to padding, and a place for the ICRC.
  std::vector<Bytes> Transmit(size_t max = kRunMax) {
    uint8_t headers[kRunMax][kMaxHeaderBytes];
    std::vector<TxSlot> slots(max);
    for (size_t i = 0; i < max; ++i) slots[i].headers = headers[i];
    const uint32_t count = qp().Transmit(Time(), slots);
    std::vector<Bytes> packets;
    for (uint32_t i = 0; i < count; ++i) {
      const TxSlot& slot = slots[i];
      Bytes packet(slot.headers, slot.headers + slot.header_bytes);
      if (!Gather(slot, packet)) {
        qp().OnGatherFault(slot);
        break;
      }
      packet.resize(packet.size() + slot.pad_bytes + wire::kIcrcBytes);
      packets.push_back(packet);
      handles_.push_back(slot.address_handle);
    }
    Poll();
    return packets;
  }

  // Delivers one burst.
  void Receive(const std::vector<Bytes>& packets, const uint8_t* ip = nullptr,
               wire::Framing framing = wire::Framing::kIpv4) {
    std::vector<RxPacket> burst;
    for (const Bytes& bytes : packets) {
      RxPacket packet;
      if (wire::ParseRoce(bytes.data(), static_cast<uint32_t>(bytes.size()),
                          packet) != RxVerdict::kAccept) {
        verdicts.push_back(RxVerdict::kTruncated);
        continue;
      }
      packet.ip = ip;
      packet.framing = framing;
      burst.push_back(packet);
    }
    placements_.clear();
    done_.clear();
    qp().OnBurst(burst, Time(), *this);
    for (const Placement& placement : placements_) {
      URNIC_CHECK(host_.Allowed(
          placement.target, placement.bytes, kPd,
          placement.to_receive ? mem::kLocalWrite : mem::kRemoteWrite));
      if (!host_.Writable(placement.target, placement.bytes)) {
        qp().OnPlacementFault(placement, done_);
        break;
      }
      std::memcpy(reinterpret_cast<void*>(placement.target), placement.source,
                  placement.bytes);
    }
    Settle(done_);
  }

  void Poll() { Settle({}); }

  // The last event since the last call.
  QpEvent TakeEvent() { return std::exchange(event_, QpEvent::kNone); }

  // As in Endpoint.
  std::vector<uint8_t> Image() {
    std::vector<uint8_t> image(ExtractImage(qp(), Time(), {}));
    URNIC_CHECK(ExtractImage(qp(), Time(), image) == image.size());
    return image;
  }
  ImageRefusal Become(std::span<const uint8_t> image) {
    auto next = std::make_unique<Core>(*this);
    const ImageRefusal refusal = InsertImage(image, Time(), next->qp);
    if (refusal.ok()) core_ = std::move(next);
    return refusal;
  }

  // Called by the queue pair.
  void Place(const Placement& placement) { placements_.push_back(placement); }
  void Complete(const RecvCompletion& done) { done_.push_back(done); }
  void Count(RxVerdict verdict) { verdicts.push_back(verdict); }
  void Sent(const SendCompletion& sent) { completed.push_back(sent); }
  void Received(const RecvCompletion& done) { received.push_back(done); }
  void Flushed(const RecvCompletion& done) { received.push_back(done); }

  std::vector<SendCompletion> completed;
  std::vector<RecvCompletion> received;
  std::vector<RxVerdict> verdicts;
  const RoceCounters& counters() const { return counters_; }
  const std::vector<uint32_t>& address_handles() const { return handles_; }

 private:
  // What a move replaces.
  struct Core {
    explicit Core(UnreliableEnd& end)
        : receives(end.rings_.rq().view(), 4),
          qp(QpLimits{.qpn = end.qpn_,
                      .pd = kPd,
                      .max_sge_send = 4,
                      .max_sge_recv = 4,
                      .max_inline = 64},
             end.rings_.sq().view(), &receives.queue(), &end.host_.mrs(),
             &end.counters_) {}

    OwnRecvQueue receives;
    Qp qp;
  };

  void Settle(std::span<const RecvCompletion> receives) {
    const FlowResult result = qp().Settle(receives, *this);
    URNIC_CHECK(result.state == qp().state());
    URNIC_CHECK(result.has_work == qp().HasWork());
    if (result.event != QpEvent::kNone) event_ = result.event;
  }

  // False: registered memory is missing.
  bool Gather(const TxSlot& slot, Bytes& packet) {
    for (uint32_t s = 0; s < slot.segment_count; ++s) {
      const auto [address, bytes] = slot.segments[s];
      if (!rings_.sq().Contains(address, bytes)) {
        URNIC_CHECK(host_.Allowed(address, bytes, kPd, mem::kLocalRead));
        if (!host_.Readable(address, bytes)) return false;
      }
      const auto* data = reinterpret_cast<const uint8_t*>(address);
      packet.insert(packet.end(), data, data + bytes);
    }
    return true;
  }

  QpConfig config_;
  FakeHost host_{16384};
  FakeRings rings_{16, 4, 64, 16, 4};
  const uint32_t qpn_;
  RoceCounters counters_;
  std::unique_ptr<Core> core_;
  uint32_t key_ = 0;
  std::vector<Placement> placements_;
  std::vector<RecvCompletion> done_;
  std::vector<uint32_t> handles_;
  QpEvent event_ = QpEvent::kNone;
};

}  // namespace urnic::testing
