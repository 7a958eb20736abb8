// Streams of FPDUs in segments of every kind: what is handed up, what is kept
// meanwhile, and what is refused.

#include "transport/iwarp/mpa/delimiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "tests/support/alloc_guard.h"
#include "tests/support/fragments.h"
#include "tests/support/random.h"
#include "transport/iwarp/mpa/reference_stream.h"

namespace urnic::mpa {
namespace {

using testing::Bytes;
using testing::ReferenceStream;
using urnic::testing::HostFrames;
using urnic::testing::Random;
using V = RxVerdict;

Bytes RandomBytes(size_t n, Random& random) {
  Bytes bytes(n);
  for (uint8_t& byte : bytes) byte = random.Byte();
  return bytes;
}

// What DDP would get. It reads the pieces only at the end of a burst, as the
// placements do.
class Recorder {
 public:
  bool OnUlpdu(const Ulpdu& ulpdu) {
    size_t bytes = 0;
    for (const Piece piece : ulpdu.pieces) {
      EXPECT_FALSE(piece.empty());
      bytes += piece.size();
    }
    EXPECT_EQ(bytes, ulpdu.bytes);
    EXPECT_EQ(ulpdu.head.size(), std::min(ulpdu.bytes, kHeadBytes));
    heads_.emplace_back(ulpdu.head.begin(), ulpdu.head.end());
    waiting_.emplace_back(ulpdu.pieces.begin(), ulpdu.pieces.end());
    return waiting_.size() + executed_.size() != stop_after;
  }
  void Execute() {
    for (const auto& pieces : waiting_) {
      Bytes ulpdu;
      for (const Piece piece : pieces) {
        ulpdu.insert(ulpdu.end(), piece.begin(), piece.end());
      }
      const Bytes& head = heads_[executed_.size()];
      EXPECT_TRUE(std::equal(head.begin(), head.end(), ulpdu.begin()));
      executed_.push_back(ulpdu);
    }
    waiting_.clear();
  }
  const std::vector<std::vector<Piece>>& waiting() const { return waiting_; }
  const std::vector<Bytes>& executed() const { return executed_; }

  size_t stop_after = SIZE_MAX;

 private:
  std::vector<Bytes> heads_;
  std::vector<std::vector<Piece>> waiting_;
  std::vector<Bytes> executed_;
};

// A delimiter with its surroundings. Each segment is a burst of its own.
class End {
 public:
  End(bool crc, bool markers, uint32_t limit = 1000)
      : held_(limit),
        delimiter_(std::in_place,
                   DelimiterConfig{.crc = crc, .markers = markers}, &held_,
                   &frames) {}

  Delimiter::Taken Give(std::span<const uint8_t> bytes) {
    return frames.Give(Bytes(bytes.begin(), bytes.end()),
                       [&](const ReceivedFrame& frame) {
                         const Delimiter::Taken taken =
                             delimiter_->OnBytes(frame.bytes, frame, recorder);
                         recorder.Execute();
                         delimiter_->ReleaseExecuted();
                         return taken;
                       });
  }
  void ExpectAll(std::span<const uint8_t> bytes) {
    const Delimiter::Taken taken = Give(bytes);
    EXPECT_EQ(taken.verdict, V::kAccept);
    EXPECT_EQ(taken.bytes, bytes.size());
  }
  const std::vector<Bytes>& got() const { return recorder.executed(); }
  Delimiter& delimiter() { return *delimiter_; }
  const HeldPieces& held() const { return held_; }
  void Destroy() { delimiter_.reset(); }

  HostFrames frames;
  Recorder recorder;

 private:
  HeldPieces held_;
  std::optional<Delimiter> delimiter_;
};

// A stream of ULPDUs of these lengths.
struct Stream {
  Stream(std::initializer_list<size_t> lengths, bool crc, bool markers)
      : reference(crc, markers) {
    Random random(lengths.size());
    for (const size_t n : lengths) Add(RandomBytes(n, random));
  }
  void Add(const Bytes& ulpdu) {
    reference.AddFpdu(ulpdu);
    ulpdus.push_back(ulpdu);
  }
  std::span<const uint8_t> Part(size_t from, size_t n) const {
    return std::span(reference.bytes()).subspan(from, n);
  }
  const Bytes& bytes() const { return reference.bytes(); }

