#pragma once

// Divides the received stream into ULPDUs: removes lengths, markers and pad,
// and checks CRCs. The bytes stay in the frames that they came in.
//
// A ULPDU is passed up when its FPDU is complete and its CRC is right, never in
// parts. The usual case is a segment of whole FPDUs without markers: each ULPDU
// is one span of the frame. If an FPDU is cut into several segments, or has
// markers, the ULPDU is a list of spans. Until its last byte has arrived, the
// frames of its parts are kept (FrameKeeper).
//
// Spans stay valid until ReleaseExecuted(): the caller executes the placements
// of a burst first.
//
// Bounds: the length field limits an FPDU to 64 KB; a connection keeps at most
// kMaxHeldSegments segments, and all connections of an engine share one
// HeldPieces. Bytes for which there is no room are not consumed: the receiver
// of TCP must not acknowledge them, so the peer sends them again. A peer that
// cuts one FPDU into more segments than that cannot go on, and times out.
//
// Early segments, which arrive behind a hole, are passed up at once if it is
// certain that they consist of whole FPDUs (`Early`), and the layer above can
// use all of them. A right CRC is not a proof: a payload may look like an FPDU,
// and a segment may begin within it.
//
// Nothing is allocated after construction.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/fields.h"
#include "transport/base/frame_keeper.h"
#include "transport/base/seq_num.h"
#include "transport/iwarp/mpa/errors.h"
#include "transport/iwarp/mpa/fpdu.h"
#include "transport/wire/mpa.h"

namespace urnic::mpa {

using Piece = std::span<const uint8_t>;

// The largest headers of DDP and RDMAP together: an untagged DDP header and an
// atomic request.
inline constexpr uint32_t kHeadBytes = 18 + 52;

// Valid during the call that hands it up, except the bytes that the pieces
// refer to.
struct Ulpdu {
  // 0: an FPDU without a ULPDU, and so without a DDP segment. It may be the
  // initiator's first FPDU.
  uint32_t bytes = 0;
  // The first kHeadBytes bytes, or all if there are fewer, contiguous. For
  // headers only: payload is placed from `pieces`, so that it is copied once.
  Piece head = {};
  // All bytes, from the first.
  std::span<const Piece> pieces = {};
};

class Delimiter;

// What the delimiters of an engine share: room for the parts of unfinished
// FPDUs, and scratch space.
//
// Connections that each hold a part of an FPDU, and each need room for another
// part, would wait for each other forever. So there is a reserve for one FPDU,
// which one of them may use at a time, until its FPDU is complete.
class HeldPieces {
 public:
  // `limit`: on the parts of all connections together, without the reserve.
  explicit HeldPieces(uint32_t limit);
  HeldPieces(const HeldPieces&) = delete;
  HeldPieces& operator=(const HeldPieces&) = delete;

  // Without the reserve.
  uint32_t free() const {
    return free_count_ - std::min(free_count_, kReserve);
  }
  // How many parts were held in its life.
  uint64_t held() const { return held_; }

  // The room that is left for one delimiter; for logs of inputs and their
  // replays.
  struct Left {
    uint32_t parts = 0;          // with the reserve
    bool reserve_taken = false;  // by another
  };
  Left LeftFor(const Delimiter* user) const {
    return {free_count_, reserve_user_ != nullptr && reserve_user_ != user};
  }
  // REQUIRES: at most as many as are free.
  void SetLeftFor(const Delimiter* user, const Left& left);

 private:
  friend class Delimiter;
  template <typename T>
  friend struct urnic::FieldsOf;
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kReserve = 256;
  struct Node {
    Piece bytes = {};
    uint32_t frame = 0;     // its number in custody
    uint32_t next = kNone;  // of the same list
  };

  std::vector<Node> nodes_;
  uint32_t free_ = kNone;
  uint32_t free_count_ = 0;
  const Delimiter* reserve_user_ = nullptr;
  uint64_t held_ = 0;
  // The pieces and the head of the ULPDU that is being passed up.
  std::vector<Piece> pieces_;
  std::array<uint8_t, kHeadBytes> head_;
};

// Which segments behind a hole are known to begin with an FPDU. FPDUs begin at
// multiples of four from the start of the stream; a segment that begins
// elsewhere never does.
enum class Early : uint8_t {
  kNone,
  kMarked,    // segments whose first FPDU has a marker that shows it
  kPromised,  // all others: the peer has promised it (negotiation.h)
};

struct DelimiterConfig {
  // What the peer's FPDUs have, as negotiated.
  bool crc = true;
  bool markers = false;
  Early early = Early::kNone;
  SeqNum start{};  // the first byte after the peer's MPA frame
};

class Delimiter {
 public:
  static constexpr uint32_t kMaxHeldSegments = HeldPieces::kReserve;

  // Both outlive this object.
  Delimiter(const DelimiterConfig& config, HeldPieces* held,
            FrameKeeper* keeper)
      : held_(held), keeper_(keeper), config_(config) {}
  ~Delimiter();
  Delimiter(const Delimiter&) = delete;
  Delimiter& operator=(const Delimiter&) = delete;

