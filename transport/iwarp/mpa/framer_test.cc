// FPDUs as they are sent: whole, and every part of them again.

#include "transport/iwarp/mpa/framer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/random.h"
#include "transport/iwarp/mpa/reference_stream.h"

namespace urnic::mpa {
namespace {

using testing::Bytes;
using testing::ReferenceStream;
using urnic::testing::Random;

Bytes RandomBytes(size_t n, uint64_t seed) {
  Random random(seed);
  Bytes bytes(n);
  for (uint8_t& byte : bytes) byte = random.Byte();
  return bytes;
}

// The FPDU of this ULPDU at this phase, by the reference.
Bytes Reference(const Bytes& ulpdu, uint32_t phase, bool crc, bool markers) {
  ReferenceStream stream(crc, markers, phase);
  stream.AddFpdu(ulpdu);
  return stream.bytes();
}

Bytes Part(const FpduShape& shape, bool crc, const Bytes& ulpdu, uint32_t from,
           uint32_t bytes) {
  Bytes out(bytes, 0xee);
  WriteFpdu(shape, crc, from, out, [&](uint32_t at, std::span<uint8_t> to) {
    ASSERT_LE(at + to.size(), ulpdu.size());
    std::copy_n(ulpdu.begin() + at, to.size(), to.begin());
  });
  return out;
}

FpduShape ShapeOf(const Bytes& ulpdu, uint32_t phase, bool markers) {
  return {.ulpdu_bytes = static_cast<uint32_t>(ulpdu.size()),
          .phase = phase,
          .markers = markers};
}

//= RFC 5044 4.1, RFC 5044 4.4
TEST(FramerTest, AnFpduHasLengthPadAndCrc) {
  for (uint32_t bytes = 0; bytes < 70; ++bytes) {
    const Bytes ulpdu = RandomBytes(bytes, bytes);
    for (const bool crc : {false, true}) {
      const FpduShape shape = ShapeOf(ulpdu, 0, false);
      EXPECT_EQ(Part(shape, crc, ulpdu, 0, shape.wire_bytes()),
                Reference(ulpdu, 0, crc, false))
          << bytes;
    }
  }
}

//= RFC 5044 4.2, RFC 5044 4.3
TEST(FramerTest, AMarkerIsAtEveryMultipleOf512AndNamesTheDistance) {
  for (const uint32_t bytes :
       {0u, 1u, 2u, 30u, 494u, 498u, 502u, 1454u, 5000u}) {
    const Bytes ulpdu = RandomBytes(bytes, bytes);
    for (uint32_t phase = 0; phase < 512; phase += 4) {
      const FpduShape shape = ShapeOf(ulpdu, phase, true);
      const Bytes expected = Reference(ulpdu, phase, true, true);
      ASSERT_EQ(shape.wire_bytes(), expected.size()) << bytes << " " << phase;
      ASSERT_EQ(shape.phase_after(), (phase + expected.size()) % 512);
      ASSERT_EQ(Part(shape, true, ulpdu, 0, shape.wire_bytes()), expected)
          << bytes << " " << phase;
    }
  }
}

TEST(FramerTest, TheFirstMarkerOfTheStreamComesBeforeTheFirstLength) {
  const Bytes ulpdu = {0xaa, 0xbb};
  const FpduShape shape = ShapeOf(ulpdu, 0, true);
  EXPECT_EQ(Part(shape, false, ulpdu, 0, 12),
            (Bytes{0, 0, 0, 0, 0, 2, 0xaa, 0xbb, 0, 0, 0, 0}));
}

TEST(FramerTest, TheDistanceCountsFromTheLengthField) {
  const Bytes ulpdu(600, 0);
  // With a marker in front: the second one is 508 bytes behind the length.
  const Bytes first = Part(ShapeOf(ulpdu, 0, true), true, ulpdu, 512, 4);
  EXPECT_EQ(first, (Bytes{0, 0, 0x01, 0xfc}));
  const Bytes other = Part(ShapeOf(ulpdu, 500, true), true, ulpdu, 12, 4);
  EXPECT_EQ(other, (Bytes{0, 0, 0, 12}));
}

TEST(FramerTest, EveryPartOfAnFpduIsTheSameAgain) {
  for (const bool markers : {false, true}) {
    for (const uint32_t phase : {0u, 4u, 464u, 488u, 508u}) {
      const Bytes ulpdu = RandomBytes(45, phase);
      const FpduShape shape = ShapeOf(ulpdu, phase, markers);
      const Bytes whole = Reference(ulpdu, phase, true, markers);
      ASSERT_EQ(whole.size(), shape.wire_bytes());
      for (uint32_t from = 0; from <= whole.size(); ++from) {
        for (uint32_t n = 0; n <= whole.size() - from; ++n) {
          const auto at = whole.begin() + from;
          ASSERT_EQ(Part(shape, true, ulpdu, from, n), Bytes(at, at + n))
              << markers << " " << phase << " " << from << " " << n;
        }
      }
    }
  }
}

TEST(FramerTest, PartsOfLongFpdusAreTheSameAgain) {
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    const bool markers = random.OneIn(2);
    const auto phase = static_cast<uint32_t>(random.Below(128)) * 4;
    const bool jumbo = random.OneIn(50);
    const Bytes ulpdu =
        RandomBytes(random.Below(jumbo ? kMaxMulpdu : 4000), random.Next());
    const FpduShape shape = ShapeOf(ulpdu, phase, markers);
    const Bytes whole = Reference(ulpdu, phase, true, markers);
    Bytes parts;
    while (parts.size() < whole.size()) {
      const auto from = static_cast<uint32_t>(parts.size());
      const auto n = static_cast<uint32_t>(
          std::min<uint64_t>(1 + random.Below(2000), whole.size() - from));
      const Bytes part = Part(shape, true, ulpdu, from, n);
      parts.insert(parts.end(), part.begin(), part.end());
    }
    ASSERT_EQ(parts, whole);
  }
}

// The program may write to its memory while we read it.
TEST(FramerTest, TheCrcIsOfTheBytesThatAreSent) {
  const FpduShape shape{.ulpdu_bytes = 3000, .phase = 40, .markers = true};
  Bytes out(shape.wire_bytes());
  uint8_t now = 0;
  uint32_t read = 0;
  WriteFpdu(shape, true, 0, out, [&](uint32_t at, std::span<uint8_t> to) {
    EXPECT_EQ(at, read);
    read += static_cast<uint32_t>(to.size());
    std::ranges::fill(to, ++now);
  });
  EXPECT_EQ(read, 3000u);
  const size_t covered = out.size() - 4;
  const uint32_t crc = testing::SlowCrc32c(std::span(out).first(covered));
  EXPECT_EQ(out[covered], static_cast<uint8_t>(crc));
  EXPECT_EQ(out[covered + 3], static_cast<uint8_t>(crc >> 24));
}

TEST(FramerTest, OnlyAPartWithTheCrcReadsTheWholeUlpdu) {
  const FpduShape shape{.ulpdu_bytes = 1454};
  const auto read = [&](uint32_t from, uint32_t n, bool crc) {
    Bytes out(n);
    size_t bytes = 0;
    WriteFpdu(shape, crc, from, out,
              [&](uint32_t, std::span<uint8_t> to) { bytes += to.size(); });
    return bytes;
  };
  EXPECT_EQ(read(0, 1000, true), 998u);
  EXPECT_EQ(read(500, 100, true), 100u);
  EXPECT_EQ(read(1456, 4, true), 1454u);
  EXPECT_EQ(read(1456, 4, false), 0u);
}

//= RFC 5044 4.5
TEST(FramerTest, AnFpduOfTheMulpduFitsIntoOneSegment) {
  EXPECT_EQ(Mulpdu(1460, false), 1454u);
  EXPECT_EQ(Mulpdu(1460, true), 1442u);
  EXPECT_EQ(Mulpdu(1449, false), 1442u);
  EXPECT_EQ(Mulpdu(6, false), 0u);
  EXPECT_EQ(Mulpdu(0, true), 0u);
  for (uint32_t emss = 40; emss < 9100; ++emss) {
    const uint32_t mulpdu = Mulpdu(emss, false);
    ASSERT_LE(wire::FpduBytes(mulpdu), emss);
    ASSERT_GT(wire::FpduBytes(mulpdu + 1), emss);
    for (const uint32_t phase : {0u, 4u, 256u, 504u, 508u}) {
      const FpduShape shape{
          .ulpdu_bytes = Mulpdu(emss, true), .phase = phase, .markers = true};
      ASSERT_LE(shape.wire_bytes(), emss) << emss << " " << phase;
    }
  }
}

TEST(FramerTest, TheDistanceOfEveryMarkerFitsIntoItsField) {
  EXPECT_EQ(Mulpdu(1 << 20, true), kMaxMulpdu);
  for (uint32_t phase = 0; phase < 512; phase += 4) {
    const FpduShape shape{
        .ulpdu_bytes = kMaxMulpdu, .phase = phase, .markers = true};
    ASSERT_LE(shape.wire_bytes(), 65536u);
  }
}

}  // namespace
}  // namespace urnic::mpa
