// A stream of FPDUs, true or not, in any segments, with a custody that refuses:
// the ULPDUs are those of the same stream in one piece, and those that were put
// in as long as nothing was falsified. In the end nothing is kept.

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/support/fragments.h"
#include "transport/base/check.h"
#include "transport/iwarp/mpa/delimiter.h"
#include "transport/iwarp/mpa/framer.h"
#include "transport/iwarp/mpa/reference_stream.h"

namespace urnic::mpa {
namespace {

using testing::Bytes;
using testing::ReferenceStream;
using urnic::testing::HostFrames;
using urnic::testing::Input;

constexpr uint32_t kFpduMax = 40;
constexpr uint32_t kCustody = 300;

class Recorder {
 public:
  static bool MayTakeEarly(const Ulpdu&) { return true; }
  void OnEarlyUlpdu(SeqNum, const Ulpdu& ulpdu) { (void)OnUlpdu(ulpdu); }
  bool OnUlpdu(const Ulpdu& ulpdu) {
    Bytes bytes;
    for (const Piece piece : ulpdu.pieces) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    }
    URNIC_CHECK(bytes.size() == ulpdu.bytes);
    URNIC_CHECK(ulpdu.head.size() == std::min(ulpdu.bytes, kHeadBytes));
    URNIC_CHECK(
        std::equal(ulpdu.head.begin(), ulpdu.head.end(), bytes.begin()));
    ulpdus.push_back(std::move(bytes));
    return true;
  }
  std::vector<Bytes> ulpdus;
};

class Fuzzer {
 public:
  explicit Fuzzer(Input input)
      : in_(input),
        crc_((in_.Byte() & 1) != 0),
        markers_((in_.Byte() & 1) != 0),
        stream_(crc_, markers_) {}

  void Run() {
    for (uint32_t n = in_.Below(kFpduMax); n != 0; --n) AddFpdu();
    bytes_ = stream_.bytes();
    // Falsify: change bytes, or append some.
    const uint32_t changes = in_.Below(4);
    for (uint32_t i = 0; i < changes && !bytes_.empty(); ++i) {
      bytes_[in_.Word() % bytes_.size()] ^= in_.Byte();
    }
    for (uint32_t n = in_.Below(64); n != 0; --n) bytes_.push_back(in_.Byte());
    const std::vector<Bytes> whole = InOnePiece();
    const std::vector<Bytes> parts = InParts();
    OfferEarly(/*is_true=*/changes == 0);
    URNIC_CHECK(parts == whole);
    if (changes == 0) {
      URNIC_CHECK(whole.size() >= put_.size() &&
                  std::equal(put_.begin(), put_.end(), whole.begin()));
    }
  }

