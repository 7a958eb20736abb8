// Any bytes as the peer's side of the set-up, in any cuts, for both roles. What
// is agreed is within the options, and a frame that was accepted is written
// again as it was, except for its reserved bits.

#include <algorithm>
#include <vector>

#include "tests/fuzz/input.h"
#include "transport/base/check.h"
#include "transport/iwarp/mpa/negotiation.h"

namespace urnic::mpa {
namespace {

using testing::Input;
using Bytes = std::vector<uint8_t>;

constexpr uint8_t kReservedBits = 0x0f;
constexpr Time kNow = Time::FromNs(1000);

SetupOptions OptionsOf(Input& in) {
  SetupOptions options;
  const uint8_t bits = in.Byte();
  options.revision = (bits & 1) != 0 ? 1 : 2;
  options.crc = (bits & 2) != 0;
  options.markers = (bits & 4) != 0;
  options.peer_to_peer = (bits & 8) != 0;
  options.promise = (bits & 16) != 0;
  options.rtr_kinds = bits >> 5;
  options.ird = in.Byte();
  options.ord = in.Byte();
  options.max_ird = in.Byte();
  return options;
}

void CheckAgreement(const SetupOptions& options, const Agreement& agreement) {
  URNIC_CHECK(agreement.revision <= options.revision);
  URNIC_CHECK(agreement.ord <= options.ord);
  URNIC_CHECK(agreement.ird >= options.ird &&
              agreement.ird <= std::max(options.ird, options.max_ird));
  URNIC_CHECK((agreement.rtr & (agreement.rtr - 1)) == 0 &&
              (agreement.rtr & ~options.rtr_kinds) == 0);
  URNIC_CHECK(agreement.receive_markers == options.markers);
  URNIC_CHECK(agreement.crc || !options.crc);
  URNIC_CHECK(options.promise || !agreement.peer_aligned);
}

// Gives the frame to `to` in pieces. Returns how many bytes were taken.
template <typename To>
size_t Give(Input& in, const Bytes& bytes, To& to) {
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t n = std::min<size_t>(1 + in.Byte(), bytes.size() - at);
    const auto taken = to.OnBytes(std::span(bytes).subspan(at, n));
    URNIC_CHECK(taken.bytes <= n);
    at += taken.bytes;
    if (taken.bytes < n) break;
  }
  return at;
}

void CheckWrittenAgain(SetupKind kind, bool promise, const Bytes& bytes) {
  SetupReader reader(kind, promise);
  const uint32_t used = reader.Add(bytes);
  URNIC_CHECK(used <= bytes.size() && used <= kMaxSetupBytes);
  if (reader.state() != SetupReader::State::kComplete) return;
  Bytes again(kMaxSetupBytes);
  SetupFrame frame = reader.frame();
  again.resize(frame.Write(again));
  Bytes expected(bytes.begin(), bytes.begin() + used);
  expected[16] &= static_cast<uint8_t>(~kReservedBits);
  if (frame.revision < 2) expected[16] &= 0xe0;
  if (frame.promise) {
    // The reserved field of the promise.
    expected[used - 4] = 0;
    expected[used - 3] = 0;
  }
  URNIC_CHECK(again == expected);
}

void AsInitiator(Input& in, const SetupOptions& options, const Bytes& bytes) {
  Initiator initiator(options);
  Bytes frame(kMaxSetupBytes);
  URNIC_CHECK(initiator.Start({}, kNow, frame) <= frame.size());
  Give(in, bytes, initiator);
  using S = Initiator::State;
  const S state = initiator.state();
  if (state == S::kAgreed || state == S::kTerminate) {
    CheckAgreement(options, initiator.agreement());
    URNIC_CHECK(initiator.private_data().size() <= wire::kMpaMaxPrivateData);
  }
  URNIC_CHECK((initiator.error() != MpaError::kNone) ==
              (state == S::kTerminate || state == S::kFailed));
  URNIC_CHECK(initiator.NextDeadline().IsInfinite() == (state != S::kWaiting));
  initiator.OnClosed();
  URNIC_CHECK(initiator.state() != S::kWaiting);
}

void AsResponder(Input& in, const SetupOptions& options, const Bytes& bytes) {
  Responder responder(options, kNow);
  const size_t used = Give(in, bytes, responder);
  if (responder.state() == Responder::State::kRequested) {
    URNIC_CHECK(used == bytes.size());
    CheckAgreement(options, responder.Proposed());
    Bytes reply(kMaxSetupBytes);
    const Bytes data(std::min<uint32_t>(responder.room(), 2u * in.Byte()));
    reply.resize((in.Byte() & 1) != 0 ? responder.Accept(data, kNow, reply)
                                      : responder.Reject(data, reply));
    SetupReader reader(SetupKind::kReply, options.promise);
    URNIC_CHECK(reader.Add(reply) == reply.size() &&
                reader.state() == SetupReader::State::kComplete);
  }
  responder.OnTimer(kNow + options.timeout);
  URNIC_CHECK(responder.NextDeadline().IsInfinite());
}

}  // namespace
}  // namespace urnic::mpa

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace urnic::mpa;
  urnic::testing::Input in(data, size);
  const SetupOptions options = OptionsOf(in);
  // A frame with a right key, and the input's bytes behind it or over it.
  const uint8_t how = in.Byte();
  const bool request = (how & 1) != 0;
  const char* key = request ? urnic::wire::MpaFrame::kRequestKey
                            : urnic::wire::MpaFrame::kReplyKey;
  Bytes bytes;
  if ((how & 2) == 0) bytes.assign(key, key + 16);
  for (uint32_t n = in.Word() % 700; n != 0; --n) bytes.push_back(in.Byte());
  if ((how & 4) != 0 && bytes.size() >= kSetupHeaderBytes) {
    const size_t n = bytes.size() - kSetupHeaderBytes;
    bytes[18] = static_cast<uint8_t>(n >> 8);
    bytes[19] = static_cast<uint8_t>(n);
  }
  CheckWrittenAgain(SetupKind::kRequest, options.promise, bytes);
  CheckWrittenAgain(SetupKind::kReply, options.promise, bytes);
  AsInitiator(in, options, bytes);
  AsResponder(in, options, bytes);
  return 0;
}
