// Segments behind a hole: which of them are handed up at once, and how the
// stream goes on when the hole closes.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/support/fragments.h"
#include "tests/support/random.h"
#include "transport/iwarp/mpa/delimiter.h"
#include "transport/iwarp/mpa/reference_stream.h"

namespace urnic::mpa {
namespace {

using testing::Bytes;
using testing::ReferenceStream;
using urnic::testing::HostFrames;
using urnic::testing::Random;
using V = RxVerdict;

constexpr SeqNum kStart(0xfffffd00);  // the numbers wrap within the stream

struct Got {
  SeqNum end;
  Bytes ulpdu;
  bool operator==(const Got&) const = default;
};

class Recorder {
 public:
  bool OnUlpdu(const Ulpdu& ulpdu) {
    in_order.push_back(BytesOf(ulpdu));
    return true;
  }
  bool MayTakeEarly(const Ulpdu& ulpdu) {
    return BytesOf(ulpdu).size() <= longest;
  }
  void OnEarlyUlpdu(SeqNum end, const Ulpdu& ulpdu) {
    early.push_back({end, BytesOf(ulpdu)});
  }
  size_t longest = SIZE_MAX;  // that is taken early
  std::vector<Bytes> in_order;
  std::vector<Got> early;

 private:
  static Bytes BytesOf(const Ulpdu& ulpdu) {
    Bytes bytes;
    for (const Piece piece : ulpdu.pieces) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    }
    EXPECT_TRUE(
        std::equal(ulpdu.head.begin(), ulpdu.head.end(), bytes.begin()));
    return bytes;
  }
};

// A stream whose first FPDU is missing, and a delimiter that waits for it.
class EarlyTest : public ::testing::Test {
 protected:
  void Make(Early early, bool crc, bool markers) {
    stream_ = std::make_unique<ReferenceStream>(crc, markers);
    delimiter_ = std::make_unique<Delimiter>(
        DelimiterConfig{
            .crc = crc, .markers = markers, .early = early, .start = kStart},
        &held_, &frames_);
    recorder_ = {};
    ulpdus_.clear();
    ends_.clear();
  }
  void Add(const Bytes& ulpdu) {
    stream_->AddFpdu(ulpdu);
    ulpdus_.push_back(ulpdu);
    ends_.push_back(stream_->bytes().size());
  }
  void Add(size_t bytes) {
    Random random(bytes + ends_.size());
    Bytes ulpdu(bytes);
    for (uint8_t& byte : ulpdu) byte = random.Byte();
    Add(ulpdu);
  }
  Piece Part(size_t from, size_t to) const {
    return Piece(stream_->bytes()).subspan(from, to - from);
  }
  bool Early(size_t from, size_t to) { return EarlyAt(from, Part(from, to)); }
  bool EarlyAt(size_t from, Piece bytes) {
    return delimiter_->OnEarlyBytes(kStart + static_cast<uint32_t>(from), bytes,
                                    recorder_);
  }
  Delimiter::Taken InOrder(size_t from, size_t to) {
    const Piece part = Part(from, to);
    return frames_.Give(
        Bytes(part.begin(), part.end()), [&](const ReceivedFrame& frame) {
          return delimiter_->OnBytes(frame.bytes, frame, recorder_);
        });
  }
  Got Expected(size_t i) const {
    return {kStart + static_cast<uint32_t>(ends_[i]), ulpdus_[i]};
  }

