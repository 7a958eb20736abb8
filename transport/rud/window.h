#pragma once

// The core of a RUD window (docs/design/0014-rud.md): RDMA over unreliable
// datagrams, in any order. Packets and commands go in; packets, placements and
// entries of the receive FIFO come out. A window never retransmits and has no
// timer: both are the job of the upper layer.
//
// Thread: the holder of the engine's token.

#include <cstdint>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/mutation.h"
#include "transport/rud/answers.h"
#include "transport/rud/conditions.h"
#include "transport/rud/context_pool.h"
#include "transport/rud/headers.h"
#include "transport/rud/membership.h"
#include "transport/rud/notifier.h"
#include "transport/rud/receive_fifo.h"
#include "transport/rud/send_fifo.h"
#include "transport/rud/source.h"
#include "transport/rud/target.h"
#include "transport/rud/tce_tables.h"
#include "transport/rud/types.h"
#include "transport/work/types.h"

namespace urnic::rud {

class Window {
 public:
  // Contexts, tables, and the memory of the rings outlive the window.
  Window(const WindowConfig& config, ContextPool* contexts,
         const TceTables* tces, const SendFifo& send,
         const ReceiveFifo& receive)
      : config_(config),
        send_(send),
        receive_(receive),
        notifier_(contexts, &receive_, &answers_),
        source_(config_, contexts, tces, &send_, &receive_, &answers_,
                &notifier_, &conditions_),
        target_(config_, contexts, tces, &receive_, &notifier_, &conditions_) {
    // 0 marks contexts without an owner.
    URNIC_CHECK(config.number != 0);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  const WindowConfig& config() const { return config_; }
  const SendFifo& send_fifo() const { return send_; }
  const ReceiveFifo& receive_fifo() const { return receive_; }
  // Entries of the receive FIFO that the program could see so far.
  uint32_t published() const { return receive_.published(); }
  // Whether the first packet of a transfer with a notification of the target
  // has arrived since the last call.
  bool TakeBegun() { return target_.TakeBegun(); }
  bool failed() const { return failed_; }
  // Commands that wait for a counter.
  uint32_t held() const { return conditions_.held(); }

  // Handles the packets of a burst, at most kBurstMax. Calls the sink's
  // `Place(const Placement&)`, and its `Count(RxVerdict)` once per packet. Then
  // the caller executes the placements, calls OnPlacementFault() for those that
  // fail, and calls FinishBurst().
  template <typename Sink>
  void OnBurst(std::span<const RxPacket> packets, Sink& sink) {
    for (size_t i = 0; i < packets.size(); ++i) {
      const RxVerdict verdict =
          OnPacket(packets[i], static_cast<uint8_t>(i),
                   [&](const Placement& placement) { sink.Place(placement); });
      sink.Count(verdict);
    }
  }
  void OnPlacementFault(const Placement& placement) {
    target_.OnPlacementFault(placement);
  }
  void FinishBurst() {
    target_.FinishBurst();
    receive_.Publish();
    FailIfNeeded();
  }

  bool HasWork() const { return !failed_ && source_.HasWork(); }
  // Fills packets to transmit, and returns how many. The caller copies their
  // payload, calls OnGatherFault() for those whose payload is not mapped, and
  // calls FinishTransmit().
  uint32_t Transmit(std::span<TxPacket> packets) {
    return failed_ ? 0 : source_.Transmit(packets);
  }
  void OnGatherFault(const TxPacket& packet) { source_.OnGatherFault(packet); }
  void FinishTransmit() {
    source_.Publish();
    receive_.Publish();
    FailIfNeeded();
  }

  // From now on the window drops all packets and flushes all commands.
  void Fail() {
    failed_ = true;
    source_.Flush();
  }
  // Flushes commands that were posted after the window had failed.
  void Flush() {
    if (failed_) source_.Flush();
  }
  // Ends what a context is doing, before it is released. Not between OnBurst()
  // and FinishBurst(), nor between Transmit() and FinishTransmit().
  void Forget(uint32_t context) { source_.Forget(context); }
  // Ends what all contexts of the window are doing, before
  // ContextPool::OnRecovery() or the end of the window.
  void ForgetAll() { source_.ForgetAll(); }

 private:
  template <typename Place>
  RxVerdict OnPacket(const RxPacket& packet, uint8_t index, Place&& place) {
    if (failed_) return RxVerdict::kRudWindowFailed;
    // Document C: a packet whose job id is not that of its window is dropped
    // silently.
    if (packet.base->job.value() != config_.job) return RxVerdict::kRudWrongJob;
    // Document C: packets are validated by the protection key in their
    // header.
    if (packet.base->key.value() != KeyOf(packet))
      return RxVerdict::kRudWrongKey;
    if (packet.group != nullptr && !IsForGroup(packet))
      return RxVerdict::kRudNotForGroup;
    if (HasThird(packet.type) && packet.third_peer == 0)
      return RxVerdict::kRudUnknownThird;
    switch (packet.type) {
      case wire::RudType::kData:
      case wire::RudType::kThirdData:
        return target_.OnData(packet, index, place);
      case wire::RudType::kReadRequest:
      case wire::RudType::kThirdReadRequest:
        return source_.OnReadRequest(packet);
      case wire::RudType::kFifo:
        return target_.OnPacket(packet);
      case wire::RudType::kCompletion:
        return source_.OnCompletions(packet);
      case wire::RudType::kNotice:
        return source_.OnNotice(packet);
      case wire::RudType::kStateRequest:
        return target_.OnStateRequest(packet);
    }
    return RxVerdict::kRudMalformed;
  }

  uint32_t KeyOf(const RxPacket& packet) const {
    return __builtin_expect(packet.group == nullptr, 1)
               ? config_.key
               : MUTATION(rud_group_takes_any_key, packet.group->key,
                          packet.base->key.value());
  }
  // Document C: all members get what is written, and packets of FIFO mode.
  static bool IsForGroup(const RxPacket& packet) {
    return packet.type == wire::RudType::kFifo ||
           (packet.type == wire::RudType::kData && !packet.is_list());
  }

  void FailIfNeeded() {
    if (failed_ || !(source_.failed() || target_.failed())) return;
    Fail();
  }

  const WindowConfig config_;
  SendFifo send_;
  ReceiveFifo receive_;
  Answers answers_;
  Notifier notifier_;
  Conditions conditions_;
  Source source_;
  Target target_;
  bool failed_ = false;
};

}  // namespace urnic::rud
