#pragma once

// Builds FPDUs, whole or in part. A retransmission may begin and end anywhere
// in an FPDU; its bytes are those of the first transmission, because the shape
// of the FPDU is the same and the ULPDU has not changed.
//
// MPA does not touch the program's memory, so the caller reads the ULPDU:
//
//   WriteFpdu(shape, crc, from, frame, [&](uint32_t at, auto to) { ... });
//
// reads `to.size()` bytes of the ULPDU from offset `at`. They are read once, in
// order, mostly directly into the frame. A callback that also accepts a
// wire::Crc32c& extends the CRC while it copies. The CRC is computed over the
// bytes that were read, so it fits the bytes that are sent even if the program
// changes its memory meanwhile. If the range contains a byte of the CRC, the
// whole ULPDU is read.

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "transport/iwarp/mpa/fpdu.h"
#include "transport/wire/mpa.h"

namespace urnic::mpa {

// The loop of WriteFpdu(): writes everything except the ULPDU, which the caller
// fills in on request.
class FpduPen {
 public:
  // Writes the bytes [from, from + out.size()) of the FPDU, as they are on the
  // wire, to `out`. REQUIRES: they are within the FPDU.
  // `crc`: whether CRCs are in use. If not, the field is 0, as Linux sends it.
  FpduPen(const FpduShape& shape, bool crc, uint32_t from,
          std::span<uint8_t> out);

  struct Request {
    uint32_t ulpdu_offset = 0;
    std::span<uint8_t> to;
  };
  // True: the caller fills request.to, and calls again. False: all is written.
  bool Next(Request& request);

 private:
  static constexpr uint32_t kScratchBytes = 512;

  bool TakeUlpdu(uint32_t bytes, Request& request);
  void PutMarker();
  // Advances by bytes that are not the ULPDU's.
  void Put(std::span<const uint8_t> bytes);

  const FpduShape shape_;
  const uint32_t from_;
  const uint32_t end_;
  const std::span<uint8_t> out_;
  const bool needs_crc_;
  wire::Crc32c crc_;
  uint32_t at_ = 0;    // on the wire
  uint32_t data_ = 0;  // of the data
  std::span<const uint8_t> asked_;
  std::array<uint8_t, kScratchBytes> scratch_;
};

// The pad and the CRC of an FPDU without markers, behind its ULPDU.
void FinishFpdu(uint32_t ulpdu_bytes, bool crc, std::span<uint8_t> fpdu);
// The same with a CRC that has been computed up to the pad.
void FinishFpdu(uint32_t ulpdu_bytes, wire::Crc32c crc,
                std::span<uint8_t> fpdu);

// ULPDUs from this size on are hashed while they are copied, if the caller can.
inline constexpr uint32_t kHashOnTheWay = 512;

template <typename ReadUlpdu>
void WriteFpdu(const FpduShape& shape, bool crc, uint32_t from,
               std::span<uint8_t> out, ReadUlpdu&& read) {
  // Most FPDUs are written as a whole and without markers, in one run.
  if (!shape.markers && from == 0 && out.size() == shape.data_bytes()) {
    const wire::Be<uint16_t> length(static_cast<uint16_t>(shape.ulpdu_bytes));
    std::memcpy(out.data(), &length, sizeof(length));
    if constexpr (std::is_invocable_v<ReadUlpdu&, uint32_t, std::span<uint8_t>,
                                      wire::Crc32c&>) {
      if (crc && shape.ulpdu_bytes >= kHashOnTheWay) {
        wire::Crc32c hash;
        hash.Add(out.first(kHeaderBytes));
        read(0u, out.subspan(kHeaderBytes, shape.ulpdu_bytes), hash);
        FinishFpdu(shape.ulpdu_bytes, hash, out);
        return;
      }
    }
    if (shape.ulpdu_bytes != 0) {
      read(0u, out.subspan(kHeaderBytes, shape.ulpdu_bytes));
    }
    FinishFpdu(shape.ulpdu_bytes, crc, out);
    return;
  }
  FpduPen pen(shape, crc, from, out);
  FpduPen::Request request;
  while (pen.Next(request)) read(request.ulpdu_offset, request.to);
}

}  // namespace urnic::mpa
