#pragma once

// The requesting half of a queue pair: work requests become messages, and
// complete in the order in which they were posted. Sans-IO.
//
//   head <= una <= next <= posted        (indices of work requests)
//
// head..una: done, completion not taken yet. una..next: sent. next: being cut.
//
// A request is done when
//   - a send or write: TCP has its last byte acknowledged, or its only frame is
//     kept until then;
//   - a read or atomic: it is answered, and its request is acknowledged;
//   - a local request: it has been executed.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/fields.h"
#include "transport/iwarp/ddp/cutter.h"
#include "transport/iwarp/ddp/received_segment.h"
#include "transport/iwarp/rdmap/config.h"
#include "transport/iwarp/rdmap/terminate.h"
#include "transport/work/request.h"
#include "transport/work/send_request.h"
#include "transport/work/work_queue.h"

namespace urnic::rdmap {

inline constexpr RequestSet kSupportedRequests = RequestsOf(QpService::kIwarp);

// The requester's record of a work request. It is private, so that a program
// that alters a posted entry only harms its own connection.
struct SendRecord {
  uint64_t original = 0;  // atomics: the answer, until it has been placed
  uint32_t bytes = 0;
  uint32_t msn = 0;    // of its first message, if that is untagged
  uint8_t opcode = 0;  // enum urnic_wr_opcode
  bool signaled = false;
  bool solicited = false;
  bool acked = false;     // or kept, or executed
  bool answered = false;  // or asks for no answer
  bool done() const { return acked && answered; }
};
static_assert(sizeof(SendRecord) == 24);

class Requester {
 public:
  // `records`: one per entry of the ring. All outlive the requester.
  Requester(const QpLimits& limits, WorkQueueView sq,
            std::span<SendRecord> records, mem::MrTable* mrs);

  void Start(const Config& config);
  // Discards all posted requests.
  void Reset();
  // From now on, all posted requests are flushed.
  void EnterError();

  // --- Sending ---------------------------------------------------------------

  // Whether NextCut() has something to cut.
  bool HasWork() { return Ready(); }
  // True while a message is only partly cut: its other segments come next.
  bool InMessage() const { return offset_ != 0 || immediate_due_; }

  // The next segment. `can_keep`: there is a free frame to keep it in.
  ddp::Cut NextCut(uint32_t mulpdu, bool can_keep);
  // Whether the next segment is a whole message that may be kept, and has at
  // most `mulpdu` bytes.
  bool NextIsSmall(uint32_t mulpdu);
  // The source of the small message that was cut after this one. REQUIRES: it
  // was.
  ddp::Source SmallAfter(const ddp::Source& source) const;
  // Names the bytes of a segment that was cut: slot.headers (room for
  // ddp::kMaxUlpduHeaderBytes) and segments. False: the memory, its keys or the
  // ring have changed so that the bytes cannot be built again. The stream is
  // lost then.
  [[nodiscard]] bool Build(const ddp::Source& source, TxSlot& slot);

  // The segment was sent, and its frame is kept until it is acknowledged.
  void OnKept(const ddp::Source& source) { OnAcked(source); }
  void OnAcked(const ddp::Source& source);
  // The memory of a segment could not be read.
  void OnGatherFault(const ddp::Source& source) {
    FailAt(source.IndexNear(head_), URNIC_WC_LOC_PROT_ERR, RxVerdict::kAccept);
  }

  // Begins an empty read that belongs to no work request. It takes a number of
  // the queue of read requests, and its answer is discarded.
  uint32_t BeginRtrRead() {
    rtr_read_ = true;
    return next_read_msn_++;
  }

  // --- Receiving -------------------------------------------------------------

  template <typename Sink>
  [[nodiscard]] ddp::StreamError OnReadResponse(
      const ddp::ReceivedSegment& segment, uint8_t position, Sink& sink) {
    if (rtr_read_) return OnRtrAnswer(segment);
    if (!SeekAnswer(URNIC_WR_RDMA_READ)) return ddp::kUnexpectedOpcode;
    SendRecord& record = RecordOf(answer_);
    const urnic_sge sink_at = SinkOf(answer_);
    //= RFC 5040 5.2: a read response has the sink STag and offset of its
    //= request
    if (segment.stag != sink_at.lkey) return ddp::kInvalidStag;
    if (segment.offset - sink_at.addr != received_ ||
        segment.payload_bytes > record.bytes - received_) {
      return ddp::kBounds;
    }
    const bool ends = received_ + segment.payload_bytes == record.bytes;
    if (segment.last() != ends) return ddp::kStreamCatastrophic;
    if (!segment.placed && !PlaceAnswer(segment, answer_, scattered_, received_,
                                        mem::kLocalWrite, position, sink)) {
      return FailScatter();
    }
    received_ += segment.payload_bytes;
    if (ends) FinishAnswer();
    return ddp::kNoError;
  }