  HostFrames frames_;
  HeldPieces held_{100};
  std::unique_ptr<ReferenceStream> stream_;
  std::unique_ptr<Delimiter> delimiter_;
  Recorder recorder_;
  std::vector<Bytes> ulpdus_;
  std::vector<size_t> ends_;
};

TEST_F(EarlyTest, APromisedSegmentGoesUpBeforeTheHoleCloses) {
  for (const bool crc : {false, true}) {
    Make(Early::kPromised, crc, false);
    for (const size_t n : {500u, 100u, 0u, 700u, 60u}) Add(n);
    EXPECT_TRUE(Early(ends_[0], ends_[2]));
    EXPECT_TRUE(Early(ends_[2], ends_[3]));
    EXPECT_EQ(recorder_.early,
              (std::vector<Got>{Expected(1), Expected(2), Expected(3)}));
    // The hole closes.
    EXPECT_EQ(InOrder(0, ends_[0]).verdict, V::kAccept);
    EXPECT_EQ(delimiter_->OnEarlyDelivered(
                  static_cast<uint32_t>(ends_[3] - ends_[0])),
              V::kAccept);
    EXPECT_EQ(InOrder(ends_[3], ends_[4]).verdict, V::kAccept);
    EXPECT_EQ(recorder_.in_order, (std::vector<Bytes>{ulpdus_[0], ulpdus_[4]}));
    EXPECT_EQ(frames_.kept(), 0u);
  }
}

TEST_F(EarlyTest, ASegmentWithAPartOfAnFpduWaits) {
  Make(Early::kPromised, true, false);
  for (const size_t n : {500u, 100u, 200u}) Add(n);
  for (size_t to = ends_[0]; to < ends_[2]; ++to) {
    EXPECT_EQ(Early(ends_[0], to), to == ends_[1]) << to;
  }
  EXPECT_EQ(recorder_.early.size(), 1u);
  EXPECT_FALSE(Early(ends_[0] + 4, ends_[1]));
}

TEST_F(EarlyTest, AWrongCrcWaitsForItsTurn) {
  Make(Early::kPromised, true, false);
  for (const size_t n : {500u, 100u, 200u}) Add(n);
  Bytes changed(Part(ends_[0], ends_[2]).begin(),
                Part(ends_[0], ends_[2]).end());
  changed[changed.size() - 10] ^= 1;
  // Not even the first FPDU goes up: the segment is early or not, as a whole.
  EXPECT_FALSE(EarlyAt(ends_[0], changed));
  EXPECT_TRUE(recorder_.early.empty());
  EXPECT_EQ(delimiter_->error(), MpaError::kNone);
}

TEST_F(EarlyTest, IfOneFpduMustWaitAllOfItsSegmentDoes) {
  Make(Early::kPromised, true, false);
  recorder_.longest = 150;
  for (const size_t n : {500u, 100u, 200u}) Add(n);
  EXPECT_FALSE(Early(ends_[0], ends_[2]));
  EXPECT_TRUE(recorder_.early.empty());
  EXPECT_TRUE(Early(ends_[0], ends_[1]));
  EXPECT_EQ(recorder_.early, (std::vector<Got>{Expected(1)}));
}

TEST_F(EarlyTest, WithoutPromiseAndMarkersNothingIsEarly) {
  Make(Early::kNone, true, false);
  for (const size_t n : {500u, 100u}) Add(n);
  EXPECT_FALSE(Early(ends_[0], ends_[1]));
  Make(Early::kMarked, true, false);
  for (const size_t n : {500u, 100u}) Add(n);
  EXPECT_FALSE(Early(ends_[0], ends_[1]));
}

TEST_F(EarlyTest, AMarkerSaysWhereTheFpduThatContainsItBegins) {
  for (const size_t first : {100u, 490u, 494u, 498u, 502u, 900u}) {
    Make(Early::kMarked, true, true);
    for (const size_t n : {first, size_t{1400}, size_t{30}, size_t{30}}) Add(n);
    EXPECT_TRUE(Early(ends_[0], ends_[2])) << first;
    EXPECT_EQ(recorder_.early, (std::vector<Got>{Expected(1), Expected(2)}));
    EXPECT_EQ(InOrder(0, ends_[0]).verdict, V::kAccept);
    EXPECT_EQ(delimiter_->OnEarlyDelivered(
                  static_cast<uint32_t>(ends_[2] - ends_[0])),
              V::kAccept);
    EXPECT_EQ(InOrder(ends_[2], ends_[3]).verdict, V::kAccept);
    EXPECT_EQ(recorder_.in_order, (std::vector<Bytes>{ulpdus_[0], ulpdus_[3]}));
  }
}

TEST_F(EarlyTest, AMarkerOfALaterFpduProvesNothingAboutTheFirst) {
  Make(Early::kMarked, true, true);
  for (const size_t n : {40u, 40u, 1000u}) Add(n);
  // The second FPDU has no marker; the third one has.
  EXPECT_FALSE(Early(ends_[0], ends_[1]));
  EXPECT_FALSE(Early(ends_[0], ends_[2]));
  EXPECT_TRUE(Early(ends_[1], ends_[2]));
}

// A program chooses its payload. If a segment begins there, it looks like an
// FPDU, with a right CRC.
TEST_F(EarlyTest, APayloadThatImitatesAnFpduIsNotTakenForOne) {
  Make(Early::kMarked, true, true);
  Add(16);
  // 28 bytes into the stream, then a forged FPDU at 32 of 24 bytes.
  ReferenceStream forged(true, false);
  forged.AddFpdu(Bytes(18, 0xbb));
  Bytes payload(1000);
  std::ranges::copy(forged.bytes(), payload.begin() + 2);
  Add(payload);
  const size_t at = ends_[0] + 4;
  ASSERT_TRUE(std::ranges::equal(Part(at, at + 24), forged.bytes()));
  EXPECT_FALSE(Early(at, at + 24));
  // A marker, wherever the segment begins, names the true beginning.
  for (size_t from = 1; from + 24 < ends_[1]; ++from) {
    if (from == ends_[0]) continue;
    for (const size_t bytes : {24u, 600u}) {
      EXPECT_FALSE(Early(from, std::min(from + bytes, ends_[1]))) << from;
    }
  }
}

// Zeros look like empty FPDUs, and without CRCs only the marker is left.
TEST_F(EarlyTest, WithoutCrcTheMarkerStillSaysWhereTheFpduBegins) {
  Make(Early::kMarked, false, true);
  Add(16);
  Add(Bytes(2000));
  for (const size_t marker : {512u, 1024u, 1536u}) {
    EXPECT_FALSE(Early(marker - 4, marker + 8)) << marker;
    EXPECT_FALSE(Early(marker, marker + 12)) << marker;
  }
  EXPECT_TRUE(Early(ends_[0], ends_[1]));
}

TEST_F(EarlyTest, NoFpduBeginsBetweenTheMultiplesOfFour) {
  Make(Early::kPromised, true, false);
  for (const size_t n : {500u, 100u}) Add(n);
  const Piece fpdu = Part(ends_[0], ends_[1]);
  for (size_t at = ends_[0]; at < ends_[0] + 4; ++at) {
    EXPECT_EQ(EarlyAt(at, fpdu), at == ends_[0]);
  }
}

//= RFC 5044 8
TEST_F(EarlyTest, EarlyBytesInTheMiddleOfAnFpduEndTheStream) {
  Make(Early::kPromised, true, false);
  for (const size_t n : {500u, 100u}) Add(n);
  EXPECT_TRUE(Early(ends_[0], ends_[1]));
  EXPECT_EQ(InOrder(0, 400).verdict, V::kAccept);
  EXPECT_EQ(delimiter_->OnEarlyDelivered(108), V::kMpaBadMarker);
  EXPECT_EQ(delimiter_->error(), MpaError::kBadMarker);
  EXPECT_EQ(InOrder(400, ends_[0]).bytes, 0u);
  EXPECT_FALSE(Early(ends_[0], ends_[1]));
  EXPECT_EQ(delimiter_->OnEarlyDelivered(108), V::kMpaBadMarker);
}

TEST_F(EarlyTest, AnEmptySegmentIsNotEarly) {
  Make(Early::kPromised, true, false);
  EXPECT_FALSE(EarlyAt(100, {}));
}

// Any order of arrival gives each ULPDU exactly once.
TEST_F(EarlyTest, RandomOrdersGiveEachUlpduOnce) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    const bool markers = random.OneIn(2);
    Make(markers ? Early::kMarked : Early::kPromised, true, markers);
    std::vector<size_t> begins = {0};
    for (int i = 0; i < 30; ++i) {
      Add(random.Below(1400));
      if (i == 29 || random.OneIn(2)) begins.push_back(ends_.back());
    }
    // Segments [begins[i], begins[i + 1]); some arrive early, all in turn.
    for (size_t i = 0; i + 1 < begins.size(); ++i) {
      if (random.OneIn(2) && Early(begins[i], begins[i + 1])) {
        ASSERT_EQ(delimiter_->OnEarlyDelivered(
                      static_cast<uint32_t>(begins[i + 1] - begins[i])),
                  V::kAccept);
      } else {
        ASSERT_EQ(InOrder(begins[i], begins[i + 1]).verdict, V::kAccept);
      }
    }
    std::vector<Bytes> all;
    size_t in_order = 0;
    size_t early = 0;
    for (size_t i = 0; i < ulpdus_.size(); ++i) {
      if (early < recorder_.early.size() &&
          recorder_.early[early] == Expected(i)) {
        ++early;
      } else {
        ASSERT_LT(in_order, recorder_.in_order.size());
        ASSERT_EQ(recorder_.in_order[in_order++], ulpdus_[i]);
      }
    }
    ASSERT_EQ(in_order + early, ulpdus_.size());
    ASSERT_EQ(in_order, recorder_.in_order.size());
    ASSERT_GT(early, 0u);
  }
}

}  // namespace
}  // namespace urnic::mpa
