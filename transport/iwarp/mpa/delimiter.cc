#include "transport/iwarp/mpa/delimiter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/mutation.h"

namespace urnic::mpa {
namespace {

// An FPDU of 64 KB has 130 markers, and each cuts a piece in two.
constexpr uint32_t kMaxPieces = Delimiter::kMaxHeldSegments + 1 + 130;

uint32_t LengthAt(const uint8_t* field) {
  return static_cast<uint32_t>(field[0] << 8 | field[1]);
}

}  // namespace

HeldPieces::HeldPieces(uint32_t limit)
    : nodes_(limit + kReserve), free_count_(limit + kReserve) {
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].next = std::exchange(free_, i);
  }
  pieces_.reserve(kMaxPieces);
}

void HeldPieces::SetLeftFor(const Delimiter* user, const Left& left) {
  free_count_ = left.parts;
  // It is only compared.
  static const char another = 0;
  if (left.reserve_taken) {
    reserve_user_ = reinterpret_cast<const Delimiter*>(&another);
  } else if (reserve_user_ != user) {
    reserve_user_ = nullptr;
  }
}

Delimiter::~Delimiter() {
  Release(parts_);
  Release(executed_);
}

void Delimiter::ReleaseExecuted() { Release(executed_); }

void Delimiter::Release(List& list) {
  while (list.first != HeldPieces::kNone) {
    HeldPieces::Node& node = held_->nodes_[list.first];
    keeper_->Release(node.frame, holder_);
    const uint32_t next = std::exchange(node.next, held_->free_);
    held_->free_ = std::exchange(list.first, next);
    ++held_->free_count_;
  }
  list.last = HeldPieces::kNone;
  LetGoOfReserve();
}

void Delimiter::LetGoOfReserve() const {
  if (held_->reserve_user_ == this && parts_.first == HeldPieces::kNone &&
      executed_.first == HeldPieces::kNone) {
    held_->reserve_user_ = nullptr;
  }
}

bool Delimiter::MayHold() const {
  if (holder_.kept >= holder_.limit) return false;
  if (held_->free_count_ > HeldPieces::kReserve) return true;
  if (held_->reserve_user_ == nullptr) held_->reserve_user_ = this;
  return held_->reserve_user_ == this && held_->free_count_ != 0;
}

Delimiter::Step Delimiter::Take(Piece rest, const ReceivedFrame& frame) {
  if (error_ != MpaError::kNone) return {.verdict = FailureVerdict()};
  if (arrived_ == 0 && !config_.markers && rest.size() >= kHeaderBytes) {
    const uint32_t ulpdu_bytes = LengthAt(rest.data());
    if (rest.size() >= wire::FpduBytes(ulpdu_bytes)) {
      return TakeWhole(rest, ulpdu_bytes);
    }
  }
  if (total_ == 0) LearnLength(rest);
  if (total_ == 0 || rest.size() < total_ - arrived_) return Hold(rest, frame);
  return Finish(rest.first(total_ - arrived_));
}

Delimiter::Step Delimiter::TakeWhole(Piece rest, uint32_t ulpdu_bytes) {
  const uint32_t bytes = wire::FpduBytes(ulpdu_bytes);
  const uint32_t covered = bytes - wire::kFpduCrcBytes;
  MUTATION_SKIPS(iwarp_ignores_crc_of_whole_fpdu)
  if (config_.crc &&
      !wire::Crc32c().Add(rest.first(covered)).Matches(rest.data() + covered)) {
    return Fail(MpaError::kBadCrc);
  }
  held_->pieces_.clear();
  if (ulpdu_bytes != 0) {
    held_->pieces_.push_back(rest.subspan(kHeaderBytes, ulpdu_bytes));
  }
  SetUlpdu(ulpdu_bytes);
  return {.bytes = bytes, .complete = true};
}

void Delimiter::LearnLength(Piece rest) {
  shape_.markers = config_.markers;
  const uint32_t at = shape_.header_offset();
  if (arrived_ + rest.size() < at + kHeaderBytes) return;
  uint8_t field[kHeaderBytes];
  for (uint32_t i = 0; i < kHeaderBytes; ++i) {
    field[i] = at + i < arrived_ ? start_[at + i] : rest[at + i - arrived_];
  }
  shape_.ulpdu_bytes = LengthAt(field);
  total_ = shape_.wire_bytes();
}