  ReferenceStream reference;
  std::vector<Bytes> ulpdus;
};

class DelimiterTest : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  bool crc() const { return std::get<0>(GetParam()); }
  bool markers() const { return std::get<1>(GetParam()); }
};

// Two connections, and together they hold all that there is room for: each
// waits for a part of its FPDU that cannot be held. The reserve lets one of
// them go on until its FPDU is complete, and then the other.
TEST(DelimiterReserveTest, ConnectionsDoNotWaitForEachOther) {
  const Stream stream({100}, /*crc=*/false, /*markers=*/false);
  constexpr size_t kPart = 10;
  HostFrames frames;
  HeldPieces held(4);
  Delimiter a({.crc = false}, &held, &frames);
  Delimiter b({.crc = false}, &held, &frames);
  Recorder recorder;
  size_t given[2] = {};
  // The next part of the stream; false: it was refused.
  const auto give = [&](Delimiter& to, size_t& at) {
    const auto part =
        stream.Part(at, std::min(kPart, stream.bytes().size() - at));
    const bool taken = frames.Give(
        Bytes(part.begin(), part.end()), [&](const ReceivedFrame& frame) {
          const bool done = to.OnBytes(frame.bytes, frame, recorder).bytes != 0;
          recorder.Execute();
          to.ReleaseExecuted();
          return done;
        });
    if (taken) at += part.size();
    return taken;
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(give(a, given[0]));
    EXPECT_TRUE(give(b, given[1]));
  }
  EXPECT_EQ(held.free(), 0u);
  EXPECT_TRUE(give(a, given[0]));
  EXPECT_FALSE(give(b, given[1]));
  while (given[0] != stream.bytes().size()) ASSERT_TRUE(give(a, given[0]));
  while (given[1] != stream.bytes().size()) ASSERT_TRUE(give(b, given[1]));
  EXPECT_EQ(recorder.executed().size(), 2u);
  EXPECT_EQ(held.free(), 4u);
}

//= RFC 5044 4.3
TEST_P(DelimiterTest, AStreamCutAnywhereGivesTheSameUlpdus) {
  const Stream stream({20, 0, 1, 495, 510, 3, 1030, 18}, crc(), markers());
  for (size_t cut = 0; cut <= stream.bytes().size(); ++cut) {
    End end(crc(), markers());
    end.ExpectAll(stream.Part(0, cut));
    end.ExpectAll(stream.Part(cut, stream.bytes().size() - cut));
    ASSERT_EQ(end.got(), stream.ulpdus) << cut;
    ASSERT_FALSE(end.delimiter().mid_fpdu());
    ASSERT_EQ(end.frames.kept(), 0u);
    ASSERT_EQ(end.held().free(), 1000u);
  }
}

TEST_P(DelimiterTest, EveryByteMayBeASegment) {
  const Stream stream({200, 0, 7, 240, 90}, crc(), markers());
  End end(crc(), markers());
  for (size_t i = 0; i < stream.bytes().size(); ++i) {
    end.ExpectAll(stream.Part(i, 1));
  }
  EXPECT_EQ(end.got(), stream.ulpdus);
  EXPECT_EQ(end.frames.kept(), 0u);
}

TEST_P(DelimiterTest, RandomStreamsWithRefusalsArriveWhole) {
  Random random(crc() * 2 + markers());
  for (int round = 0; round < 200; ++round) {
    Stream stream({}, crc(), markers());
    for (size_t n = 1 + random.Below(20); n != 0; --n) {
      stream.Add(
          RandomBytes(random.Below(random.OneIn(10) ? 9000 : 700), random));
    }
    End end(crc(), markers(), static_cast<uint32_t>(8 + random.Below(20)));
    size_t at = 0;
    int refused = 0;
    while (at < stream.bytes().size()) {
      // At last there is room.
      end.frames.limit = refused > 3 ? 1000 : random.Below(6);
      const size_t n =
          std::min<size_t>(1 + random.Below(refused > 3 ? 20000 : 1500),
                           stream.bytes().size() - at);
      const Delimiter::Taken taken = end.Give(stream.Part(at, n));
      ASSERT_TRUE(taken.verdict == V::kAccept ? taken.bytes == n
                                              : taken.bytes < n);
      if (taken.verdict != V::kAccept) {
        ASSERT_EQ(taken.verdict, V::kMpaNoRoom);
      }
      refused = taken.verdict == V::kAccept ? 0 : refused + 1;
      at += taken.bytes;
      ASSERT_LE(end.frames.kept(), end.frames.limit + 6);
    }
    ASSERT_EQ(end.got(), stream.ulpdus);
    ASSERT_EQ(end.frames.kept(), 0u);
  }
}

TEST_P(DelimiterTest, PayloadStaysInTheFramesThatItCameIn) {
  const Stream stream({1400}, crc(), markers());
  const size_t half = 700;
  HostFrames frames;
  HeldPieces held(10);
  Recorder recorder;
  Delimiter delimiter({.crc = crc(), .markers = markers()}, &held, &frames);
  const auto give = [&](size_t from, size_t n) {
    const auto part = stream.Part(from, n);
    return frames.Give(
        Bytes(part.begin(), part.end()), [&](const ReceivedFrame& frame) {
          const auto taken = delimiter.OnBytes(frame.bytes, frame, recorder);
          EXPECT_EQ(taken.bytes, n);
          if (!recorder.waiting().empty()) {
            const Piece last = recorder.waiting()[0].back();
            EXPECT_GE(last.data(), frame.bytes.data());
            EXPECT_LE(last.data() + last.size(),
                      frame.bytes.data() + frame.bytes.size());
          }
          recorder.Execute();
          return taken.bytes;
        });
  };
  give(0, half);
  EXPECT_EQ(frames.kept(), 1u);
  EXPECT_TRUE(delimiter.mid_fpdu());
  give(half, stream.bytes().size() - half);
  // The kept frame is needed until the caller has executed its placements.
  EXPECT_EQ(frames.kept(), 1u);
  delimiter.ReleaseExecuted();
  EXPECT_EQ(frames.kept(), 0u);
  EXPECT_EQ(recorder.executed(), stream.ulpdus);
}

INSTANTIATE_TEST_SUITE_P(
    Mpa, DelimiterTest,
    ::testing::Combine(::testing::Bool(), ::testing::Bool()),
    [](const auto& info) {
      return std::string(std::get<0>(info.param) ? "Crc" : "NoCrc") +
             (std::get<1>(info.param) ? "Markers" : "NoMarkers");
    });

TEST(DelimiterSegmentTest, WholeFpdusAreSpansOfTheirFrameAndNothingIsKept) {
  const Stream stream({100, 1200}, true, false);
  HostFrames frames;
  frames.limit = 0;
  HeldPieces held(1);
  Recorder recorder;
  Delimiter delimiter({.crc = true}, &held, &frames);
  frames.Give(stream.bytes(), [&](const ReceivedFrame& frame) {
    const auto taken = delimiter.OnBytes(frame.bytes, frame, recorder);
    EXPECT_EQ(taken.bytes, frame.bytes.size());
    EXPECT_EQ(recorder.waiting().size(), 2u);
    EXPECT_EQ(recorder.waiting()[0][0].data(), frame.bytes.data() + 2);
    EXPECT_EQ(recorder.waiting()[1][0].data(), frame.bytes.data() + 110);
    EXPECT_EQ(recorder.waiting()[1].size(), 1u);
    recorder.Execute();
    return 0;
  });
  EXPECT_EQ(recorder.executed(), stream.ulpdus);
}

//= RFC 5044 4.4, RFC 5044 8
TEST(DelimiterErrorTest, AnFpduWithAChangedByteIsNeverHandedUp) {
  for (const bool markers : {false, true}) {
    const Stream stream({300, 301}, true, markers);
    const size_t second = stream.reference.last_begin();
    for (size_t i = second; i < stream.bytes().size(); ++i) {
      Bytes changed = stream.bytes();
      changed[i] ^= static_cast<uint8_t>(1 << i % 8);
      for (const size_t cut : {second, second + 3, second + 200}) {
        End end(true, markers);
        auto taken = end.Give(std::span(changed).first(cut));
        if (taken.verdict == V::kAccept) {
          taken = end.Give(std::span(changed).subspan(cut));
        }
        ASSERT_EQ(end.got().size(), 1u) << i << " " << cut;
        // A longer length waits for more bytes.
        const bool waits = i < second + 2 && changed[i] > stream.bytes()[i];
        if (taken.verdict == V::kAccept && waits) continue;
        ASSERT_EQ(taken.verdict, V::kMpaBadCrc);
        ASSERT_EQ(end.delimiter().error(), MpaError::kBadCrc);
        ASSERT_EQ(end.frames.kept(), 0u);
        ASSERT_EQ(end.Give(stream.bytes()).verdict, V::kMpaBadCrc);
        ASSERT_EQ(end.got().size(), 1u);
      }
    }
  }
}

//= RFC 5044 7.1.1
TEST(DelimiterErrorTest, WithoutCrcTheFieldIsNotLookedAt) {
  Stream stream({40}, false, false);
  Bytes bytes = stream.bytes();
  bytes.back() = 0x77;
  End end(false, false);
  end.ExpectAll(bytes);
  EXPECT_EQ(end.got(), stream.ulpdus);
}

// Sets the CRC of the only FPDU again.
void Seal(Bytes& fpdu) {
  const size_t covered = fpdu.size() - 4;
  const uint32_t crc = testing::SlowCrc32c(std::span(fpdu).first(covered));
  for (size_t i = 0; i < 4; ++i) {
    fpdu[covered + i] = static_cast<uint8_t>(crc >> 8 * i);
  }
}

//= RFC 5044 8
TEST(DelimiterErrorTest, AMarkerThatDisagreesWithTheLengthEndsTheStream) {
  const Stream stream({1500}, true, true);
  for (const size_t marker : stream.reference.marker_positions()) {
    for (const size_t byte : {2u, 3u}) {
      Bytes changed = stream.bytes();
      changed[marker + byte] ^= 0x04;
      Seal(changed);
      End end(true, true);
      EXPECT_EQ(end.Give(changed).verdict, V::kMpaBadMarker);
      EXPECT_EQ(end.delimiter().error(), MpaError::kBadMarker);
      EXPECT_TRUE(end.got().empty());
      EXPECT_EQ(end.Give(stream.bytes()).verdict, V::kMpaBadMarker);
    }
  }
}

//= RFC 5044 4.2
TEST(DelimiterErrorTest, ReservedBitsOfAMarkerAreIgnored) {
  const Stream stream({1500}, true, true);
  for (const size_t marker : stream.reference.marker_positions()) {
    Bytes changed = stream.bytes();
    changed[marker] ^= 0xff;
    changed[marker + 3] ^= 0x03;
    Seal(changed);
    End end(true, true);
    end.ExpectAll(changed);
    EXPECT_EQ(end.got(), stream.ulpdus);
  }
}

TEST(DelimiterErrorTest, NoMarkerCanDescribeTheLongestLength) {
  Stream plain({65535}, true, false);
  End end(true, false);
  end.ExpectAll(plain.bytes());
  EXPECT_EQ(end.got(), plain.ulpdus);
  Stream marked({65535}, true, true);
  End other(true, true);
  EXPECT_EQ(other.Give(marked.bytes()).verdict, V::kMpaBadMarker);
}

//= RFC 6581 9.2
TEST(DelimiterSegmentTest, AnEmptyFpduIsHandedUpAsZeroBytes) {
  const Bytes fpdu = {0, 0, 0, 0, 0, 0, 0, 0};
  End end(false, false);
  end.ExpectAll(fpdu);
  EXPECT_EQ(end.got(), std::vector<Bytes>{Bytes{}});
}

TEST(DelimiterSegmentTest, NothingIsTakenAfterTheUpperLayerSaysStop) {
  const Stream stream({10, 20, 30}, true, false);
  End end(true, false);
  end.recorder.stop_after = 2;
  EXPECT_EQ(end.Give(stream.bytes()).bytes, 16u + 28u);
  EXPECT_EQ(end.got().size(), 2u);
}

TEST(DelimiterBoundTest, AConnectionKeepsABoundedNumberOfSegments) {
  const Stream stream({4000}, true, false);
  End end(true, false);
  const uint32_t limit = Delimiter::kMaxHeldSegments;
  for (uint32_t i = 0; i < limit; ++i) end.ExpectAll(stream.Part(i, 1));
  const auto taken = end.Give(stream.Part(limit, 1));
  EXPECT_EQ(taken.verdict, V::kMpaNoRoom);
  EXPECT_EQ(taken.bytes, 0u);
  EXPECT_EQ(end.frames.kept(), limit);
  // A segment that completes the FPDU needs no room.
  end.ExpectAll(stream.Part(limit, stream.bytes().size() - limit));
  EXPECT_EQ(end.got(), stream.ulpdus);
}

TEST(DelimiterBoundTest, ConnectionsShareTheRoomOfTheEngine) {
  const Stream stream({100}, false, false);
  HostFrames frames;
  HeldPieces held(1);
  Recorder recorder;
  Delimiter one({.crc = false}, &held, &frames);
  auto lucky = std::make_unique<Delimiter>(DelimiterConfig{.crc = false}, &held,
                                           &frames);
  auto two = std::make_unique<Delimiter>(DelimiterConfig{.crc = false}, &held,
                                         &frames);
  const auto give = [&](Delimiter& to) {
    const auto part = stream.Part(0, 50);
    return frames.Give(
        Bytes(part.begin(), part.end()), [&](const ReceivedFrame& frame) {
          return to.OnBytes(frame.bytes, frame, recorder).verdict;
        });
  };
  EXPECT_EQ(give(*two), V::kAccept);
  EXPECT_EQ(give(*lucky), V::kAccept);  // has the reserve
  EXPECT_EQ(give(one), V::kMpaNoRoom);
  two.reset();
  EXPECT_EQ(give(one), V::kMpaNoRoom);  // the reserve is filled up first
  lucky.reset();
  EXPECT_EQ(frames.kept(), 0u);
  EXPECT_EQ(give(one), V::kAccept);
}

TEST(DelimiterBoundTest, WhatIsRefusedLeavesNoTrace) {
  const Stream stream({100, 600}, true, true);
  // The first byte of the length is refused, and comes again with others.
  End end(true, true);
  end.ExpectAll(stream.Part(0, 4));
  end.frames.limit = 1;
  EXPECT_EQ(end.Give(stream.Part(4, 7)).bytes, 0u);
  end.frames.limit = 10;
  end.ExpectAll(stream.Part(4, 1));
  end.ExpectAll(stream.Part(5, stream.bytes().size() - 5));
  EXPECT_EQ(end.got(), stream.ulpdus);
}

TEST(DelimiterBoundTest, ADestroyedDelimiterKeepsNothing) {
  const Stream stream({4000}, true, false);
  End end(true, false);
  for (size_t i = 0; i < 10; ++i) end.ExpectAll(stream.Part(i * 9, 9));
  EXPECT_EQ(end.frames.kept(), 10u);
  end.Destroy();
  EXPECT_EQ(end.frames.kept(), 0u);
  EXPECT_EQ(end.held().free(), 1000u);
}

TEST(DelimiterBoundTest, ItReleasesAlsoWhatHasNotBeenExecuted) {
  const Stream stream({100}, true, false);
  HostFrames frames;
  HeldPieces held(10);
  Recorder recorder;
  {
    Delimiter delimiter({.crc = true}, &held, &frames);
    for (const size_t at : {0u, 50u}) {
      const auto part = stream.Part(at, at == 0 ? 50 : 58);
      frames.Give(
          Bytes(part.begin(), part.end()), [&](const ReceivedFrame& frame) {
            return delimiter.OnBytes(frame.bytes, frame, recorder).bytes;
          });
    }
    EXPECT_EQ(recorder.waiting().size(), 1u);
    EXPECT_EQ(frames.kept(), 1u);
  }
  EXPECT_EQ(frames.kept(), 0u);
  EXPECT_EQ(held.free(), 10u);
}

// Keeps nothing, and allocates nothing.
class FakeKeeper final : public FrameKeeper {
 public:
  uint32_t Keep(const ReceivedFrame&, FrameHolder& holder) override {
    return holder.kept++;
  }
  void Release(uint32_t, FrameHolder& holder) override { --holder.kept; }
};

struct Counter {
  bool OnUlpdu(const Ulpdu& ulpdu) {
    bytes += ulpdu.bytes;
    return true;
  }
  uint64_t bytes = 0;
};

TEST(DelimiterBoundTest, NothingIsAllocatedAfterConstruction) {
  const Stream stream({60000, 0, 3, 1454, 9000}, true, true);
  FakeKeeper keeper;
  HeldPieces held(1000);
  Counter counter;
  Delimiter delimiter({.crc = true, .markers = true}, &held, &keeper);
  const urnic::testing::AllocGuard guard;
  for (size_t at = 0; at < stream.bytes().size(); at += 300) {
    const auto part =
        stream.Part(at, std::min<size_t>(300, stream.bytes().size() - at));
    const auto taken =
        delimiter.OnBytes(part, ReceivedFrame{part, nullptr}, counter);
    ASSERT_EQ(taken.bytes, part.size());
    delimiter.ReleaseExecuted();
  }
  EXPECT_EQ(guard.count(), 0u);
  EXPECT_EQ(counter.bytes, 60000u + 3 + 1454 + 9000);
}

}  // namespace
}  // namespace urnic::mpa
