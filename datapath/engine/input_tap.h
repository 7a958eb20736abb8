#pragma once

// Writes the calls of a core, and everything that they read, into a log of
// inputs (transport/work/inputs.h). While a queue pair is logged, a tap stands
// between it and its core, with the same functions as the core. This class has
// what does not depend on the transport: segments of the log, work queues and
// keys.
//
// If the program changes its memory during a call, the tap and the core may
// read different values. A replay then differs from the original, and reports
// where.
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
  // How far a core has advanced in its send ring.
  struct SendAt {
    uint32_t head = 0;
    uint32_t next = 0;
  };

  // All outlive the tap.
  InputTap(std::shared_ptr<InputLog> log, const WorkQueueView* sq,
           const mem::MrTable* keys);

  virtual SendAt send_at() const = 0;

  // --- Segments --------------------------------------------------------------

  // If the log is too small for a segment, the tap does not begin a new one at
  // each call, which would cost more than the call itself.
  bool IsTimeForSegment() const {
    return log_->WantsSegment() && (!started_ || calls_ >= kCallsLeast);
  }
  bool started() const { return started_; }
  // Ends the current segment; the next one begins as soon as possible.
  void StopSegment();
  void StartSegment(uint32_t layout);
  // Adds the image that `extract` makes, with `before` in front of it.
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

  // The index after the last posted request.
  uint32_t Producer() const;
  // Logs the requests from the head up to `end`.
  void BeginRequests(uint32_t end);
  void AddRequests(uint32_t end);
  // Logs the requests that a call may read if it sends this many messages, and
  // some local requests, which send none. Other requests are logged when they
  // are needed.
  void AddRequestsFor(uint32_t messages);
  // No request is in the log any more.
  void ForgetRequests() { requests_end_ = send_at().head; }

  void BeginReceives() { Add(WorkInput::kNoReceives, {}); }
  // Logs the receive that is `ahead` entries after the oldest one of the ring;
  // a replay puts it at `place`. False: no such receive is posted.
  bool AddReceive(const RecvRing& ring, uint32_t ahead, uint32_t place);

  // --- Results of calls ------------------------------------------------------

  void AddFault(const Placement& placement);
  void NotePlacement(const Placement& placement) {
    if (placement.kind != Placement::Kind::kCopy)
      originals_.push_back(placement.original);
  }
  void AddOriginals();

  // A sink for the completions of a core, which logs them.
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
    // Flushed receives are not logged, because a shared ring may be flushed by
    // another queue pair.
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
  bool started_ = false;      // a segment is open
  bool has_segment_ = false;  // there is one, open or ended
  int64_t now_ns_ = 0;
  uint64_t calls_ = 0;         // since the segment began
  uint64_t whole_calls_ = 0;   // those that fit into the log
  uint32_t requests_end_ = 0;  // index after the last logged request
  uint64_t key_changes_ = 0;   // of the table, when it was last read
  size_t next_key_ = 0;        // is replaced next when the list is full
  std::vector<mem::MemoryRegion> keys_;  // as they are logged
  std::vector<uint64_t*> originals_;     // of the burst
  std::string image_;
};

}  // namespace urnic
