#include "transport/iwarp/mpa/setup_frame.h"

#include <algorithm>
#include <cstring>

#include "transport/base/check.h"

namespace urnic::mpa {
namespace {

const char* KeyOf(SetupKind kind) {
  return kind == SetupKind::kRequest ? wire::MpaFrame::kRequestKey
                                     : wire::MpaFrame::kReplyKey;
}

SetupKind Other(SetupKind kind) {
  return kind == SetupKind::kRequest ? SetupKind::kReply : SetupKind::kRequest;
}

// Appends the bytes of a struct.
template <typename T>
void Append(std::span<uint8_t> to, uint32_t& at, const T& what) {
  std::memcpy(to.data() + at, &what, sizeof(what));
  at += uint32_t{sizeof(what)};
}

}  // namespace

uint32_t SetupFrame::Write(std::span<uint8_t> to) const {
  URNIC_CHECK(revision >= 2 || !enhanced.has_value());
  wire::MpaFrame header = kind == SetupKind::kRequest
                              ? wire::MpaFrame::Request()
                              : wire::MpaFrame::Reply();
  header.flags = static_cast<uint8_t>(
      (markers ? wire::kMpaMarkers : 0) | (crc ? wire::kMpaCrc : 0) |
      (reject ? wire::kMpaReject : 0) |
      (enhanced.has_value() ? wire::kMpaEnhancedSetup : 0));
  header.revision = revision;
  const auto program_bytes = static_cast<uint32_t>(private_data.size());
  const auto bytes = static_cast<uint32_t>(
      program_bytes + (enhanced.has_value() ? sizeof(*enhanced) : 0) +
      (promise ? sizeof(AlignmentPromise) : 0));
  URNIC_CHECK(bytes <= wire::kMpaMaxPrivateData &&
              to.size() >= kSetupHeaderBytes + bytes);
  header.private_data_bytes = wire::Be<uint16_t>(static_cast<uint16_t>(bytes));
  uint32_t at = 0;
  Append(to, at, header);
  if (enhanced.has_value()) Append(to, at, *enhanced);
  std::ranges::copy(private_data, to.begin() + at);
  at += program_bytes;
  if (promise) {
    AlignmentPromise trailer;
    trailer.private_data_bytes =
        wire::Be<uint16_t>(static_cast<uint16_t>(program_bytes));
    Append(to, at, trailer);
  }
  return at;
}

uint32_t RemovePromise(std::span<uint8_t> frame) {
  wire::MpaFrame header;
  URNIC_CHECK(frame.size() >= sizeof(header) + sizeof(AlignmentPromise));
  std::memcpy(&header, frame.data(), sizeof(header));
  const auto bytes = static_cast<uint16_t>(header.private_data_bytes.value() -
                                           sizeof(AlignmentPromise));
  header.private_data_bytes = wire::Be<uint16_t>(bytes);
  std::memcpy(frame.data(), &header, sizeof(header));
  return kSetupHeaderBytes + bytes;
}

uint32_t SetupReader::Add(std::span<const uint8_t> bytes) {
  uint32_t used = 0;
  while (state_ == State::kMore && used < bytes.size()) {
    const auto n =
        std::min(static_cast<uint32_t>(bytes.size()) - used, need_ - have_);
    std::memcpy(bytes_.data() + have_, bytes.data() + used, n);
    have_ += n;
    used += n;
    if (need_ == kSetupHeaderBytes) CheckKey();
    if (state_ == State::kMore && have_ == need_) Parse();
  }
  return used;
}

void SetupReader::CheckKey() {
  const size_t n = std::min<size_t>(have_, sizeof(wire::MpaFrame::key));
  if (std::memcmp(bytes_.data(), KeyOf(expected_), n) == 0) return;
  const bool other =
      std::memcmp(bytes_.data(), KeyOf(Other(expected_)), n) == 0;
  state_ = other ? State::kWrongKind : State::kMalformed;
}

// Called when the header is complete, and again when the private data are.
void SetupReader::Parse() {
  wire::MpaFrame header;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  const uint32_t bytes = header.private_data_bytes.value();
  //= RFC 5044 7.1.1: a frame with more than 512 bytes of private data is
  //= invalid
  if (bytes > wire::kMpaMaxPrivateData) {
    state_ = State::kMalformed;
    return;
  }
  need_ = kSetupHeaderBytes + bytes;
  if (have_ < need_) return;
  std::span<const uint8_t> data =
      std::span(bytes_).subspan(kSetupHeaderBytes, bytes);
  //= RFC 5044 7.1.1: a receiver ignores the reserved bits of a frame
  frame_ = {.kind = expected_,
            .revision = header.revision,
            .markers = (header.flags & wire::kMpaMarkers) != 0,
            .crc = (header.flags & wire::kMpaCrc) != 0,
            .reject = (header.flags & wire::kMpaReject) != 0};
  //= RFC 6581 6: bit S has a meaning in revision 2 and later
  if (header.revision >= 2 && (header.flags & wire::kMpaEnhancedSetup) != 0) {
    wire::MpaEnhanced enhanced;
    if (data.size() < sizeof(enhanced)) {
      state_ = State::kMalformed;
      return;
    }
    std::memcpy(&enhanced, data.data(), sizeof(enhanced));
    frame_.enhanced = enhanced;
    data = data.subspan(sizeof(enhanced));
  }
  if (with_promise_ && data.size() >= sizeof(AlignmentPromise)) {
    AlignmentPromise promise;
    const size_t program_bytes = data.size() - sizeof(promise);
    std::memcpy(&promise, data.data() + program_bytes, sizeof(promise));
    frame_.promise = promise.magic.value() == AlignmentPromise::kMagic &&
                     promise.private_data_bytes.value() == program_bytes;
    if (frame_.promise) data = data.first(program_bytes);
  }
  frame_.private_data = data;
  state_ = State::kComplete;
}

}  // namespace urnic::mpa