 private:
  DelimiterConfig Config() const { return {.crc = crc_, .markers = markers_}; }
  void AddFpdu() {
    const uint32_t limit = (in_.Byte() & 7) == 0 ? 9000 : 600;
    Bytes ulpdu(in_.Word() % limit);
    for (size_t i = 0; i < ulpdu.size(); i += 37) ulpdu[i] = in_.Byte();
    const size_t before = stream_.bytes().size();
    stream_.AddFpdu(ulpdu);
    CheckFramer(ulpdu, static_cast<uint32_t>(before % wire::kMarkerSpacing));
    put_.push_back(std::move(ulpdu));
    ends_.push_back(stream_.bytes().size());
  }
  // Two parts of the same FPDU, built again.
  void CheckFramer(const Bytes& ulpdu, uint32_t phase) {
    const FpduShape shape{.ulpdu_bytes = static_cast<uint32_t>(ulpdu.size()),
                          .phase = phase,
                          .markers = markers_};
    const auto begin =
        stream_.bytes().begin() + static_cast<long>(stream_.last_begin());
    const Bytes expected(begin, stream_.bytes().end());
    URNIC_CHECK(expected.size() == shape.wire_bytes());
    const uint32_t cut = in_.Word() % (shape.wire_bytes() + 1);
    Bytes built(shape.wire_bytes());
    const auto read = [&](uint32_t at, std::span<uint8_t> to) {
      std::copy_n(ulpdu.begin() + at, to.size(), to.begin());
    };
    WriteFpdu(shape, crc_, 0, std::span(built).first(cut), read);
    WriteFpdu(shape, crc_, cut, std::span(built).subspan(cut), read);
    URNIC_CHECK(built == expected);
  }
  std::vector<Bytes> InOnePiece() {
    HostFrames frames;
    HeldPieces held(1);
    Recorder recorder;
    Delimiter delimiter(Config(), &held, &frames);
    frames.Give(bytes_, [&](const ReceivedFrame& frame) {
      return delimiter.OnBytes(frame.bytes, frame, recorder).bytes;
    });
    return recorder.ulpdus;
  }
  std::vector<Bytes> InParts() {
    HostFrames frames;
    HeldPieces held(kCustody);
    Recorder recorder;
    auto delimiter = std::make_unique<Delimiter>(Config(), &held, &frames);
    size_t at = 0;
    while (at < bytes_.size()) {
      const uint32_t how = in_.Byte();
      // Without input, everything is taken in large parts.
      frames.limit = (how & 3) == 3 ? in_.Byte() % 4 : kCustody;
      size_t n = (how & 4) != 0 ? 1 + in_.Byte() : 1460;
      n = std::min(n, bytes_.size() - at);
      const auto part = std::span(bytes_).subspan(at, n);
      const auto taken = frames.Give(
          Bytes(part.begin(), part.end()), [&](const ReceivedFrame& frame) {
            return delimiter->OnBytes(frame.bytes, frame, recorder);
          });
      URNIC_CHECK(taken.bytes <= n);
      URNIC_CHECK((taken.verdict == RxVerdict::kAccept) == (taken.bytes == n));
      at += taken.bytes;
      if ((how & 8) == 0) delimiter->ReleaseExecuted();
      URNIC_CHECK(frames.kept() == delimiter->frames_kept());
      URNIC_CHECK(frames.kept() <= Delimiter::kMaxHeldSegments);
      if (delimiter->error() != MpaError::kNone) break;
      // A peer that cuts too finely can go on with a long segment only.
      if (taken.verdict == RxVerdict::kMpaNoRoom && frames.limit == kCustody) {
        delimiter->ReleaseExecuted();
        GiveRest(*delimiter, frames, recorder, at);
        break;
      }
    }
    delimiter.reset();
    URNIC_CHECK(frames.kept() == 0 && held.free() == kCustody);
    return recorder.ulpdus;
  }
  // Any part of the stream, as if it arrived behind a hole. Where markers say
  // so, it must be what it looks like.
  void OfferEarly(bool is_true) {
    HostFrames frames;
    HeldPieces held(1);
    Recorder recorder;
    DelimiterConfig config = Config();
    config.early = markers_ ? Early::kMarked : Early::kPromised;
    Delimiter delimiter(config, &held, &frames);
    for (uint32_t n = in_.Below(16); n != 0 && !bytes_.empty(); --n) {
      size_t from = in_.Word() % bytes_.size();
      size_t to = from + in_.Word() % (bytes_.size() - from + 1);
      // Mostly the boundaries of FPDUs.
      if (n % 4 != 0 && !ends_.empty()) {
        from = ends_[from % ends_.size()];
        to = std::max(from, ends_[to % ends_.size()]);
      }
      recorder.ulpdus.clear();
      const bool taken = delimiter.OnEarlyBytes(
          config.start + static_cast<uint32_t>(from),
          std::span(bytes_).subspan(from, to - from), recorder);
      const bool is_known = is_true && !ends_.empty() && to <= ends_.back();
      if (!taken || !markers_ || !is_known) continue;
      const auto first = std::ranges::find(ends_, from);
      URNIC_CHECK(from == 0 || first != ends_.end());
      const auto at = from == 0 ? 0 : first - ends_.begin() + 1;
      URNIC_CHECK(std::equal(recorder.ulpdus.begin(), recorder.ulpdus.end(),
                             put_.begin() + at));
    }
  }
  void GiveRest(Delimiter& delimiter, HostFrames& frames, Recorder& recorder,
                size_t at) {
    (void)frames.Give(
        Bytes(bytes_.begin() + static_cast<long>(at), bytes_.end()),
        [&](const ReceivedFrame& frame) {
          return delimiter.OnBytes(frame.bytes, frame, recorder).bytes;
        });
  }

  Input in_;
  const bool crc_;
  const bool markers_;
  ReferenceStream stream_;
  std::vector<Bytes> put_;
  std::vector<size_t> ends_;  // of their FPDUs
  Bytes bytes_;
};

}  // namespace
}  // namespace urnic::mpa

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const urnic::testing::Input input(data, size);
  std::make_unique<urnic::mpa::Fuzzer>(input)->Run();
  return 0;
}
