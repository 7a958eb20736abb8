#pragma once

// The responding half of a queue pair: received messages become placements,
// receive completions, and answers. Sans-IO.

#include <cstdint>
#include <span>
#include <utility>

#include "transport/base/fields.h"
#include "transport/base/mutation.h"
#include "transport/iwarp/ddp/cutter.h"
#include "transport/iwarp/ddp/placer.h"
#include "transport/iwarp/rdmap/config.h"
#include "transport/work/recv_queue.h"
#include "transport/work/refused_access.h"
#include "transport/work/types.h"

namespace urnic::rdmap {

// A read or atomic that has been accepted and not yet answered in full.
struct Answer {
  enum class Kind : uint8_t { kRead, kAtomic };
  Kind kind = Kind::kRead;
  uint32_t stag = 0;  // the source
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint32_t sink_stag = 0;
  uint64_t sink_offset = 0;
  uint32_t request_id = 0;
  uint32_t msn = 0;          // atomics: of the answer
  MaskedAtomic masked = {};  // atomics: its result is written by the placement
};

class Responder {
 public:
  // `answers`: a power of two, or empty; limits the depth of reads. All outlive
  // the responder.
  Responder(const QpLimits& limits, RecvQueue* recv_queue,
            std::span<Answer> answers, mem::MrTable* mrs);

  // Other memory for answers. REQUIRES: there are none.
  void UseAnswers(std::span<Answer> answers);
  // REQUIRES: config.ird <= the number of answers.
  void Start(const Config& config);
  void Reset();
  // Nothing more is received or answered.
  void Stop();

  // --- Receiving -------------------------------------------------------------
  // The segment is the next one of its queue, and of a known opcode. `sink`
  // takes Place(Placement) and Complete(RecvCompletion).

  template <typename Sink>
  [[nodiscard]] ddp::StreamError OnWrite(const ddp::ReceivedSegment& segment,
                                         uint8_t position, Sink& sink) {
    if (segment.payload_bytes != 0 && !segment.placed) {
      const ddp::StreamError error =
          PlaceWrite(segment, mem::kRemoteWrite, position, sink);
      if (error) return RefuseWrite(segment, error);
    }
    //= RFC 7306 6.1: the receiver takes the length of a Write with immediate
    //= data from the Write itself
    write_bytes_ += segment.payload_bytes;
    if (segment.last()) {
      last_write_bytes_ = std::exchange(write_bytes_, 0);
      after_write_ = true;
    }
    return ddp::kNoError;
  }

  template <typename Sink>
  [[nodiscard]] ddp::StreamError OnSend(const ddp::ReceivedSegment& segment,
                                        uint8_t position, Sink& sink) {
    if (immediate_expected_) return ddp::kUnexpectedOpcode;
    if (segment.offset != 0 && segment.control.opcode() != send_opcode_) {
      return ddp::kUnexpectedOpcode;
    }
    send_opcode_ = segment.control.opcode();
    LearnSend(segment);
    ddp::StreamError error = TakeReceive();
    if (!error && !segment.placed) error = PlaceSend(segment, position, sink);
    if (error || !segment.last()) return error;
    return EndSend(segment, position, sink);
  }

  template <typename Sink>
  [[nodiscard]] ddp::StreamError OnImmediate(
      const ddp::ReceivedSegment& segment, uint8_t position, Sink& sink) {
    wire::RdmapImmediate immediate;
    if (!segment.last() || segment.offset != 0 ||
        segment.payload_bytes != sizeof(immediate)) {
      return ddp::kStreamCatastrophic;
    }
    if (const ddp::StreamError error = TakeReceive()) return error;
    segment.CopyPayload(immediate.data, sizeof(immediate.data));
    RecvCompletion done{
        .packet = position,
        .wc_flags = URNIC_WC_WITH_IMM,
        .solicited =
            segment.control.opcode() ==
            static_cast<uint8_t>(wire::RdmapOpcode::kImmediateSolicited),
        .wr_id = rq_->Consume()};
    std::memcpy(&done.imm_or_key, immediate.data, sizeof(done.imm_or_key));
    if (std::exchange(immediate_expected_, false)) {
      done.byte_len = held_bytes_;
    } else if (after_write_) {
      done.opcode = URNIC_WC_RECV_RDMA_WITH_IMM;
      done.byte_len = MUTATION(iwarp_immediate_data_has_other_length,
                               last_write_bytes_, write_bytes_);
    }
    after_write_ = false;
    sink.Complete(done);
    return ddp::kNoError;
  }