Delimiter::Step Delimiter::Hold(Piece part, const ReceivedFrame& frame) {
  const uint32_t number =
      MayHold() ? keeper_->Keep(frame, holder_) : FrameKeeper::kRefused;
  if (number == FrameKeeper::kRefused) {
    LetGoOfReserve();
    // The bytes come again, so forget the length that they have shown.
    if (arrived_ < shape_.header_offset() + kHeaderBytes) total_ = 0;
    return {.verdict = RxVerdict::kMpaNoRoom};
  }
  const uint32_t at = held_->free_;
  HeldPieces::Node& node = held_->nodes_[at];
  held_->free_ = node.next;
  --held_->free_count_;
  ++held_->held_;
  node = {.bytes = part, .frame = number};
  uint32_t& link = parts_.last == HeldPieces::kNone
                       ? parts_.first
                       : held_->nodes_[parts_.last].next;
  link = at;
  parts_.last = at;
  Account(part);
  return {.bytes = static_cast<uint32_t>(part.size())};
}

void Delimiter::Account(Piece part) {
  const auto bytes = static_cast<uint32_t>(part.size());
  for (uint32_t i = 0; i < bytes && arrived_ + i < sizeof(start_); ++i) {
    start_[arrived_ + i] = part[i];
  }
  // While the length is unknown, the CRC is still far away.
  const uint32_t covered =
      total_ == 0 ? UINT32_MAX : total_ - wire::kFpduCrcBytes;
  if (arrived_ < covered && config_.crc) {
    //= RFC 5044 4.4: the CRC of an FPDU covers all its bytes before the CRC,
    //= markers included
    crc_.Add(part.first(std::min(bytes, covered - arrived_)));
  }
  for (uint32_t i = std::max(arrived_, covered); i < arrived_ + bytes; ++i) {
    crc_field_[i - covered] = part[i - arrived_];
  }
  arrived_ += bytes;
}

Delimiter::Step Delimiter::Finish(Piece part) {
  Account(part);
  MUTATION_SKIPS(iwarp_ignores_crc_of_divided_fpdu)
  if (config_.crc && !crc_.Matches(crc_field_)) {
    return Fail(MpaError::kBadCrc);
  }
  if (!Collect(part)) {
    return Fail(MpaError::kBadMarker);
  }
  SetUlpdu(shape_.ulpdu_bytes);
  shape_.phase =
      MUTATION(iwarp_forgets_phase_of_markers, shape_.phase_after(), 0);
  arrived_ = 0;
  total_ = 0;
  crc_ = {};
  if (parts_.first != HeldPieces::kNone) {
    uint32_t& link = executed_.last == HeldPieces::kNone
                         ? executed_.first
                         : held_->nodes_[executed_.last].next;
    link = parts_.first;
    executed_.last = parts_.last;
    parts_ = {};
  }
  return {.bytes = static_cast<uint32_t>(part.size()), .complete = true};
}

Delimiter::Step Delimiter::Fail(MpaError error) {
  error_ = error;
  Release(parts_);
  return {.verdict = FailureVerdict()};
}

RxVerdict Delimiter::FailureVerdict() const {
  return error_ == MpaError::kBadCrc ? RxVerdict::kMpaBadCrc
                                     : RxVerdict::kMpaBadMarker;
}

bool Delimiter::Collect(Piece last) {
  held_->pieces_.clear();
  uint32_t offset = 0;
  uint32_t data = 0;
  for (uint32_t i = parts_.first; i != HeldPieces::kNone;
       i = held_->nodes_[i].next) {
    if (!CollectPart(shape_, held_->nodes_[i].bytes, offset, data)) {
      return false;
    }
  }
  return CollectPart(shape_, last, offset, data);
}