  template <typename Sink>
  [[nodiscard]] ddp::StreamError OnAtomicResponse(
      const ddp::ReceivedSegment& segment, uint8_t position, Sink& sink) {
    if (rtr_read_ || !SeekAnswer(kNoOpcode)) return ddp::kUnexpectedOpcode;
    wire::RdmapAtomicResponse answer;
    if (segment.payload_bytes != sizeof(answer) || !segment.last()) {
      return ddp::kStreamCatastrophic;
    }
    segment.CopyPayload(reinterpret_cast<uint8_t*>(&answer), sizeof(answer));
    //= RFC 7306 5.2.2: an atomic response repeats the identifier of its request
    if (answer.request_id.value() != answer_) return ddp::kStreamCatastrophic;
    SendRecord& record = RecordOf(answer_);
    // The value arrives in network order; memory holds it in the host's.
    record.original = answer.original.value();
    if (!Scatter(answer_, scattered_,
                 reinterpret_cast<const uint8_t*>(&record.original),
                 sizeof(record.original), 0, mem::kLocalWrite, position,
                 sink)) {
      return FailScatter();
    }
    FinishAnswer();
    return ddp::kNoError;
  }

  // Places a read response behind a hole of the stream. False: it waits for its
  // turn, because it is not certain which read it answers, or its memory is not
  // usable, or must be written in order.
  template <typename Sink>
  [[nodiscard]] bool PlaceEarlyAnswer(const ddp::ReceivedSegment& segment,
                                      uint8_t position, Sink& sink) {
    uint32_t index = 0;
    if (!FindRead(segment, index)) return false;
    SgeCursor cursor;
    return PlaceAnswer(
        segment, index, cursor, segment.offset - SinkOf(index).addr,
        mem::kLocalWrite | mem::kRelaxedOrdering, position, sink);
  }

  // The peer has ended the stream. The request that it names, if any, completes
  // with the error, and the others are flushed.
  void OnTerminate(const Terminate& terminate);
  // A placement of answered data failed.
  void OnPlacementFault(uint32_t index);

  // --- Completions -----------------------------------------------------------

  // The next completion in posting order; false: there is none. Its entry of
  // the ring is already free: a program that sees the completion may post at
  // once.
  bool Poll(SendCompletion& out);
  // The same, but only of requests before `limit` that are done.
  bool PollBefore(SendCompletion& out, uint32_t limit);
  // All requests before this one are done.
  uint32_t una() const { return una_; }
  // For logs of inputs: the ring, whose entries from head() on are read again;
  // the next one to cut; and the end of those that were seen.
  const WorkQueueView& sq() const { return sq_; }
  const mem::MrTable& mrs() const { return *mrs_; }
  uint32_t head() const { return head_; }
  uint32_t next() const { return next_; }
  uint32_t posted() const { return posted_; }
  // For queries and tests: requests that were sent and are not done, and how
  // many of them wait for an answer.
  uint32_t under_way() const { return next_ - una_; }
  uint32_t reads_in_flight() const { return reads_in_flight_; }
  uint32_t ord() const { return config_.ord; }  // as last started
  // True once, if a request could not be executed and all requests before it
  // are done: the queue pair must fail. The request completes with an error.
  bool TakeFatal() { return std::exchange(fatal_, false); }

  // Aborts when the invariants do not hold.
  void CheckInvariants() const;

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  static constexpr uint8_t kNoOpcode = 0xff;
  // In Source::offset: the message of immediate data after a send or write.
  static constexpr uint32_t kImmediateMark = 1u << 31;

  SendRecord& RecordOf(uint32_t index) { return records_[sq_.PlaceOf(index)]; }
  const SendRecord& RecordOf(uint32_t index) const {
    return records_[sq_.PlaceOf(index)];
  }

  // Tells the program which entries it may use again.
  void Publish() {
    if (published_ == head_) return;
    published_ = head_;
    sq_.PublishConsumer(head_);
  }

  // Cutting.
  bool Ready();
  bool RefreshPosted();
  bool Load();
  uint8_t CheckLoaded(uint64_t length) const;
  bool Blocked() const;
  bool ExecuteLocal();
  bool Fail(uint8_t status);
  bool MayKeep(const SendRecord& record) const;
  // The request behind this one, local requests aside; next_: none.
  uint32_t MessageAfter(uint32_t index) const;
  ddp::Cut CutData(SendRecord& record, uint32_t mulpdu, bool can_keep);
  void FinishCut();
  void SkipDone();

