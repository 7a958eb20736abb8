#include "transport/iwarp/mpa/framer.h"

#include <algorithm>
#include <cstring>

#include "transport/base/check.h"

namespace urnic::mpa {

//= RFC 5044 4.1: the pad bytes are zero
//= RFC 5044 4.4: the CRC of an FPDU covers all its bytes before the CRC
void FinishFpdu(uint32_t ulpdu_bytes, bool crc, std::span<uint8_t> fpdu) {
  const size_t end = kHeaderBytes + ulpdu_bytes;
  const size_t crc_offset = fpdu.size() - wire::kFpduCrcBytes;
  for (size_t i = end; i != fpdu.size(); ++i) fpdu[i] = 0;
  if (crc) wire::Crc32c().Add(fpdu.first(crc_offset)).Store(&fpdu[crc_offset]);
}

void FinishFpdu(uint32_t ulpdu_bytes, wire::Crc32c crc,
                std::span<uint8_t> fpdu) {
  FinishFpdu(ulpdu_bytes, false, fpdu);
  const size_t end = kHeaderBytes + ulpdu_bytes;
  const size_t crc_offset = fpdu.size() - wire::kFpduCrcBytes;
  crc.Add(fpdu.subspan(end, crc_offset - end)).Store(&fpdu[crc_offset]);
}

FpduPen::FpduPen(const FpduShape& shape, bool crc, uint32_t from,
                 std::span<uint8_t> out)
    : shape_(shape),
      from_(from),
      end_(from + static_cast<uint32_t>(out.size())),
      out_(out),
      needs_crc_(crc && !out.empty() &&
                 end_ > shape.wire_bytes() - wire::kFpduCrcBytes) {
  URNIC_CHECK(shape.ulpdu_bytes <= UINT16_MAX && from <= end_ &&
              end_ <= shape.wire_bytes());
}

bool FpduPen::Next(Request& request) {
  //= RFC 5044 4.4: the CRC of an FPDU covers all its bytes before the CRC,
  //= markers included
  if (needs_crc_) crc_.Add(asked_);
  asked_ = {};
  const uint32_t ulpdu_end = kHeaderBytes + shape_.ulpdu_bytes;
  const uint32_t crc_offset = shape_.data_bytes() - wire::kFpduCrcBytes;
  while (at_ < end_) {
    if (shape_.IsMarker(at_)) {
      PutMarker();
    } else if (data_ < kHeaderBytes) {
      const wire::Be<uint16_t> length(
          static_cast<uint16_t>(shape_.ulpdu_bytes));
      uint8_t bytes[sizeof(length)];
      std::memcpy(bytes, &length, sizeof(length));
      Put(bytes);
      data_ += kHeaderBytes;
    } else if (data_ < ulpdu_end) {
      const uint32_t run = shape_.BytesToMarker(at_);
      if (TakeUlpdu(std::min(run, ulpdu_end - data_), request)) return true;
    } else if (data_ < crc_offset) {
      //= RFC 5044 4.1: the pad bytes are zero
      static constexpr uint8_t kZeros[3] = {};
      Put(std::span(kZeros).first(crc_offset - data_));
      data_ = crc_offset;
    } else {
      //= RFC 5044 4.4: the lowest byte of the CRC is sent first, as in iSCSI
      uint8_t bytes[wire::kFpduCrcBytes] = {};
      if (needs_crc_) crc_.Store(bytes);
      Put(bytes);
      data_ += wire::kFpduCrcBytes;
    }
  }
  return false;
}

// At most this many bytes of the ULPDU are next. False: they need not be read.
bool FpduPen::TakeUlpdu(uint32_t bytes, Request& request) {
  const bool wanted = at_ >= from_;
  bytes = std::min(bytes, (wanted ? end_ : from_) - at_);
  if (!wanted && needs_crc_) bytes = std::min(bytes, kScratchBytes);
  request.ulpdu_offset = data_ - kHeaderBytes;
  request.to = wanted       ? out_.subspan(at_ - from_, bytes)
               : needs_crc_ ? std::span(scratch_).first(bytes)
                            : std::span<uint8_t>();
  at_ += bytes;
  data_ += bytes;
  asked_ = request.to;
  return !request.to.empty();
}

void FpduPen::PutMarker() {
  wire::MpaMarker marker;
  marker.fpdu_distance =
      wire::Be<uint16_t>(static_cast<uint16_t>(shape_.MarkerDistance(at_)));
  uint8_t bytes[sizeof(marker)];
  std::memcpy(bytes, &marker, sizeof(marker));
  Put(bytes);
}

void FpduPen::Put(std::span<const uint8_t> bytes) {
  if (needs_crc_) crc_.Add(bytes);
  for (const uint8_t byte : bytes) {
    if (at_ >= from_ && at_ < end_) out_[at_ - from_] = byte;
    ++at_;
  }
}

}  // namespace urnic::mpa