// `offset` on the wire, and `data` of the data (fpdu.h), of the next byte.
bool Delimiter::CollectPart(const FpduShape& shape, Piece part,
                            uint32_t& offset, uint32_t& data) {
  while (!part.empty()) {
    auto run = static_cast<uint32_t>(part.size());
    if (shape.IsMarker(offset)) {
      const uint32_t at = (shape.phase + offset) % wire::kMarkerSpacing;
      run = std::min(run, kMarkerBytes - at);
      std::memcpy(marker_ + at, part.data(), run);
      //= RFC 5044 4.2: a receiver treats the lowest two bits of a marker's
      //= distance as zero
      if (at + run == kMarkerBytes &&
          (LengthAt(marker_ + 2) & ~3u) !=
              shape.MarkerDistance(offset + run - kMarkerBytes)) {
        return false;
      }
    } else {
      run = std::min(run, shape.BytesToMarker(offset));
      const uint32_t begin = std::max(data, kHeaderBytes);
      const uint32_t end =
          std::min(data + run, kHeaderBytes + shape.ulpdu_bytes);
      if (begin < end) {
        URNIC_CHECK(held_->pieces_.size() < kMaxPieces);
        held_->pieces_.push_back(part.subspan(begin - data, end - begin));
      }
      data += run;
    }
    offset += run;
    part = part.subspan(run);
  }
  return true;
}

void Delimiter::SetUlpdu(uint32_t bytes) {
  const std::vector<Piece>& pieces = held_->pieces_;
  const uint32_t head = std::min(bytes, kHeadBytes);
  ulpdu_ = {.bytes = bytes, .pieces = pieces};
  if (head == 0) return;
  if (pieces[0].size() >= head) {
    ulpdu_.head = pieces[0].first(head);
    return;
  }
  uint32_t at = 0;
  for (size_t i = 0; at < head; ++i) {
    const size_t n = std::min<size_t>(pieces[i].size(), head - at);
    std::memcpy(held_->head_.data() + at, pieces[i].data(), n);
    at += static_cast<uint32_t>(n);
  }
  ulpdu_.head = std::span(held_->head_).first(head);
}

bool Delimiter::ShapeAt(SeqNum at, Piece bytes, FpduShape& shape) const {
  const auto distance = static_cast<uint32_t>(at - config_.start);
  shape = {.phase = distance % wire::kMarkerSpacing,
           .markers = config_.markers};
  const uint32_t header = shape.header_offset();
  // Every FPDU has a multiple of 4 bytes.
  if (distance % 4 != 0) return false;
  if (bytes.size() < header + kHeaderBytes) return false;
  shape.ulpdu_bytes = LengthAt(bytes.data() + header);
  return shape.wire_bytes() <= bytes.size();
}

bool Delimiter::IsWholeFpdus(SeqNum at, Piece bytes) {
  if (config_.early == Early::kNone || error_ != MpaError::kNone) return false;
  bool first = true;
  while (!bytes.empty()) {
    FpduShape shape;
    if (!ShapeAt(at, bytes, shape)) return false;
    // A marker proves where the FPDU that contains it begins, and only that.
    if (first && config_.early == Early::kMarked && shape.marker_count() == 0) {
      return false;
    }
    const uint32_t length = shape.wire_bytes();
    const uint32_t covered = length - wire::kFpduCrcBytes;
    if (config_.crc && !wire::Crc32c()
                            .Add(bytes.first(covered))
                            .Matches(bytes.data() + covered)) {
      return false;
    }
    uint32_t offset = 0;
    uint32_t data = 0;
    held_->pieces_.clear();
    if (!CollectPart(shape, bytes.first(length), offset, data)) return false;
    first = false;
    at = at + length;
    bytes = bytes.subspan(length);
  }
  return !first;
}

// REQUIRES: IsWholeFpdus()
uint32_t Delimiter::SetEarlyUlpdu(SeqNum at, Piece bytes) {
  FpduShape shape;
  (void)ShapeAt(at, bytes, shape);
  uint32_t offset = 0;
  uint32_t data = 0;
  held_->pieces_.clear();
  (void)CollectPart(shape, bytes.first(shape.wire_bytes()), offset, data);
  SetUlpdu(shape.ulpdu_bytes);
  return shape.wire_bytes();
}

RxVerdict Delimiter::OnEarlyDelivered(uint32_t bytes) {
  if (error_ != MpaError::kNone) return FailureVerdict();
  if (arrived_ != 0) return Fail(MpaError::kBadMarker).verdict;
  shape_.phase = (shape_.phase + bytes) % wire::kMarkerSpacing;
  return RxVerdict::kAccept;
}

}  // namespace urnic::mpa
