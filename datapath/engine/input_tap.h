#pragma once

// Writes the calls of a core, and all that they read, into a log of inputs
// (transport/work/inputs.h). A tap stands between a queue pair and its core
// while the queue pair is logged, and has the calls of the core. This class has
// what does not depend on the transport: segments, work queues and keys.
//
// What a program changes while a call runs may be seen by the one and not by
// the other; a replay then differs, and says where.
//
// Thread: the holder of the engine's token.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ras/inputs/input_log.h"
#include "transport/mem/mr_table.h"
#include "transport/work/inputs.h"
#include "transport/work/recv_queue.h"
#include "transport/work/work_queue.h"

namespace urnic {

class InputTap {
 public:
  virtual ~InputTap() = default;
  InputTap(const InputTap&) = delete;
  InputTap& operator=(const InputTap&) = delete;

 protected:
  // How far a core has come in its send ring.
  struct SendAt {
    uint32_t head = 0;
    uint32_t next = 0;
  };

  // All outlive the tap.
  InputTap(std::shared_ptr<InputLog> log, const WorkQueueView* sq,
           const mem::MrTable* keys);

  virtual SendAt send_at() const = 0;

  // --- Segments --------------------------------------------------------------

  // A log that is too small is not begun again at each call: that costs more
  // than the call.
  bool IsTimeForSegment() const {
    return log_->WantsSegment() && (!started_ || calls_ >= kCallsLeast);
  }
  bool started() const { return started_; }
  // The present segment ends; the next one is to begin.
  void StopSegment();
  void StartSegment(uint32_t layout);
  // With the image that `extract` makes, behind `before`.
  template <typename Extract>
  void AddImage(std::span<const uint8_t> before, const Extract& extract) {
    image_.assign(before.begin(), before.end());
    AppendImageTo(image_, extract);
    Add(WorkInput::kImage,
        {.body = {reinterpret_cast<const uint8_t*>(image_.data()),
                  image_.size()}});
  }
  void EndBeginning() { log_->EndBeginning(); }

  // --- Calls -----------------------------------------------------------------

  void SetNow(Time now) { now_ns_ = now.ns(); }
  CallNow call_now() const { return {now_ns_}; }
  // `body` begins with CallNow.
  template <typename Kind, typename Body>
  void Call(Kind call, const InputItem& item, const Body& body,
            std::span<const uint8_t> more = {}) {
    ++calls_;
    InputItem with_body = item;
    with_body.body = BodyOf(body);
    Add(call, with_body, more);
  }
  template <typename Kind>
  void Call(Kind call, uint8_t small = 0, uint32_t large = 0) {
    Call(call, {.small = small, .large = large}, call_now());
  }
  void EndCall(ResultNow result);
  template <typename Kind>
  void Add(Kind kind, InputItem item, std::span<const uint8_t> more = {}) {
    if (!started_) return;
    item.kind = static_cast<uint8_t>(kind);
    log_->Add(item, more);
  }

  // --- What calls read -------------------------------------------------------

  void AddChangedKeys();
  void NoteKey(MrKey key);

  // The end of what is posted.
  uint32_t Producer() const;
  // Those from the head up to `end`.
  void BeginRequests(uint32_t end);
  void AddRequests(uint32_t end);
  // Those that a call can look at which sends so many messages. (Local requests
  // send none.) What else is posted is logged when it is needed.
  void AddRequestsFor(uint32_t messages);
  // All are gone.
  void ForgetRequests() { requests_end_ = send_at().head; }

  void BeginReceives() { Add(WorkInput::kNoReceives, {}); }
  // The one that is `ahead` behind the oldest of the ring, to which a replay
  // gives the place `place`. False: there is none.
  bool AddReceive(const RecvRing& ring, uint32_t ahead, uint32_t place);

  // --- What came of it -------------------------------------------------------

  void AddFault(const Placement& placement);
  void NotePlacement(const Placement& placement) {
    if (placement.kind != Placement::Kind::kCopy)
      originals_.push_back(placement.original);
  }
  void AddOriginals();

  // A core's sink for completions.
  template <typename Writer>
  struct WriterTap {
    void Sent(const SendCompletion& done) {
      tap.Add(WorkInput::kSendDone, {.body = BodyOf(done)});
      writer.Sent(done);
    }
    void Received(const RecvCompletion& done) {
      tap.Add(WorkInput::kReceiveDone, {.body = BodyOf(done)});
      writer.Received(done);
    }
    // Not logged: a shared ring is flushed by whoever has it.
    void Flushed(const RecvCompletion& done) { writer.Flushed(done); }
    Writer& writer;
    InputTap& tap;
  };
  template <typename Writer>
  WriterTap<Writer> Tapped(Writer& writer) {
    return {writer, *this};
  }

 private:
  static constexpr uint64_t kCallsLeast = 64;

  void NoteKeysOf(std::span<const uint8_t> sges, uint32_t count);

  const std::shared_ptr<InputLog> log_;
  const WorkQueueView& sq_;
  const mem::MrTable& table_;
  bool started_ = false;      // a segment
  bool has_segment_ = false;  // perhaps one that has stopped
  int64_t now_ns_ = 0;
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