  [[nodiscard]] ddp::StreamError OnReadRequest(
      const ddp::ReceivedSegment& segment);

  template <typename Sink>
  [[nodiscard]] ddp::StreamError OnAtomicRequest(
      const ddp::ReceivedSegment& segment, uint8_t position, Sink& sink) {
    Answer* answer = nullptr;
    uint64_t host = 0;
    const ddp::StreamError error = AcceptAtomic(segment, answer, host);
    if (error) return error;
    sink.Place(PlacementOf(*answer, host, position));
    return ddp::kNoError;
  }

  // Places a segment behind a hole of the stream. False: nothing was placed,
  // and the segment waits for its turn. A Write needs a region that may be
  // written in any order, because programs detect its end by its last byte. For
  // a Send the order does not matter, because programs see it only with its
  // completion.
  template <typename Sink>
  [[nodiscard]] bool PlaceEarlyWrite(const ddp::ReceivedSegment& segment,
                                     uint8_t position, Sink& sink) {
    return segment.payload_bytes == 0 ||
           !PlaceWrite(segment, mem::kRemoteWrite | mem::kRelaxedOrdering,
                       position, sink);
  }
  // `ahead`: how many messages of its queue are not complete before it.
  template <typename Sink>
  [[nodiscard]] bool PlaceEarlySend(const ddp::ReceivedSegment& segment,
                                    uint32_t ahead, uint8_t position,
                                    Sink& sink) {
    const uint32_t msn = segment.msn - ahead;
    if (immediate_expected_ || ahead > KnownSends(msn)) return false;
    if (segment.offset + segment.payload_bytes > URNIC_MAX_MESSAGE_BYTES) {
      return false;
    }
    WalkResult walk = WalkResult::kOk;
    segment.ForPayloadParts(
        ddp::kMaxPayloadBytes,
        [&](const uint8_t* data, uint32_t bytes, uint32_t at) {
          if (walk != WalkResult::kOk) return;
          walk = rq_->WalkAhead(ahead, segment.offset + at, bytes, *mrs_,
                                stream_.pd, ToReceive(data, position, sink));
        });
    return walk == WalkResult::kOk;
  }
  // PlaceEarlySend() was true, and the segment counts as placed.
  void OnPlacedEarly(const ddp::ReceivedSegment& segment, uint32_t ahead) {
    if (ahead == KnownSends(segment.msn - ahead)) LearnSend(segment);
  }

  // A placement of a received message failed: its segment and all later ones of
  // the burst count as not executed, and their completions become errors.
  void OnPlacementFault(const Placement& placement,
                        std::span<RecvCompletion> completions);

  // --- Answers ---------------------------------------------------------------

  bool HasWork() const { return cut_ != end_; }
  // For queries and tests: reads and atomics of the peer whose answers it has
  // not acknowledged.
  uint32_t answers_under_way() const { return end_ - first_; }
  uint32_t ird() const { return config_.ird; }  // as last started
  // For logs of inputs: calls f(key) for the memory of each of them.
  template <typename F>
  void VisitKeys(F&& f) const {
    for (uint32_t i = first_; i != end_; ++i) {
      f(MrKey{answers_[i & mask_].stag});
    }
  }
  const RecvQueue& recv_queue() const { return *rq_; }
  // The refused access of the peer that has ended the stream. For a write, it
  // is the range of the segment.
  RefusedAccess refused() const {
    return Examine(refused_, refused_request_, *mrs_, stream_.pd, stream_.qpn,
                   config_.access);
  }
  bool InMessage() const { return offset_ != 0; }
  // The next segment of the oldest answer that is not completely cut. Error:
  // the peer may not access its memory any more, and there is no segment.
  [[nodiscard]] ddp::StreamError NextCut(uint32_t mulpdu, ddp::Cut& cut);
  // Only for the first transmission; later ones use the kept frame. REQUIRES:
  // the cut was made, and OnSent() has not been called for it.
  [[nodiscard]] bool Build(const ddp::Source& source, TxSlot& slot);
  void OnSent(const ddp::Source& source);