  // Building.
  SendRequest* RequestOf(uint32_t index);
  bool BuildSend(const ddp::Source& source, const SendRecord& record,
                 SendRequest& request, uint32_t index, TxSlot& slot);
  void BuildImmediate(const SendRecord& record, const SendRequest& request,
                      TxSlot& slot) const;
  void BuildRead(const SendRecord& record, const SendRequest& request,
                 uint32_t index, TxSlot& slot) const;
  void BuildAtomic(const SendRecord& record, const SendRequest& request,
                   uint32_t index, TxSlot& slot) const;

  // Answers.
  bool SeekAnswer(uint8_t opcode);
  // The only read in flight whose sink contains the segment.
  bool FindRead(const ddp::ReceivedSegment& segment, uint32_t& index);
  ddp::StreamError OnRtrAnswer(const ddp::ReceivedSegment& segment);
  void FinishAnswer();
  ddp::StreamError FailScatter() {
    FailAt(answer_, URNIC_WC_LOC_PROT_ERR, RxVerdict::kDdpMemory);
    return ddp::kDdpCatastrophic;
  }
  urnic_sge SinkOf(uint32_t index) const;
  uint32_t NumSge(uint32_t index) const {
    return std::min<uint32_t>(sq_.Read<urnic_sq_wqe>(index).num_sge,
                              limits_.max_sge_send);
  }
  // Places a read response at `offset` of its message.
  template <typename Sink>
  bool PlaceAnswer(const ddp::ReceivedSegment& segment, uint32_t index,
                   SgeCursor& cursor, uint64_t offset, uint32_t rights,
                   uint8_t position, Sink& sink) {
    bool ok = true;
    segment.ForPayloadParts(
        ddp::kMaxPayloadBytes,
        [&](const uint8_t* data, uint32_t bytes, uint32_t at) {
          ok = ok && Scatter(index, cursor, data, bytes, offset + at, rights,
                             position, sink);
        });
    return ok;
  }
  // Places answered data into the list of a request, as the ring has it now.
  // Keys are checked again: the memory may have been deregistered.
  template <typename Sink>
  bool Scatter(uint32_t index, SgeCursor& cursor, const uint8_t* data,
               uint32_t bytes, uint64_t offset, uint32_t rights,
               uint8_t position, Sink& sink) {
    return WalkSges(
               NumSge(index),
               [this, index](uint32_t i) {
                 return sq_.ReadSge<urnic_sq_wqe>(index, i);
               },
               cursor, offset, bytes, *mrs_, limits_.pd, rights,
               [&](uint64_t address, uint32_t piece) {
                 sink.Place(Placement{.packet = position,
                                      .origin = index,
                                      .bytes = piece,
                                      .target = address,
                                      .source = data});
                 data += piece;
               }) == WalkResult::kOk;
  }

  // Errors.
  void FailAt(uint32_t index, uint8_t status, RxVerdict cause);
  bool FindTerminated(const Terminate& terminate, uint32_t& index) const;
  bool PollFlush(SendCompletion& out);

  WorkQueueView sq_;
  SendRecord* records_;
  mem::MrTable* mrs_;
  QpLimits limits_;
  Config config_;

  uint32_t head_ = 0;
  uint32_t una_ = 0;
  uint32_t next_ = 0;
  uint32_t posted_ = 0;  // as last seen
  uint32_t offset_ = 0;  // bytes of `next_` that have been cut
  uint32_t published_ = 0;
  uint32_t next_send_msn_ = 1;
  uint32_t next_read_msn_ = 1;
  bool running_ = false;
  bool begun_ = false;  // `next_` has been checked, and has its record
  bool immediate_due_ = false;
  bool rtr_read_ = false;  // its answer has not arrived

  // The oldest request that may wait for an answer, and how much of it arrived.
  uint32_t answer_ = 0;
  uint32_t received_ = 0;
  uint32_t reads_in_flight_ = 0;
  SgeCursor scattered_;  // in its list

  bool failed_ = false;
  bool flushing_ = false;
  bool fatal_ = false;
  uint8_t failed_status_ = 0;
  RxVerdict failed_cause_ = RxVerdict::kAccept;
  uint32_t failed_index_ = 0;

  // Entries read from the ring: the newest, and one that is sent again.
  struct Loaded {
    bool valid = false;
    uint32_t index = 0;
    SendRequest request;
  };
  Loaded current_;
  Loaded resent_;
};

}  // namespace urnic::rdmap
