#pragma once

// Writes the calls of an RC core, and all that they read, into a log of inputs
// (transport/rc/inputs.h). It stands between a queue pair and its core while
// the queue pair is logged, and has the calls of the core. What a program
// changes while a call runs may be seen by the one and not by the other; a
// replay then differs, and says where.
//
// Thread: the holder of the engine's token.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ras/inputs/input_log.h"
#include "transport/rc/inputs.h"
#include "transport/rc/qp.h"

namespace urnic {

class RcInputTap {
 public:
  // `core` outlives the tap. The log begins with its state now, or at the next
  // call when it can.
  RcInputTap(std::shared_ptr<InputLog> log, rc::Qp* core, Time now);

  // See QpOf::OneBurst(). `due`: the packets come from TakeDue().
  template <typename Sink, typename Writer>
  FlowResult OnBurst(std::span<const RxPacket> packets, bool due, Time now,
                     Sink& sink, Writer& writer) {
    Begin(now);
    if (!due) AddPackets(packets);
    AddReceives(packets);
    Call(rc::Input::kBurst, due ? 1 : 0);
    BurstSink<Sink> burst{sink, *this};
    core_.OnBurst(packets, now, burst);
    Faults faults{*this};
    sink.Execute(faults);
    AddOriginals();
    WriterTap<Writer> tapped{writer, *this};
    return End(core_.Settle(sink.receives(), tapped));
  }
  template <typename Writer>
  FlowResult OnTimer(Time now, Writer& writer) {
    Begin(now);
    Call(rc::Input::kTimer);
    WriterTap<Writer> tapped{writer, *this};
    return End(core_.OnTimer(now, tapped));
  }
  template <typename Writer>
  FlowResult Settle(Writer& writer) {
    Prepare();
    Call(rc::Input::kSettle);
    WriterTap<Writer> tapped{writer, *this};
    return End(core_.Settle({}, tapped));
  }
  void OnMarked(const RxPacket& packet, Time now);
  RxVerdict OnCnp(Time now);
  void OnOutage();
  uint32_t Transmit(Time now, std::span<TxSlot> slots);
  uint32_t TransmitResponses(std::span<TxSlot> slots);
  void OnGatherFault(const TxSlot& slot);
  void Modify(QpState target, const QpConfig& config);
  void Reconfigure(const QpConfig& config);
  void Join(cc::SharedPath* path);
  void Grant(uint32_t packets);
  // The core has room for so many reads of the peer.
  void OnReplaySlots(uint32_t slots);

 private:
  template <typename Sink>
  struct BurstSink {
    void Place(const Placement& placement) {
      if (placement.kind != Placement::Kind::kCopy)
        tap.originals_.push_back(placement.original);
      sink.Place(placement);
    }
    void Complete(const RecvCompletion& done) { sink.Complete(done); }
    void Count(RxVerdict verdict) {
      tap.Add(rc::Input::kVerdict, {.small = static_cast<uint8_t>(verdict)});
      sink.Count(verdict);
    }
    Sink& sink;
    RcInputTap& tap;
  };
  struct Faults {
    void OnPlacementFault(const Placement& placement,
                          std::span<RecvCompletion> completions) {
      tap.AddFault(placement);
      tap.core_.OnPlacementFault(placement, completions);
    }
    RcInputTap& tap;
  };
  template <typename Writer>
  struct WriterTap {
    void Sent(const SendCompletion& done) {
      tap.Add(rc::Input::kSendDone, {.body = BodyOf(done)});
      writer.Sent(done);
    }
    void Received(const RecvCompletion& done) {
      tap.Add(rc::Input::kReceiveDone, {.body = BodyOf(done)});
      writer.Received(done);
    }
    // Not logged: a shared ring is flushed by whoever has it.
    void Flushed(const RecvCompletion& done) { writer.Flushed(done); }
    Writer& writer;
    RcInputTap& tap;
  };

  // Before a call with a time: begins a segment, if it is time for one.
  void Begin(Time now);
  // Before any call: what others have changed.
  void Prepare();
  void Call(rc::Input call, uint8_t small = 0, uint32_t large = 0);
  void Call(rc::Input call, uint8_t small, const QpConfig& config);
  FlowResult End(const FlowResult& result);
  void End();

  bool CanBeginSegment(Time now) const;
  void BeginSegment(Time now);
  void AddPath(const cc::SharedPath* path);
  void AddChangedKeys();
  void AddRequestsFor(uint32_t packets);
  void AddRequests(uint32_t end);
  void AddPackets(std::span<const RxPacket> packets);
  void AddReceives(std::span<const RxPacket> packets);
  void AddSent(std::span<const TxSlot> slots);
  void AddFault(const Placement& placement);
  void AddOriginals();
  void NoteKey(MrKey key);
  void NoteKeysOf(std::span<const uint8_t> sges, uint32_t count);
  void NotePath();
  void Add(rc::Input kind, InputItem item, std::span<const uint8_t> more = {}) {
    if (!started_) return;
    item.kind = static_cast<uint8_t>(kind);
    log_->Add(item, more);
  }
  uint32_t Producer() const;

  const std::shared_ptr<InputLog> log_;
  rc::Qp& core_;
  bool started_ = false;  // a segment
  int64_t now_ns_;
  rc::PathNow path_;           // as the last call left it
  bool path_known_ = false;    // to the segment
  uint64_t calls_ = 0;         // since the segment began
  uint64_t whole_calls_ = 0;   // those that are in it
  uint32_t requests_end_ = 0;  // of those that are logged
  uint64_t key_changes_ = 0;   // of the table, when it was last looked at
  size_t next_key_ = 0;        // that is replaced when the list is full
  std::vector<mem::MemoryRegion> keys_;  // as they are logged
  std::vector<uint64_t*> originals_;     // of the burst
  std::string image_;
};

}  // namespace urnic