  // The next receive request to flush after an error.
  bool PollFlush(RecvCompletion& out);
  void PublishConsumer() { rq_->PublishConsumer(); }

  void CheckInvariants() const;

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  template <typename Sink>
  ddp::StreamError PlaceWrite(const ddp::ReceivedSegment& segment,
                              uint32_t rights, uint8_t position, Sink& sink) {
    if ((config_.access & mem::kRemoteWrite) == 0) return ddp::kAccessRights;
    // The whole segment is checked before its first byte is placed.
    uint64_t host = 0;
    ddp::StreamError error = ddp::Locate(
        *mrs_, stream_, segment.stag, segment.offset, segment.payload_bytes,
        MUTATION(iwarp_ignores_rights, rights, 0), host);
    if (error) return error;
    segment.ForPayloadParts(
        ddp::kMaxPayloadBytes,
        [&](const uint8_t* data, uint32_t bytes, uint32_t at) {
          if (at != 0) {
            error = ddp::Locate(*mrs_, stream_, segment.stag,
                                segment.offset + at, bytes, rights, host);
          }
          if (error) return;
          sink.Place(Placement{.packet = position,
                               .from_responder = true,
                               .bytes = bytes,
                               .target = host,
                               .source = data});
        });
    return error;
  }

  // For a walk of a receive: places `data`, piece by piece.
  template <typename Sink>
  static auto ToReceive(const uint8_t* data, uint8_t position, Sink& sink) {
    return [data, position, &sink](uint64_t address, uint32_t bytes) mutable {
      sink.Place(Placement{.packet = position,
                           .from_responder = true,
                           .to_receive = true,
                           .bytes = bytes,
                           .target = address,
                           .source = data});
      data += bytes;
    };
  }

  template <typename Sink>
  ddp::StreamError PlaceSend(const ddp::ReceivedSegment& segment,
                             uint8_t position, Sink& sink) {
    if (segment.offset + segment.payload_bytes > URNIC_MAX_MESSAGE_BYTES) {
      return TooLong();
    }
    WalkResult walk = WalkResult::kOk;
    segment.ForPayloadParts(
        ddp::kMaxPayloadBytes,
        [&](const uint8_t* data, uint32_t bytes, uint32_t at) {
          if (walk != WalkResult::kOk) return;
          walk = rq_->Walk(segment.offset + at, bytes, *mrs_, stream_.pd,
                           ToReceive(data, position, sink));
        });
    if (walk == WalkResult::kOk) return ddp::kNoError;
    if (walk == WalkResult::kTooShort) return TooLong();
    recv_status_ = URNIC_WC_LOC_PROT_ERR;
    return ddp::kDdpCatastrophic;
  }

  template <typename Sink>
  ddp::StreamError EndSend(const ddp::ReceivedSegment& segment,
                           uint8_t position, Sink& sink) {
    const auto opcode =
        static_cast<wire::RdmapOpcode>(segment.control.opcode());
    const auto bytes =
        static_cast<uint32_t>(segment.offset + segment.payload_bytes);
    after_write_ = false;
    if (SharesReceive(segment)) {
      immediate_expected_ = true;
      held_bytes_ = bytes;
      return ddp::kNoError;
    }
    RecvCompletion done{.packet = position, .byte_len = bytes};
    done.solicited = opcode == wire::RdmapOpcode::kSendSolicited ||
                     opcode == wire::RdmapOpcode::kSendSolicitedInvalidate;
    if (opcode == wire::RdmapOpcode::kSendInvalidate ||
        opcode == wire::RdmapOpcode::kSendSolicitedInvalidate) {
      MUTATION_SKIPS(iwarp_does_not_invalidate)
      if (const ddp::StreamError error = Invalidate(segment.stag)) return error;
      done.wc_flags = URNIC_WC_WITH_INV;
      done.imm_or_key = segment.stag;
    }
    done.wr_id = rq_->Consume();
    sink.Complete(done);
    return ddp::kNoError;
  }

