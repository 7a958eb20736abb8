#pragma once

// Endpoint: bytes become ULPDUs for the queue pair, and its segments become
// bytes. Included by endpoint.h.

#include "transport/base/mutation.h"
#include "transport/iwarp/qp/endpoint.h"

namespace urnic::iwarp {

template <typename Sink>
uint32_t Endpoint::TakeBytes(SeqNum at, mpa::Piece bytes,
                             const ReceivedFrame& frame, Sink& sink) {
  const auto all = static_cast<uint32_t>(bytes.size());
  uint32_t taken = 0;
  if (phase_ == Phase::kSetUp) taken = TakeSetUpBytes(at, bytes);
  if (phase_ == Phase::kRunning && taken != all) {
    Upper<Sink> upper{*this, sink};
    const auto step = delimiter_->OnBytes(bytes.subspan(taken), frame, upper);
    taken += step.bytes;
    if (step.verdict != RxVerdict::kAccept) verdict_ = step.verdict;
    if (step.verdict == RxVerdict::kMpaNoRoom) return taken;
    if (step.verdict != RxVerdict::kAccept) TerminateFor(delimiter_->error());
    if (qp_->state() == QpState::kRts) return taken;
  }
  // After the last message only a FIN matters.
  return all;
}

template <typename Sink>
bool Endpoint::TakeUlpdu(const mpa::Ulpdu& ulpdu, Sink& sink) {
  if (!set_up_.may_send()) OnFirstFpdu();
  if (ulpdu.bytes == 0) return true;
  TellOf(ulpdu.pieces, sink);
  verdict_ = qp_->OnUlpdu(ulpdu.pieces, NextPosition(), sink);
  NoteMessage(ulpdu);
  return verdict_ == RxVerdict::kAccept;
}

template <typename Sink>
void Endpoint::PlaceEarly(SeqNum end, const mpa::Ulpdu& ulpdu, Sink& sink) {
  early_.Insert(end, qp_->PlaceEarly(ulpdu.pieces, NextPosition(), sink));
}

template <typename Sink>
void Endpoint::TakeEarlier(SeqNum at, uint32_t bytes, Sink& sink) {
  // After the last message, early bytes do not matter.
  if (phase_ != Phase::kRunning || qp_->state() != QpState::kRts) return;
  const RxVerdict verdict = delimiter_->OnEarlyDelivered(bytes);
  if (verdict != RxVerdict::kAccept) {
    verdict_ = verdict;
    TerminateFor(delimiter_->error());
  }
  while (qp_->state() == QpState::kRts) {
    const EarlyFpdu* fpdu = early_.First(at + bytes);
    if (fpdu == nullptr) return;
    if (!set_up_.may_send()) OnFirstFpdu();
    const std::span<const uint8_t> header = fpdu->header();
    TellOf({&header, 1}, sink);
    verdict_ =
        qp_->OnPlacedEarlier(header, fpdu->payload_bytes, NextPosition(), sink);
    early_.PopFirst();
  }
}

template <typename Memory>
uint32_t Endpoint::Write(uint64_t source, SeqNum begin, uint32_t offset,
                         std::span<uint8_t> out, Memory& read) {
  const bool crc = set_up_.agreement().crc;
  uint8_t headers[ddp::kMaxUlpduHeaderBytes];
  TxSlot parts;
  parts.headers = headers;
  if (source != kEmptyFpdu && (qp_ == nullptr || !qp_->Build(source, parts))) {
    LoseStream();
    return 0;
  }
  const mpa::FpduShape shape =
      ShapeAt(begin, parts.header_bytes + parts.payload_bytes);
  const uint32_t all = shape.wire_bytes();
  out = out.first(std::min<size_t>(out.size(), all - std::min(offset, all)));
  UlpduReader reader(parts, read);
  mpa::WriteFpdu(shape, crc, offset, out, reader);
  if (reader.ok()) return static_cast<uint32_t>(out.size());
  qp_->OnGatherFault(source);
  LoseStream();
  return 0;
}

// All FPDUs of a chunk, before the first of its bytes is sent.
template <typename Memory>
bool Endpoint::WriteKept(KeptFpdu& kept, Memory& read) {
  std::span<uint8_t> left = kept.bytes;
  SeqNum begin = kept.begin;
  uint64_t source = kept.source;
  while (true) {
    const uint32_t bytes = Write(source, begin, 0, left, read);
    if (bytes == 0) return LoseStream();
    if (qp_ != nullptr) qp_->OnSent(source, /*kept=*/true);
    left = left.subspan(bytes);
    if (left.empty()) break;
    begin = begin + bytes;
    source = qp_->SmallAfter(source);
  }
  MUTATION_SKIPS(iwarp_builds_kept_fpdu_again)
  kept.written = true;
  return true;
}

}  // namespace urnic::iwarp