  struct Taken {
    uint32_t bytes = 0;
    // kAccept: all bytes were taken, or the upper layer has said stop.
    // kMpaNoRoom: the rest must come again.
    // kMpaBadCrc, kMpaBadMarker: the stream cannot be understood any more;
    // error() is for the Terminate message. No more is ever taken.
    RxVerdict verdict = RxVerdict::kAccept;
  };
  // Takes the next bytes of the stream, which are in `frame`. Calls `bool
  // upper.OnUlpdu(const Ulpdu&)` for each ULPDU that they complete; false:
  // nothing after it is taken. frame.buffer identifies the frame to the keeper,
  // even if the frame is in custody already.
  template <typename Upper>
  Taken OnBytes(Piece bytes, const ReceivedFrame& frame, Upper& upper) {
    Taken taken;
    while (taken.bytes < bytes.size()) {
      const Step step = Take(bytes.subspan(taken.bytes), frame);
      taken.bytes += step.bytes;
      taken.verdict = step.verdict;
      if (step.verdict != RxVerdict::kAccept) break;
      if (step.complete && !upper.OnUlpdu(ulpdu_)) break;
    }
    return taken;
  }

  // Takes a whole segment behind a hole. If it consists of whole, correct
  // FPDUs, this calls `bool upper.MayTakeEarly(const Ulpdu&)` for each. If all
  // calls return true, it calls `upper.OnEarlyUlpdu(SeqNum at, const Ulpdu&)`
  // for each, where `at` is the end of the FPDU in the stream, and returns
  // true. Then these bytes must go to OnEarlyDelivered() instead of OnBytes().
  // False: nothing was taken.
  template <typename Upper>
  bool OnEarlyBytes(SeqNum at, Piece bytes, Upper& upper) {
    if (!IsWholeFpdus(at, bytes)) return false;
    const auto may_take = [&upper](SeqNum, const Ulpdu& ulpdu) {
      return upper.MayTakeEarly(ulpdu);
    };
    if (!ForEarlyUlpdus(at, bytes, may_take)) return false;
    return ForEarlyUlpdus(at, bytes, [&upper](SeqNum end, const Ulpdu& ulpdu) {
      upper.OnEarlyUlpdu(end, ulpdu);
      return true;
    });
  }
  // The stream has reached early bytes, and continues behind them.
  // kMpaBadMarker: they are in the middle of an FPDU, so the peer has broken
  // its promise, or a device on the path divides its segments.
  RxVerdict OnEarlyDelivered(uint32_t bytes);

  // The placements from all ULPDUs so far have been executed.
  void ReleaseExecuted();

  // Whether the stream is within an FPDU: a FIN here loses data.
  bool mid_fpdu() const { return arrived_ != 0; }
  MpaError error() const { return error_; }
  uint32_t frames_kept() const { return holder_.kept; }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  struct Step {
    uint32_t bytes = 0;
    bool complete = false;  // ulpdu_ is ready
    RxVerdict verdict = RxVerdict::kAccept;
  };
  struct List {
    uint32_t first = HeldPieces::kNone;
    uint32_t last = HeldPieces::kNone;
  };

  // Calls f(end, ulpdu) for each FPDU while it returns true; returns whether it
  // always did. REQUIRES: IsWholeFpdus()
  template <typename F>
  bool ForEarlyUlpdus(SeqNum at, Piece bytes, F&& f) {
    while (!bytes.empty()) {
      const uint32_t taken = SetEarlyUlpdu(at, bytes);
      at = at + taken;
      bytes = bytes.subspan(taken);
      if (!f(at, std::as_const(ulpdu_))) return false;
    }
    return true;
  }

  Step Take(Piece rest, const ReceivedFrame& frame);
  Step TakeWhole(Piece rest, uint32_t ulpdu_bytes);
  // Learns the length of the FPDU, if `rest` has the end of its length field.
  void LearnLength(Piece rest);
  // Whether there is room for another part; takes the reserve if it must.
  bool MayHold() const;
  // Releases the reserve, unless it is in use.
  void LetGoOfReserve() const;
  Step Hold(Piece part, const ReceivedFrame& frame);
  Step Finish(Piece part);
  Step Fail(MpaError error);
  RxVerdict FailureVerdict() const;
  // The next bytes of the FPDU, for the CRC and the bytes gathered here.
  void Account(Piece part);
  // Fills held_->pieces_. False: a marker is wrong.
  bool Collect(Piece last);
  bool CollectPart(const FpduShape& shape, Piece part, uint32_t& offset,
                   uint32_t& data);
  bool IsWholeFpdus(SeqNum at, Piece bytes);
  // The shape of the FPDU at the beginning of `bytes`. False: it does not end
  // within them.
  bool ShapeAt(SeqNum at, Piece bytes, FpduShape& shape) const;
  uint32_t SetEarlyUlpdu(SeqNum at, Piece bytes);
  void SetUlpdu(uint32_t bytes);
  void Release(List& list);

  HeldPieces* const held_;
  FrameKeeper* const keeper_;
  FrameHolder holder_{.limit = kMaxHeldSegments};
  const DelimiterConfig config_;
  MpaError error_ = MpaError::kNone;
  // The FPDU of the next byte. `arrived_`: how many of its bytes have arrived;
  // `total_`: its length, 0 while unknown.
  FpduShape shape_{};
  uint32_t arrived_ = 0;
  uint32_t total_ = 0;
  wire::Crc32c crc_;
  uint8_t start_[kMarkerBytes + kHeaderBytes] = {};
  uint8_t crc_field_[wire::kFpduCrcBytes] = {};
  uint8_t marker_[kMarkerBytes] = {};
  List parts_;     // of this FPDU
  List executed_;  // of earlier ones, until ReleaseExecuted()
  Ulpdu ulpdu_;
};

}  // namespace urnic::mpa