  // Whether a send completes together with the message after it.
  bool SharesReceive(const ddp::ReceivedSegment& segment) const {
    return config_.immediate == ImmediateData::kMerged &&
           segment.control.opcode() ==
               static_cast<uint8_t>(wire::RdmapOpcode::kSend) &&
           segment.stag == kImmediateFollows;
  }
  // How many messages from `msn` on, the next one of their queue, are known to
  // take a receive each.
  uint32_t KnownSends(uint32_t msn) const {
    if (config_.immediate != ImmediateData::kMerged) return UINT32_MAX;
    const auto known = static_cast<int32_t>(known_sends_ - msn);
    return known > 0 ? static_cast<uint32_t>(known) : 0;
  }
  // A segment of the first message that is not known yet, or of an earlier one.
  void LearnSend(const ddp::ReceivedSegment& segment) {
    const bool is_new = static_cast<int32_t>(segment.msn - known_sends_) >= 0;
    if (is_new && !SharesReceive(segment)) known_sends_ = segment.msn + 1;
  }

  // Records the access for people; returns `error`.
  [[gnu::cold]] ddp::StreamError RefuseWrite(
      const ddp::ReceivedSegment& segment, const ddp::StreamError& error);
  ddp::StreamError RefuseAccess(const RemoteRange& range, uint8_t request,
                                const ddp::StreamError& error);

  ddp::StreamError TooLong() {
    recv_status_ = URNIC_WC_LOC_LEN_ERR;
    return ddp::kTooLong;
  }
  ddp::StreamError TakeReceive();
  ddp::StreamError Invalidate(uint32_t stag);
  ddp::StreamError AcceptAtomic(const ddp::ReceivedSegment& segment,
                                Answer*& answer, uint64_t& host);
  static Placement PlacementOf(Answer& answer, uint64_t host, uint8_t position);

  Answer& AnswerAt(uint32_t index) { return answers_[index & mask_]; }
  // The slot for a new answer, or null: the peer has `ird` requests in flight.
  Answer* Add();
  ddp::StreamError LocateSource(const Answer& answer, uint32_t begin,
                                uint32_t bytes, uint64_t& host) const;

  mem::MrTable* mrs_;
  RecvQueue* rq_;
  ddp::StreamOf stream_;
  Config config_;

  // first <= cut <= end. Answers before `cut` are cut completely; `cut` is
  // being cut, with `offset_` bytes done; those after it are not begun.
  Answer* answers_;
  uint32_t mask_;
  uint32_t first_ = 0;
  uint32_t cut_ = 0;
  uint32_t end_ = 0;
  uint32_t offset_ = 0;
  uint32_t next_answer_msn_ = 1;  // of the queue of atomic responses

  uint32_t known_sends_ = 1;                     // the end of KnownSends()
  uint8_t send_opcode_ = 0;                      // of the current send
  uint8_t recv_status_ = URNIC_WC_WR_FLUSH_ERR;  // of the next flushed receive
  bool immediate_expected_ = false;              // a send waits for it
  bool after_write_ = false;  // the last message of its kind was a write
  uint32_t held_bytes_ = 0;
  uint32_t write_bytes_ = 0;  // of the current write
  uint32_t last_write_bytes_ = 0;

  RemoteRange refused_;
  uint8_t refused_request_ = RefusedAccess::kNoRequest;
};

}  // namespace urnic::rdmap
